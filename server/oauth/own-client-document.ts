/**
 * `/oauth/clients/latchkey.json`: our proxy as a client of any server that reads such documents. It
 * listens on whatever loopback port is free.
 *
 * draft-ietf-oauth-client-id-metadata-document §4
 */
export function ownClientDocument(base: string) {
  return {
    client_id: `${base}/oauth/clients/latchkey.json`,
    client_name: 'Latchkey',
    redirect_uris: [
      'http://127.0.0.1/callback',
      'http://[::1]/callback',
      'http://localhost/callback',
    ],
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    token_endpoint_auth_method: 'none',
  };
}

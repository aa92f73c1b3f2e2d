import { accountPath } from './account-path.ts';

/** The server whose upstream we are a client of. */
export interface ClientPlace {
  readonly organization: string;
  readonly server: string;
}

/** Where an upstream's authorization server sends people back to: every server has a place of its own. */
export function redirectUriOf(base: string, { organization, server }: ClientPlace): string {
  return `${base}${accountPath({ organization, name: server })}/callback`;
}

/**
 * `/oauth/clients/upstream/{organization}/{server}`: this server as a client of the authorization server of one upstream.
 * Made from the path alone, so that it tells nobody which servers there are.
 *
 * draft-ietf-oauth-client-id-metadata-document §4
 */
export function upstreamClientDocument(base: string, place: ClientPlace) {
  return {
    client_id: `${base}/oauth/clients/upstream/${place.organization}/${place.server}`,
    client_name: 'Latchkey',
    client_uri: base,
    redirect_uris: [redirectUriOf(base, place)],
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    token_endpoint_auth_method: 'none',
  };
}

/** An option of mcp-remote; `value` is the placeholder of its value. */
export type RemoteFlag = {
  value?: string;
  repeated?: boolean;
  doc: string;
  /** Why it has no effect here. */
  idle?: string;
};

const timing = 'connections have limits of their own here';

/** Every option of mcp-remote 0.15, so that an entry that starts it can start us. */
export const remoteFlags = {
  header: { value: "'NAME: VALUE'", repeated: true, doc: 'sent with every request' },
  'header-file': { value: 'FILE', repeated: true, doc: 'a header a line' },
  transport: { value: 'STRATEGY', doc: 'http-first, sse-first, http-only or sse-only' },
  'static-oauth-client-info': { value: 'JSON|@FILE', doc: 'the OAuth client' },
  'static-oauth-client-metadata': { value: 'JSON|@FILE', doc: 'of which the scope is asked for' },
  'client-metadata-url': { value: 'URL', doc: 'the client id that is a document' },
  'client-credentials': { doc: 'the client signs in, not a person' },
  resource: { value: 'URL', doc: 'RFC 8707’s resource' },
  'disable-resource-parameter': { doc: 'send none' },
  'authorize-param': { value: 'KEY=VALUE', repeated: true, doc: 'for the authorization request' },
  host: { value: 'HOST', doc: 'of the redirect URI: localhost or 127.0.0.1' },
  'callback-path': { value: 'PATH', doc: 'of the redirect URI' },
  'ignore-tool': { value: 'PATTERN', repeated: true, doc: 'hide tools, with * for anything' },
  debug: { doc: 'the same as --log-level debug' },
  silent: { doc: 'the same as --log-level error' },
  'enable-proxy': { doc: 'no effect: HTTPS_PROXY is used without it' },
  protocol: { value: 'legacy|auto', doc: 'no effect: the era is detected' },
  'allow-http': { doc: '', idle: 'a credential never goes over plain http to another machine' },
  'auth-success-url': { value: 'URL', doc: '', idle: 'the browser ends at our own page' },
  'auth-timeout': { value: 'N', doc: '', idle: 'a person has ten minutes to sign in' },
  'device-code': { doc: '', idle: 'latchkey login works without a browser on this machine' },
  'use-id-token': { doc: '', idle: 'the access token is what proves a right' },
  'token-endpoint': { value: 'URL', doc: '', idle: 'the server’s metadata says where it is' },
  'disable-cookies': { doc: '', idle: 'no cookies are kept' },
  ipv4: { doc: '', idle: 'both families are tried' },
  'keep-alive': { doc: '', idle: 'a broken stream is resumed' },
  'ping-interval': { value: 'N', doc: '', idle: 'a broken stream is resumed' },
  'connect-timeout': { value: 'N', doc: '', idle: timing },
  'headers-timeout': { value: 'N', doc: '', idle: timing },
  'body-timeout': { value: 'N', doc: '', idle: timing },
} as const satisfies Record<string, RemoteFlag>;

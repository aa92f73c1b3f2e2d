/** An option of mcp-remote; `value` is the placeholder of its value. */
export type RemoteFlag = {
  value?: string;
  repeated?: boolean;
  doc: string;
  /** Why it has no effect in Latchkey. */
  idle?: string;
};

const timing = 'Latchkey uses its own time limits';

/** Every option of mcp-remote 0.15, so that Latchkey can replace it in an entry. */
export const remoteFlags = {
  header: { value: "'NAME: VALUE'", repeated: true, doc: 'send this header with every request' },
  'header-file': {
    value: 'FILE',
    repeated: true,
    doc: 'send the headers in this file, one per line',
  },
  transport: {
    value: 'STRATEGY',
    doc: 'how to reach the server: http-first, sse-first, http-only or sse-only',
  },
  'static-oauth-client-info': {
    value: 'JSON|@FILE',
    doc: 'the registered OAuth client, with client_id and client_secret',
  },
  'static-oauth-client-metadata': {
    value: 'JSON|@FILE',
    doc: 'metadata of the OAuth client; only its scope is used',
  },
  'client-metadata-url': {
    value: 'URL',
    doc: 'the URL of a client metadata document, used as the client ID',
  },
  'client-credentials': { doc: 'sign in as the OAuth client itself, without a person' },
  resource: {
    value: 'URL',
    doc: 'the resource parameter (RFC 8707), instead of what the server says',
  },
  'disable-resource-parameter': { doc: 'send no resource parameter' },
  'authorize-param': {
    value: 'KEY=VALUE',
    repeated: true,
    doc: 'add this parameter to the authorization request',
  },
  host: { value: 'HOST', doc: 'the host of the redirect URI: localhost or 127.0.0.1' },
  'callback-path': { value: 'PATH', doc: 'the path of the redirect URI' },
  'ignore-tool': {
    value: 'PATTERN',
    repeated: true,
    doc: 'hide the tools that match; * stands for any text',
  },
  debug: { doc: 'the same as --log-level debug' },
  silent: { doc: 'the same as --log-level error' },
  'enable-proxy': { doc: 'no effect: HTTPS_PROXY is used without it' },
  protocol: { value: 'legacy|auto', doc: 'no effect: the protocol is detected' },
  'allow-http': {
    doc: '',
    idle: 'Latchkey never sends credentials over plain http to another computer',
  },
  'auth-success-url': { value: 'URL', doc: '', idle: 'the browser ends at Latchkey’s own page' },
  'auth-timeout': { value: 'SECONDS', doc: '', idle: 'the time limit is ten minutes' },
  'device-code': { doc: '', idle: 'latchkey login also works where there is no browser' },
  'use-id-token': { doc: '', idle: 'only access tokens grant access' },
  'token-endpoint': { value: 'URL', doc: '', idle: 'the metadata of the server contains it' },
  'disable-cookies': { doc: '', idle: 'cookies are not stored' },
  ipv4: { doc: '', idle: 'Latchkey tries IPv4 and IPv6' },
  'keep-alive': { doc: '', idle: 'Latchkey resumes interrupted streams' },
  'ping-interval': { value: 'SECONDS', doc: '', idle: 'Latchkey resumes interrupted streams' },
  'connect-timeout': { value: 'SECONDS', doc: '', idle: timing },
  'headers-timeout': { value: 'SECONDS', doc: '', idle: timing },
  'body-timeout': { value: 'SECONDS', doc: '', idle: timing },
} as const satisfies Record<string, RemoteFlag>;

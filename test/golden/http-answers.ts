import { createHash } from 'node:crypto';
import { allow } from '#support/consenting-person';
import { modern, rpc } from '#support/mcp-call';
import type { RecordingUpstream } from '#support/upstreams/recording-upstream';
import { describeEcho } from '#support/upstreams/changing-tools';
import type { TokenUpstream } from '#support/token-upstream';
import { visitor } from '#support/visitor';
import { layOutJson } from './normalize.ts';
import { password, type FilledData } from './server-commands.ts';

/** Headers that say nothing about our programs, or differ from run to run. */
const unrecorded = new Set([
  'connection',
  'content-length',
  'date',
  'keep-alive',
  'transfer-encoding',
]);
/** Headers that are recorded without their values. */
const opaque = new Set(['etag', 'mcp-session-id', 'set-cookie', 'x-request-id']);

/** Requests that were sent and what the server answered, by the name of the file that they are recorded in. */
type Answers = Map<string, string>;

interface Request {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | URLSearchParams;
}

/** Sends requests and records their answers in `answers`, each under a title. */
function recorder(base: string, answers: Answers) {
  return async (file: string, title: string, path: string, request: Request = {}) => {
    const { method = request.body === undefined ? 'GET' : 'POST', ...init } = request;
    const answer = await fetch(base + path, { ...init, method, redirect: 'manual' });
    const text = await answer.text();
    const headers = [...answer.headers]
      .filter(([name]) => !unrecorded.has(name))
      .map(([name, value]) => `${name}: ${opaque.has(name) ? '<opaque>' : value}\n`);
    const known = answers.get(file) ?? '';
    const head = `# ${title}\n${method} ${path}\n${answer.status}\n${headers.join('')}`;
    const body = text === '' ? '' : `\n${bodyText(answer, text).trimEnd()}\n`;
    answers.set(file, `${known}${head}${body}\n`);
    return { text, headers: answer.headers };
  };
}

function bodyText({ headers }: Response, text: string): string {
  const type = headers.get('content-type') ?? '';
  if (/json/.test(type)) return layOutJson(JSON.parse(text));
  // The words of pages have tests of their own.
  return /html/.test(type) ? '(a page)' : text;
}

/** What the server answers to programs: documents, tokens, calls and refusals. */
export async function recordAnswers(
  base: string,
  answers: Answers,
  data: FilledData,
): Promise<void> {
  const ask = recorder(base, answers);
  // First, because the server writes the last use of a key or a token some time after that use.
  await administration(ask, data);
  await documents(ask);
  await calls(ask, data);
  await refusedCalls(ask, data);
  await tokens(ask, data, base);
}

type Ask = ReturnType<typeof recorder>;

async function documents(ask: Ask): Promise<void> {
  const file = 'http/documents.txt';
  const document = (title: string, path: string) => ask(file, title, path);
  await document('authorization server', '/.well-known/oauth-authorization-server');
  await document('protected resource', '/.well-known/oauth-protected-resource/mcp/acme/library');
  await document('signing keys', '/.well-known/jwks.json');
  await document('OpenID configuration', '/.well-known/openid-configuration');
  await document('client document of this server', '/oauth/clients/latchkey.json');
  await document('client document for an upstream', '/oauth/clients/upstream/acme/crm');
  await document('health', '/healthz');
  await document('readiness', '/readyz');
  await document('nothing', '/nothing');
  await ask(file, 'a page of another site asks', '/.well-known/oauth-authorization-server', {
    method: 'OPTIONS',
    headers: { origin: 'https://app.example.com', 'access-control-request-method': 'GET' },
  });
  await ask('http/openapi.txt', 'the admin API', '/api/admin/openapi.json');
}

const library = '/mcp/acme/library';
const acceptsBoth = 'application/json, text/event-stream';
const initialize = rpc('initialize', {
  protocolVersion: '2025-11-25',
  capabilities: {},
  clientInfo: { name: 'golden', version: '1' },
});

async function calls(ask: Ask, { libraryKey }: FilledData): Promise<void> {
  const file = 'http/mcp.txt';
  const json = { 'content-type': 'application/json', 'x-api-key': libraryKey, accept: acceptsBoth };
  const { headers } = await ask(file, 'initialize', library, { headers: json, body: initialize });
  const session = headers.get('mcp-session-id');
  const legacy = { ...json, ...(session !== null && { 'mcp-session-id': session }) };
  const said = (method: string, params?: object) =>
    ask(file, method, library, { headers: legacy, body: rpc(method, params) });
  await said('tools/list');
  await said('resources/list');
  await said('prompts/list');
  await said('tools/call', { name: 'list_tables', arguments: {} });
  await said('tools/call', { name: 'nothing', arguments: {} });
  await said('ping');
  for (const [method, params] of [
    ['server/discover', {}],
    ['tools/list', {}],
    ['tools/call', { name: 'list_tables', arguments: {} }],
  ] as const) {
    const call = modern(method, params);
    const modernHeaders = { ...json, ...call.headers };
    await ask(file, `${method}, modern`, library, { headers: modernHeaders, body: call.body });
  }
  await ask(file, 'settings', '/api/servers/acme/library', {
    headers: { 'x-api-key': libraryKey },
  });
}

async function refusedCalls(ask: Ask, { libraryKey, readingKey }: FilledData): Promise<void> {
  const file = 'http/refused-calls.txt';
  const list = rpc('tools/list');
  const json = { 'content-type': 'application/json', accept: acceptsBoth };
  const keyed = { ...json, 'x-api-key': libraryKey };
  const wrong = `mcp_${'0'.repeat(36)}`;
  const refused = (title: string, request: Request) => ask(file, title, library, request);
  await refused('no credential', { headers: json, body: list });
  await refused('wrong key', { headers: { ...json, 'x-api-key': wrong }, body: list });
  // The record of an organization counts equal refusals, so each refusal is requested only once in an organization.
  await ask(file, 'wrong token', '/mcp/globex/none', {
    headers: { ...json, authorization: 'Bearer x' },
    body: list,
  });
  await refused('two credentials', {
    headers: { ...keyed, authorization: 'Bearer x' },
    body: list,
  });
  await refused('too small a scope', {
    headers: { ...json, 'x-api-key': readingKey },
    body: list,
  });
  await refused('a page of another site', {
    headers: { ...keyed, origin: 'https://app.example.com' },
    body: list,
  });
  await refused('PUT', { method: 'PUT', headers: keyed, body: list });
  await refused('GET without a session', { headers: { ...keyed, accept: 'text/event-stream' } });
  await refused('a session that does not exist', {
    headers: { ...keyed, 'mcp-session-id': 'none' },
    body: list,
  });
  await refused('text', { headers: { ...keyed, 'content-type': 'text/plain' }, body: list });
  await refused('an answer as an image', {
    headers: { ...keyed, accept: 'image/png' },
    body: list,
  });
  await refused('half a message', { headers: keyed, body: '{"jsonrpc":' });
  await refused('a batch', { headers: keyed, body: '[]' });
  await refused('an unknown method', { headers: keyed, body: rpc('tools/make') });
  const unknown = modern('tools/make');
  await refused('an unknown method, modern', {
    headers: { ...keyed, ...unknown.headers },
    body: unknown.body,
  });
  const call = modern('tools/list');
  await refused('headers of another message', {
    headers: { ...keyed, ...call.headers, 'mcp-method': 'tools/call' },
    body: call.body,
  });
  await refused('a version of the future', {
    headers: { ...keyed, ...call.headers, 'mcp-protocol-version': '2099-01-01' },
    body: call.body.replaceAll('2026-07-28', '2099-01-01'),
  });
  await ask(file, 'a server that does not exist', '/mcp/acme/none', { headers: keyed, body: list });
  await ask(file, 'settings without a credential', '/api/servers/acme/library');
  await ask(file, 'an agent without a key', '/api/agents/connect');
}

async function tokens(ask: Ask, data: FilledData, base: string): Promise<void> {
  const file = 'http/oauth.txt';
  const { clientId, clientSecret } = data;
  const client = { client_id: clientId, client_secret: clientSecret };
  const post = (title: string, where: string, fields: Record<string, string>) =>
    ask(file, title, `/api/oauth/${where}`, { body: new URLSearchParams(fields) });
  const machine = { grant_type: 'client_credentials', ...client };
  const { text } = await post('client credentials', 'token', machine);
  const { access_token: token } = fieldsOf(text);
  await post('introspection', 'introspect', { token, ...client });
  await post('revocation', 'revoke', { token, ...client });
  await post('introspection of a revoked token', 'introspect', { token, ...client });

  const verifier = 'v'.repeat(43);
  const redirect = { redirect_uri: 'http://127.0.0.1/callback' };
  const page = new URL('/oauth/consent', base);
  page.search = new URLSearchParams({
    client_id: clientId,
    response_type: 'code',
    state: 'state',
    code_challenge: createHash('sha256').update(verifier).digest('base64url'),
    code_challenge_method: 'S256',
    ...redirect,
  }).toString();
  const back = await allow(page, { email: 'dana@example.com', password });
  const code = back.searchParams.get('code') ?? '';
  const redeemed = { grant_type: 'authorization_code', code, code_verifier: verifier, ...redirect };
  const { text: granted } = await post('authorization code', 'token', { ...redeemed, ...client });
  const personal = fieldsOf(granted);
  await ask(file, 'the person of a token', '/api/oauth/userinfo', {
    headers: { authorization: `Bearer ${personal.access_token}` },
  });
  const renewal = { grant_type: 'refresh_token', refresh_token: personal.refresh_token, ...client };
  await post('refresh token', 'token', renewal);
  await ask(file, 'registration', '/api/oauth/register', {
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ client_name: 'Newcomer', redirect_uris: ['http://127.0.0.1/back'] }),
  });

  await post('no grant type', 'token', client);
  await post('unknown grant type', 'token', { ...client, grant_type: 'password' });
  await post('wrong secret', 'token', { ...machine, client_secret: 'wrong' });
  await post('unknown scope', 'token', { ...machine, scope: 'mcp:everything' });
  await post('unknown resource', 'token', { ...machine, resource: `${base}/mcp/acme/none` });
  await post('unknown code', 'token', { ...redeemed, ...client, code: 'code_unknown' });
  await post('introspection without a client', 'introspect', { token });
  await ask(file, 'the person of no token', '/api/oauth/userinfo');
  await ask(file, 'parameters in the URL', '/api/oauth/token?grant_type=password', {
    body: new URLSearchParams(),
  });
  await ask(file, 'a registration without redirect URIs', '/api/oauth/register', {
    headers: { 'content-type': 'application/json' },
    body: '{}',
  });
}

async function administration(ask: Ask, { personalToken }: FilledData): Promise<void> {
  const file = 'http/admin-api.txt';
  const authorization = `Bearer ${personalToken}`;
  const acme = '/organizations/acme';
  const act = (title: string, path: string, method = 'GET', body?: object) =>
    ask(file, title, `/api/admin${path}`, {
      method,
      headers: { authorization, ...(body && { 'content-type': 'application/json' }) },
      ...(body && { body: JSON.stringify(body) }),
    });
  await act('organizations', '/organizations');
  await act('servers', `${acme}/servers`);
  await act('one server', `${acme}/servers/library`);
  await act('clients, in pages', `${acme}/clients?limit=1&page=2`);
  await act('keys', `${acme}/keys`);
  await act('agents', `${acme}/agents`);
  await act('people', `${acme}/people`);
  await act('groups', `${acme}/groups`);
  await act('invitations', `${acme}/invitations`);
  const list = 'email,role\npeggy@example.com,viewer\npeggy@example.com';
  await act('check a list of people', `${acme}/invitations/preview`, 'POST', { list });
  await act('invite them', `${acme}/invitations/import`, 'POST', { list });
  const faulty = { list: 'peggy@example.com,boss\nnobody' };
  await act('a faulty list', `${acme}/invitations/import`, 'POST', faulty);
  await act('create a group', `${acme}/groups`, 'POST', { name: 'made' });
  await act('create it again', `${acme}/groups`, 'POST', { name: 'made' });
  await act('update a server', `${acme}/servers/library`, 'PATCH', { title: 'Books' });
  await act('an unknown field', `${acme}/servers/library`, 'PATCH', { colour: 'red' });
  await act('a wrong value', `${acme}/servers`, 'POST', { name: 'NO', upstream: { kind: 'x' } });
  await act('a server that does not exist', `${acme}/servers/none`);
  await act('an organization of others', '/organizations/none/servers');
  await act('a path that does not exist', '/nothing');
  await ask(file, 'no token', '/api/admin/organizations');
  await ask(file, 'wrong token', '/api/admin/organizations', {
    headers: { authorization: `Bearer pat_${'0'.repeat(36)}` },
  });
  await ask(file, 'half a body', `/api/admin${acme}/groups`, {
    headers: { authorization, 'content-type': 'application/json' },
    body: '{',
  });
}

function fieldsOf(text: string): { access_token: string; refresh_token: string } {
  const { access_token = '', refresh_token = '' } = JSON.parse(text);
  return { access_token: String(access_token), refresh_token: String(refresh_token) };
}

/** Acts as people and callers, so that commands have something to show. Nothing of this is recorded. */
export async function useServer(
  base: string,
  { toolsKey }: FilledData,
  { tools, account }: { tools: RecordingUpstream; account: TokenUpstream },
): Promise<void> {
  const headers = { 'content-type': 'application/json', 'x-api-key': toolsKey };
  for (const description of ['Echoes.', 'Echoes, and sends a copy to somebody.']) {
    describeEcho(tools, description);
    const init = { method: 'POST', headers, body: rpc('tools/list') };
    await (await fetch(`${base}/mcp/acme/tools`, init)).text();
  }

  const eve = visitor(base);
  await eve.signIn('eve@example.com', 'a wrong password');
  await eve.signIn('eve@example.com', password);
  const place = '/dashboard/acme/servers/crm/account';
  const begun = await (await eve.submit(place, {})).text();
  const onward = (/url=([^"]+)"/.exec(begun)?.[1] ?? '').replaceAll('&amp;', '&');
  const back = await account.consent(onward, 'eve-there');
  await eve.get(back.pathname + back.search);
}

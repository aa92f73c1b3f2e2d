import { afterEach, beforeEach, describe, expect, test } from 'vitest';

import { insertClient, revokeClient } from '#server/db/clients';
import { insertKey, revokeKey } from '#server/db/keys';
import { revokeAccessToken } from '#server/db/revoked-tokens';
import { updateServer } from '#server/db/servers';
import { sqliteAdmissions } from '#server/db/sqlite/admission-store';
import { EraAdapters } from '#server/gateway/era-adapters';
import { Gateway } from '#server/gateway/gateway';
import { GatewayRefusal } from '#server/gateway/gateway-refusal';
import type { GatewayAnswer, GatewayRequest } from '#server/gateway/request';
import { principalSeal } from '#server/gateway/seal';
import type { Upstream } from '#server/gateway/upstream';
import { accessTokens } from '#server/oauth/access-tokens';
import { type Scope, allScopes } from '#server/model/scopes';
import { hashSecret, mintSecret } from '#server/secrets/secrets';
import type { OpenStores } from '#server/app/stores';
import { openDatabase, openDatabaseIn } from '#support/open-database';
import { fakeMac } from '#support/fake-mac';
import { eventStream, upstreamAnswer, type ScriptedAnswer } from '#support/fake-upstream';
import { freshSigningKeys } from '#support/fresh-signing-keys';
import { bodyText } from '#support/gateway-answer';
import { madeAt, makeServer, newClient, newKey } from '#support/made-records';
import { modern, rpc } from '#support/mcp-call';
import { stillClock } from '#support/still-clock';
import { temporaryFolder } from '#support/temporary-folder';

const base = 'https://latchkey.example.com';
const key = mintSecret('mcp_');
const now = stillClock(madeAt + 60);
const tokens = accessTokens(base, { keys: await freshSigningKeys(now), clock: now });
const tokenFor = (serverPath: string, expiresAt = madeAt + 3600) =>
  tokens.issue({
    id: 'token-1',
    subject: 'client_a',
    clientId: 'client_a',
    audience: `${base}/mcp/${serverPath}`,
    scopes: ['mcp:tools:read', 'mcp:tools:execute'],
    issuedAt: madeAt,
    expiresAt,
  });
const bearer = (token: string) => ({ rawHeaders: ['Authorization', `Bearer ${token}`] });
const token = tokenFor('acme/sales');
const ownSeal = principalSeal('key:key_a srv_sales', fakeMac);

/** Whether the gateway has everything that a call needs at hand, or must wait for each part. */
type Way = 'fast' | 'ordinary';

let stores: OpenStores;
/** Everything that one gateway did: what the log and the audit log were told, what was counted, what the upstream got. */
let told: unknown[];
let gateway: Gateway;
let script: (text: string) => ScriptedAnswer;
let isSending = false;
let sentInTurn: boolean[];
/** How often the gateway read the change token. */
let looks = 0;

const initialized = '{"jsonrpc":"2.0","id":"initialize","result":{"protocolVersion":"2025-06-18"}}';
const noMethod = '{"jsonrpc":"2.0","id":"discover","error":{"code":-32601,"message":"no"}}';

/** An upstream of the legacy era. A JSON body is whole on the fast path, and arrives as a stream on the ordinary one. */
function upstreamFor(way: Way): Upstream {
  return {
    async send({ method, headers, body }) {
      const text = Buffer.from(body ?? []).toString();
      told.push({ sent: { method, headers, text } });
      sentInTurn.push(isSending);
      const said = text.includes('server/discover')
        ? { text: noMethod }
        : text.includes('"initialize"')
          ? { text: initialized, sessionId: 'theirs' }
          : script(text);
      if (way === 'ordinary') return upstreamAnswer(said);
      const { text: answered, mediaType = 'application/json' } = said;
      const isWhole = typeof answered === 'string' && mediaType === 'application/json';
      return upstreamAnswer(isWhole ? { ...said, text: Buffer.from(answered) } : said);
    },
  };
}

function newGateway(way: Way): Gateway {
  const clock = now;
  const admissions = sqliteAdmissions(stores.connection);
  const changeToken = () => {
    looks += 1;
    return admissions.changeToken();
  };
  return new Gateway({
    base,
    clock,
    used: (use) => told.push({ use }),
    refused: ({ code, details }, { organization, server }, principal) =>
      told.push({ refused: code, detail: details.detail, organization, server, principal }),
    note: (call) => told.push({ call: { ...call, ms: 0 } }),
    admissions: { ...admissions, changeToken },
    tokens,
    endpointUrl: (serverPath) => `${base}/mcp/${serverPath}`,
    mac: fakeMac,
    upstreamOf: () => upstreamFor(way),
    pinned: (answer) => Promise.resolve(answer),
    left: () => {},
    eras: new EraAdapters(clock),
    presentationOf: () => Promise.resolve(undefined),
    isAllowedOrigin: (origin) => origin === undefined,
  });
}

/** The scopes of the key, and the settings of the server. */
interface Setting {
  readonly scopes?: readonly Scope[];
  readonly hiddenTools?: readonly string[];
  readonly limits?: { readonly requestBytes?: number; readonly answerBytes?: number };
}

async function open(way: Way, { scopes = allScopes, hiddenTools, limits }: Setting = {}) {
  stores = await openDatabase();
  await makeServer(stores);
  const changes = { ...(hiddenTools && { hiddenTools }), ...(limits && { limits }) };
  if (hiddenTools || limits) await updateServer(stores.db, 'srv_sales', changes);
  await insertKey(stores.db, newKey({ hash: hashSecret(key), scopes }));
  await insertClient(stores.db, newClient());
  told = [];
  sentInTurn = [];
  script = (text) => ({ text: text.replace(/"method".*/, '"result":{}}') });
  gateway = newGateway(way);
  // Makes the handshake that plain requests need.
  await ask(way, { body: rpc('ping') });
  // Verifies the token, so that no case does so for the first time.
  await ask(way, { body: rpc('ping'), ...bearer(token) });
  told = [];
  sentInTurn = [];
}

async function close() {
  await gateway.close();
  await stores.close();
}

interface Case extends Partial<Pick<GatewayRequest, 'method' | 'headers' | 'rawHeaders'>> {
  readonly body?: string | Uint8Array;
}

function requestOf(way: Way, { body = rpc('ping'), ...but }: Case): GatewayRequest {
  const read = () => {
    const bytes = Buffer.from(body);
    if (bytes.length <= 2000) return bytes;
    throw new GatewayRefusal('too_large', { detail: 'at most 2000 bytes are accepted' });
  };
  return {
    id: 'request-1',
    method: 'POST',
    organization: 'acme',
    server: 'sales',
    rawHeaders: ['X-API-Key', key],
    gone: new AbortController().signal,
    ...but,
    headers: { 'content-type': 'application/json', ...but.headers },
    readBody: way === 'fast' ? read : async () => read(),
  };
}

async function ask(way: Way, each: Case): Promise<GatewayAnswer> {
  const request = requestOf(way, each);
  if (way === 'ordinary') return gateway.handle(request);
  let answer: ReturnType<Gateway['answer']> | undefined;
  isSending = true;
  gateway.together(() => {
    answer = gateway.answer(request);
  });
  isSending = false;
  if (!answer) throw new Error('no answer');
  return answer;
}

/** The answer, and everything else that the gateway did, as in `told`. */
async function outcome(way: Way, each: Case, answers?: typeof script, setting?: Setting) {
  await open(way, setting);
  if (answers) script = answers;
  const { status, headers, ...answer } = await ask(way, each);
  const text = await bodyText({ status, headers, ...answer }).catch(String);
  await close();
  return { status, headers, text, told };
}

/** The outcomes of the same call on both paths. */
async function outcomes(each: Case, answers?: typeof script, setting?: Setting) {
  const fast = await outcome('fast', each, answers, setting);
  return { fast, ordinary: await outcome('ordinary', each, answers, setting) };
}

const call = rpc('tools/call', { name: 'query', arguments: { text: 'é' } }, 7);
const result = (members: string, id = 'x') => `{"jsonrpc":"2.0","id":${id},"result":${members}}`;
/** An answer under the id that the request was sent with. */
const to = (members: string) => (text: string) => ({
  text: result(members, /"id":([^,]+)/.exec(text)?.[1]),
});

describe('the fast path and the ordinary pipeline give the same result for', () => {
  test.each<[string, string | Uint8Array]>([
    ['a call', call],
    [
      'a call with blanks and an id that is a string',
      ' {"jsonrpc": "2.0", "id": "é\\"", "method": "ping"} ',
    ],
    ['an id that is a long number', '{"jsonrpc":"2.0","id":12345678901234567890,"method":"ping"}'],
    ['a notification', '{"jsonrpc":"2.0","method":"notifications/initialized"}'],
    ['a request without an id', '{"jsonrpc":"2.0","method":"tools/list"}'],
    ['a list of tools', rpc('tools/list')],
    ['initialize', rpc('initialize', { protocolVersion: '2025-06-18' })],
    ['a response to nothing', result('{}', '7')],
    ['nothing', ''],
    ['no JSON', '{'],
    ['invalid UTF-8', Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x7d])],
    ['a batch', `[${call}]`],
    ['an id twice', '{"jsonrpc":"2.0","id":7,"id":8,"method":"ping"}'],
    [
      'an argument twice, deep inside',
      rpc('tools/call').replace('}', ',"params":{"name":"query","arguments":{"a":{"b":1,"b":2}}}}'),
    ],
    ['a method in another case', '{"jsonrpc":"2.0","id":7,"Method":"ping"}'],
    [
      'too many levels',
      `{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":${'['.repeat(70)}${']'.repeat(70)}}}`,
    ],
    ['a lone surrogate', '{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":"\\ud800"}}'],
    ['an unknown method', rpc('sampling/createMessage')],
    ['a method that is never forwarded', rpc('tasks/list')],
    ['a tool without a name', rpc('tools/call', {})],
    [
      'a tool whose name is an array',
      '{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":["query"]}}',
    ],
    ['params that are an array', '{"jsonrpc":"2.0","id":7,"method":"tools/call","params":[1]}'],
    ['a task of somebody else', rpc('tasks/get', { taskId: 'theirs' })],
    ['a task of its own', rpc('tasks/get', { taskId: ownSeal.seal('task', 'task-1') })],
    ['a cancellation', rpc('notifications/cancelled', { requestId: 7 }).replace('"id":1,', '')],
    ['too large a body', rpc('ping', { text: 'x'.repeat(3000) })],
  ])('%s', async (_, body) => {
    const { fast, ordinary } = await outcomes({ body });

    expect(fast).toEqual(ordinary);
    expect(fast.told).not.toEqual([]);
  });

  test.each<[string, Case]>([
    ['a page of another origin', { headers: { origin: 'https://evil.example' } }],
    ['a GET without a session', { method: 'GET' }],
    ['a PUT', { method: 'PUT' }],
    ['another media type', { headers: { 'content-type': 'text/plain' } }],
    [
      'a media type with parameters',
      { headers: { 'content-type': 'Application/JSON; charset=utf-8' } },
    ],
    ['an answer in no form', { headers: { accept: 'text/html' } }],
    ['an answer as events alone', { headers: { accept: 'text/event-stream' } }],
    ['no credential', { rawHeaders: [] }],
    ['one credential twice', { rawHeaders: ['X-API-Key', key, 'x-api-key', key] }],
    ['two credentials', { rawHeaders: ['X-API-Key', key, 'Authorization', `Bearer ${key}`] }],
    ['a key as a bearer token', { rawHeaders: ['authorization', `bearer ${key}`] }],
    ['a key with a wrong checksum', { rawHeaders: ['X-API-Key', `${key.slice(0, -1)}-`] }],
    ['the key of nobody', { rawHeaders: ['X-API-Key', mintSecret('mcp_')] }],
    ['a token', bearer(token)],
    ['a token for another server', bearer(tokenFor('acme/other'))],
    ['a token that has expired', bearer(tokenFor('acme/sales', madeAt + 60))],
    ['a token with another signature', bearer(`${token.slice(0, -8)}AAAAAAAQ`)],
    ['no token', bearer('eyJ.e.e')],
    ['an unknown session', { headers: { 'mcp-session-id': 'unknown' } }],
    ['an unknown version', { headers: { 'mcp-protocol-version': '1999-01-01' } }],
    ['a version of the legacy era', { headers: { 'mcp-protocol-version': '2025-06-18' } }],
    ['a trace', { headers: { traceparent: `00-${'1'.repeat(32)}-${'2'.repeat(16)}-01` } }],
  ])('%s', async (_, each) => {
    const { fast, ordinary } = await outcomes({ body: call, ...each });

    expect(fast).toEqual(ordinary);
  });

  test.each<[string, Record<string, string>]>([
    ['a modern request', {}],
    ['a modern request with another name in its headers', { 'mcp-name': 'other' }],
    ['a modern request with another method in its headers', { 'mcp-method': 'tools/list' }],
  ])('%s', async (_, but) => {
    const { body, headers } = modern('tools/call', { name: 'query', arguments: {} }, 7);
    const { fast, ordinary } = await outcomes({ body, headers: { ...headers, ...but } });

    expect(fast).toEqual(ordinary);
  });

  test.each<[string, Setting]>([
    ['a caller without the scope', { scopes: ['mcp:tools:read'] }],
    ['a hidden tool', { hiddenTools: ['query'] }],
    ['a request that is larger than allowed', { limits: { requestBytes: 10 } }],
    ['an answer that is larger than allowed', { limits: { answerBytes: 10 } }],
    ['limits that it keeps', { limits: { requestBytes: 1000, answerBytes: 1000 } }],
  ])('%s', async (_, setting) => {
    const { fast, ordinary } = await outcomes({ body: call }, undefined, setting);

    expect(fast).toEqual(ordinary);
  });

  test.each<[string, (text: string) => ScriptedAnswer]>([
    ['an answer with content', to('{"content":[{"type":"text","text":"é"}]}')],
    ['an error of the tool', to('{"content":[],"isError":true}')],
    [
      'an error of the protocol',
      () => ({ text: '{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no"}}' }),
    ],
    ['a task', to('{"task":{"taskId":"task-1"}}')],
    ['a state', to('{"requestState":"their state"}')],
    ['an answer without an id', () => ({ text: '{"jsonrpc":"2.0","result":{}}' })],
    ['an answer that is a request', () => ({ text: rpc('ping') })],
    ['a result for another request', () => ({ text: result('{}', '999') })],
    ['an answer with a member twice', to('{"a":1,"a":2}')],
    ['an answer that is not JSON', () => ({ text: 'oops' })],
    ['an empty answer', () => ({ text: '' })],
    ['a long answer', to(`{"text":"${'x'.repeat(100_000)}"}`)],
    [
      'an event stream',
      (text) => ({
        mediaType: 'text/event-stream',
        text: eventStream(
          '{"jsonrpc":"2.0","method":"notifications/message"}',
          to('{}')(text).text,
        ),
      }),
    ],
    ['202', () => ({ status: 202 })],
    ['204', () => ({ status: 204 })],
    [
      '400 in JSON-RPC',
      () => ({
        status: 400,
        text: '{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"no"}}',
      }),
    ],
    ['401', () => ({ status: 401, challenge: 'Bearer' })],
    ['403', () => ({ status: 403 })],
    ['404, as of a session that was forgotten', () => ({ status: 404 })],
    ['429', () => ({ status: 429, retryAfterSeconds: 7 })],
    ['500', () => ({ status: 500 })],
    ['HTML', () => ({ mediaType: 'text/html', text: '<p>' })],
  ])('%s', async (_, answers) => {
    const { fast, ordinary } = await outcomes({ body: call }, answers);

    expect(withoutCallId(fast)).toEqual(withoutCallId(ordinary));
  });
});

/** The outcome without the seal of a state, which contains the id of its call. */
function withoutCallId(answer: unknown): unknown {
  const text = JSON.stringify(answer);
  return JSON.parse(text.replaceAll(/[\w-]{22}\.[\da-f]{24}(?=[."\\])/g, 'SEALED'));
}

describe('the fast path', () => {
  afterEach(close);

  test('reaches the upstream in the turn of the call, and the ordinary pipeline later', async () => {
    await open('fast');
    await ask('fast', { body: call });
    await ask('fast', { body: call, ...bearer(token) });
    const fast = [...sentInTurn];
    await close();
    await open('ordinary');
    await ask('ordinary', { body: call });
    await ask('ordinary', { body: call, ...bearer(token) });

    expect([fast, sentInTurn]).toEqual([
      [true, true],
      [false, false],
    ]);
  });

  test('checks once for all calls of a turn whether the database changed', async () => {
    await open('fast');
    looks = 0;
    const answers: unknown[] = [];
    gateway.together(() => {
      for (const id of [1, 2, 3])
        answers.push(gateway.answer(requestOf('fast', { body: rpc('ping', {}, id) })));
    });

    expect(await Promise.all(answers)).toMatchObject([
      { status: 200 },
      { status: 200 },
      { status: 200 },
    ]);
    expect(looks).toBe(1);
  });
});

describe('46: revocation: on the fast path the next call', () => {
  let other: OpenStores;

  beforeEach(async () => {
    await open('fast');
  });

  afterEach(close);

  test('with a key that was revoked is refused, and nothing of it reaches the upstream', async () => {
    expect((await ask('fast', { body: call })).status).toBe(200);
    sentInTurn = [];

    await revokeKey(stores.db, 'key_a', madeAt + 60);

    expect((await ask('fast', { body: call })).status).toBe(401);
    expect(sentInTurn).toEqual([]);
  });

  test.each([
    [
      'that was revoked',
      () => revokeAccessToken(stores.db, { id: 'token-1', expiresAt: madeAt + 3600 }, madeAt + 60),
    ],
    ['of a client that was revoked', () => revokeClient(stores.db, 'client_a', madeAt + 60)],
  ])('with a token %s is refused, and nothing of it reaches the upstream', async (_, revoke) => {
    const withToken = { body: call, ...bearer(token) };
    expect((await ask('fast', withToken)).status).toBe(200);
    sentInTurn = [];

    await revoke();

    expect((await ask('fast', withToken)).status).toBe(401);
    expect(sentInTurn).toEqual([]);
  });

  test('with a key whose server was disabled is refused', async () => {
    expect((await ask('fast', { body: call })).status).toBe(200);

    await stores.db.updateTable('endpoint').set({ disabled_at: madeAt }).execute();

    expect((await ask('fast', { body: call })).status).toBe(401);
  });

  test('of a tool that was hidden is refused', async () => {
    expect(await bodyText(await ask('fast', { body: call }))).toContain('"result"');

    await updateServer(stores.db, 'srv_sales', { hiddenTools: ['query'] });

    expect(await bodyText(await ask('fast', { body: call }))).toContain('unknown tool');
  });

  test('sees a change that another process wrote', async () => {
    await close();
    await using folder = await temporaryFolder();
    stores = await openDatabaseIn(folder.path);
    other = await openDatabaseIn(folder.path);
    await makeServer(stores);
    await insertKey(stores.db, newKey({ hash: hashSecret(key), scopes: allScopes }));
    gateway = newGateway('fast');
    await ask('fast', { body: call });
    expect((await ask('fast', { body: call })).status).toBe(200);

    await revokeKey(other.db, 'key_a', madeAt + 60);

    expect((await ask('fast', { body: call })).status).toBe(401);
    await other.close();
  });

  test('ignores a change whose transaction was rolled back', async () => {
    await revokeKey(stores.db, 'key_a', madeAt + 60);
    stores.connection.exec('begin immediate');
    stores.connection.exec('update api_key set revoked_at = null');
    await ask('fast', { body: call });

    stores.connection.exec('rollback');

    expect((await ask('fast', { body: call })).status).toBe(401);
  });
});

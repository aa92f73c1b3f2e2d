import { connect } from 'node:net';

import { afterAll, afterEach, beforeEach, expect, test, vi } from 'vitest';

import type { CountedRefusals } from '#server/audit/counted-refusals';
import type { GatewayAnswer, GatewayRequest } from '#server/gateway/request';
import { Front, type FrontOptions } from '#server/http/front';
import { jsonLog } from '#server/log/log';
import { accessTokens } from '#server/oauth/access-tokens';
import { FailedAttempts } from '#server/oauth/failed-attempts';
import { openDatabase } from '#support/open-database';
import { assertionPorts } from '#support/assertion-ports';
import { type CountedServer, bodyOf, countedServer } from '#support/counted-server';
import { freshSigningKeys } from '#support/fresh-signing-keys';
import { rawHttp } from '#support/raw-http';
import { stillClock } from '#support/still-clock';
import { patient } from '#support/patient';

const logged: string[] = [];
const stores = await openDatabase();
const noteLater = vi.fn<CountedRefusals['noteLater']>();
const options: FrontOptions = {
  gateway: { answer: (request) => handle(request), together: (answerAll) => answerAll() },
  maxBodyBytes: 16,
  trustedProxies: [],
  log: jsonLog('info', { write: (line) => logged.push(line) }),
  isRefused: ({ headers }) => headers['x-smuggled'] !== undefined,
  isOwnHost: (host) => host === 'own.example',
  failedAttempts: new FailedAttempts(stillClock()),
  ports: {
    ...stores,
    ...assertionPorts(stillClock(), stores.db),
    base: 'https://own.example',
    clock: stillClock(),
    tokens: accessTokens('https://own.example', {
      keys: await freshSigningKeys(stillClock()),
      clock: stillClock(),
    }),
    endpointUrl: (serverPath) => `https://own.example/mcp/${serverPath}`,
    used: () => {},
    refusals: { noteLater },
  },
  framework: (request, response) => {
    void bodyOf(request).then((text) => response.writeHead(418).end(`the framework read ${text}`));
  },
};
const handle = vi.fn<(request: GatewayRequest) => Promise<GatewayAnswer>>();
let front: Front;
let server: CountedServer;

beforeEach(async () => {
  logged.splice(0);
  noteLater.mockClear();
  handle.mockReset().mockImplementation(async (request) => {
    const body = await request.readBody();
    return { status: 200, headers: { 'Content-Type': 'text/plain' }, body };
  });
  front = new Front(options);
  server = await countedServer((request, response) => front.receive(request, response));
});

afterEach(() => server[Symbol.asyncDispose]());
afterAll(() => stores.close());

/** A POST of `hello` to `acme/sales`; `but` changes its first line and adds headers. */
async function send({ line = 'POST /mcp/acme/sales', host = 'own.example', more = '' } = {}) {
  const head = `${line} HTTP/1.1\r\nHost: ${host}\r\nContent-Length: 5\r\nConnection: close\r\n`;
  return rawHttp(Number(new URL(server.origin).port), `${head}${more}\r\nhello`);
}

const asked = () => handle.mock.calls[0]?.[0];

test('a plain call is passed to the gateway, answered under its id, and logged', async () => {
  const { text, statuses } = await send();

  expect(statuses).toEqual([200]);
  expect(text).toMatch(/\r\n\r\nhello$/);
  expect(asked()).toMatchObject({
    method: 'POST',
    organization: 'acme',
    server: 'sales',
    address: '127.0.0.1',
  });
  expect(text).toContain(`X-Request-Id: ${asked()?.id}\r\n`);
  await vi.waitFor(() => expect(logged).toHaveLength(1), patient);
  expect(JSON.parse(logged[0] ?? '')).toMatchObject({
    id: asked()?.id,
    method: 'POST',
    route: '/mcp/:organization/:server',
    status: 200,
  });
});

test.each([
  ['another method', { line: 'GET /mcp/acme/sales' }],
  ['a path of something else', { line: 'POST /api/oauth/token' }],
  ['a path with something behind it', { line: 'POST /mcp/acme/sales/' }],
  ['a path with something before it', { line: 'POST /x/mcp/acme/sales' }],
  ['a query', { line: 'POST /mcp/acme/sales?a=b' }],
  ['a name that is spelt otherwise', { line: 'POST /mcp/acme/s%61les' }],
  ['a name in capitals', { line: 'POST /mcp/Acme/sales' }],
  ['a name that ends in a hyphen', { line: 'POST /mcp/acme-/sales' }],
  ['a name that is too long', { line: `POST /mcp/acme/${'a'.repeat(64)}` }],
  ['a target that is a whole URL', { line: 'POST http://own.example/mcp/acme/sales' }],
  ['another host', { host: 'evil.example' }],
  ['a page that asks', { more: 'Origin: https://own.example\r\n' }],
  ['a proxy that nobody named', { more: 'X-Forwarded-For: 192.0.2.1\r\n' }],
  ['what two readers read differently', { more: 'X-Smuggled: yes\r\n' }],
])('%s goes through the framework unchanged', async (_, but) => {
  const { statuses, text } = await send(but);

  expect(statuses).toEqual([418]);
  expect(text).toContain('the framework read hello');
  expect(handle).not.toHaveBeenCalled();
});

const modern = 'MCP-Protocol-Version: 2026-07-28\r\n';

test.each([
  ['of the modern era', 200, `${modern}Mcp-Method: tools/list\r\n`],
  ['of the legacy era', 418, 'MCP-Protocol-Version: 2025-11-25\r\n'],
  ['of no version', 418, ''],
  ['in a session', 418, `${modern}Mcp-Session-Id: x\r\n`],
  ['that listens', 418, `${modern}Mcp-Method: subscriptions/listen\r\n`],
])(
  'where only calls without a session are ordinary, a call %s gets %i',
  async (_, status, more) => {
    front = new Front({ ...options, isStateless: true });

    const { statuses } = await send({ more });

    expect(statuses).toEqual([status]);
  },
);

test('a call that the gateway leaves to another process goes through the framework, without a log line', async () => {
  handle.mockResolvedValue({ status: 503, headers: {}, isElsewhere: true });

  const { statuses, text } = await send();
  handle.mockReset().mockResolvedValue({ status: 204, headers: {} });
  await send();

  expect(statuses).toEqual([418]);
  expect(text).toContain('the framework read hello');
  await vi.waitFor(() => expect(logged).toHaveLength(1), patient);
  expect(JSON.parse(logged[0] ?? '')).toMatchObject({ status: 204 });
});

test('behind a trusted proxy the caller is the one that the proxy names, else the proxy', async () => {
  for (const [trusted, address] of [
    ['127.0.0.1', '192.0.2.1'],
    ['10.0.0.0/8', '127.0.0.1'],
  ] as const) {
    front = new Front({ ...options, trustedProxies: [trusted] });
    handle.mockClear();
    const { statuses } = await send({ more: 'X-Forwarded-For: 203.0.113.9, 192.0.2.1\r\n' });

    expect([statuses, asked()?.address]).toEqual([[200], address]);
  }
});

test('a body is read up to the limit and no further', async () => {
  const read = vi.fn<(error: unknown) => void>();
  handle.mockImplementation(async (request) => {
    try {
      await request.readBody();
    } catch (error) {
      read(error);
    }
    return { status: 413, headers: {} };
  });
  const head = 'POST /mcp/acme/sales HTTP/1.1\r\nHost: own.example\r\nConnection: close\r\n';
  const port = Number(new URL(server.origin).port);
  const { statuses } = await rawHttp(port, `${head}Content-Length: 17\r\n\r\n${'x'.repeat(17)}`);

  expect(statuses).toEqual([413]);
  expect(read).toHaveBeenCalledExactlyOnceWith(expect.objectContaining({ code: 'too_large' }));
});

test('an answer that cannot be sent ends its connection and is logged', async () => {
  const headers = { 'X-Bad': 'a\nb' };
  handle.mockResolvedValue({ status: 200, headers, body: 'never' });
  const { statuses, closed } = await send();

  expect([statuses, closed]).toEqual([[], true]);
  await vi.waitFor(
    () => expect(logged).toContainEqual(expect.stringContaining('an answer could not be sent')),
    patient,
  );
});

test('a closed front accepts nothing', async () => {
  front.close();

  expect((await send()).statuses).toEqual([418]);
});

test('a caller that disconnects before the head of the answer is logged once, as cut and without a status', async () => {
  const answer = Promise.withResolvers<GatewayAnswer>();
  handle.mockImplementation(({ gone }) => {
    gone.addEventListener('abort', () =>
      answer.resolve({ status: 200, headers: {}, body: 'late' }),
    );
    return answer.promise;
  });
  const call = connect(Number(new URL(server.origin).port), '127.0.0.1');
  call.write('POST /mcp/acme/sales HTTP/1.1\r\nHost: own.example\r\nContent-Length: 0\r\n\r\n');
  await vi.waitFor(() => expect(handle).toHaveBeenCalled(), patient);
  call.destroy();
  await vi.waitFor(() => expect(logged).not.toHaveLength(0), patient);
  await answer.promise;

  expect(logged.map((line) => JSON.parse(line))).toEqual([
    expect.objectContaining({ id: asked()?.id, cut: true, msg: 'request' }),
  ]);
  expect(logged[0]).not.toContain('"status"');
});

const formType = 'Content-Type: application/x-www-form-urlencoded';
const tokenLine = 'POST /api/oauth/token';

test('a token request that is refused is answered under its id, logged, and noted for the audit log', async () => {
  const { text, statuses } = await send({ line: tokenLine, more: `${formType}\r\n` });
  const id = /^X-Request-Id: (\S+)/m.exec(text)?.[1];

  expect(statuses).toEqual([400]);
  await vi.waitFor(() => expect(logged).toHaveLength(2), patient);
  expect(logged.map((line) => JSON.parse(line))).toMatchObject([
    { reqId: id, code: 'invalid_request', reason: 'grant_type is missing', msg: 'request refused' },
    { id, method: 'POST', route: '/api/oauth/token', status: 400, msg: 'request' },
  ]);
  expect(noteLater).toHaveBeenCalledExactlyOnceWith(
    expect.objectContaining({ action: 'token.invalid-request', requestId: id }),
  );
});

test.each([
  ['a page that sends it', { line: tokenLine, more: `${formType}\r\nOrigin: https://x\r\n` }],
  ['a query', { line: `${tokenLine}?a=b`, more: `${formType}\r\n` }],
  ['another media type', { line: tokenLine, more: 'Content-Type: application/json\r\n' }],
  ['another charset', { line: tokenLine, more: `${formType}; charset=utf-16\r\n` }],
])('a token request with %s goes through the framework unchanged', async (_, but) => {
  const { statuses, text } = await send(but);

  expect(statuses).toEqual([418]);
  expect(text).toContain('the framework read hello');
});

test.each([
  ['comes after the head', 'Content-Length: 5\r\n\r\n', ['he', 'llo']],
  ['comes in late chunks', 'Transfer-Encoding: chunked\r\n\r\n', ['5\r\nhello\r\n', '0\r\n\r\n']],
  ['is awaited with Expect', 'Expect: 100-continue\r\nContent-Length: 5\r\n\r\n', ['hello']],
  ['is too long', `Content-Length: ${2 ** 14 + 1}\r\n\r\n${'x'.repeat(2 ** 14 + 1)}`, []],
])('a token request whose body %s goes through the framework', async (_, rest, later) => {
  const head = `${tokenLine} HTTP/1.1\r\nHost: own.example\r\nConnection: close\r\n${formType}\r\n`;
  const port = Number(new URL(server.origin).port);
  const { text } = await rawHttp(port, [head + rest, ...later]);

  expect(text).toMatch(/the framework read (?:hello|x{16385})\r\n/);
});

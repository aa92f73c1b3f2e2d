import { chmod, mkdir, readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { jsonLinesLog } from '#proxy/log/log';
import {
  detectServer,
  type TransportChoice,
  type ServerKind,
  rememberedServer,
} from '#proxy/pipeline/detect-server';
import { compose } from '#proxy/pipeline/step';
import { translatedUpstream } from '#proxy/pipeline/translated-server';
import { UpstreamError } from '#proxy/transport/upstream';
import { fakeClock } from '#support/fake-clock';
import { asMessage, listener, scriptedUpstream, type Script } from '#support/scripted-upstream';
import { temporaryFolder } from '#support/temporary-folder';

const signal = new AbortController().signal;
const log = jsonLinesLog('error', () => undefined);
const initialize = { id: 0, method: 'initialize', params: { protocolVersion: '2025-06-18' } };
const legacy: Script = ({ id, method }) => [
  method === 'initialize'
    ? { id, result: { protocolVersion: '2025-06-18' } }
    : { id, error: { code: -32601, message: 'unknown' } },
];
const notFound = () => {
  throw new UpstreamError('status', 'the server answered 404', { status: 404 });
};
const modern: Script = ({ id, method }) =>
  method === 'server/discover'
    ? [{ id, result: { supportedVersions: ['2026-07-28'], capabilities: {} } }]
    : [{ id, error: { code: -32022, message: 'unsupported' } }];

type Case = { http: Script; sse?: Script; kind?: ServerKind; transport?: TransportChoice };

/** The outcome of a handshake with a server. Without `sse`, an SSE stream cannot be opened. */
async function shakenHands({ http, sse, kind, transport = 'http-first' }: Case) {
  const streamable = scriptedUpstream(http);
  const stream = scriptedUpstream(sse ?? (() => []));
  const loaded: string[] = [];
  let remembered = kind;
  const detection = detectServer(transport, {
    sse() {
      loaded.push('sse');
      const refused = new UpstreamError('status', 'the server answered 405', { status: 405 });
      const open = async () => (sse ? Promise.resolve() : Promise.reject(refused));
      return Promise.resolve({ ...stream, open });
    },
    translated(upstream) {
      loaded.push('translated');
      return Promise.resolve(translatedUpstream({ upstream, clock: fakeClock(), log }));
    },
    memory: {
      recall: () => remembered,
      remember(next) {
        remembered = next;
        return Promise.resolve();
      },
    },
    log,
  });
  const server = compose([detection], streamable);
  const assistant = listener();
  const failure: unknown = await server
    .send(asMessage(initialize), assistant.deliver, signal)
    .catch((error: unknown) => error);
  const methods = streamable.asked.map(({ method }) => method);
  const { said } = assistant;
  return { server, stream, loaded, methods, said, failure, remembered: () => remembered };
}

const answer = { id: 0, result: { protocolVersion: '2025-06-18' } };

test('era detection: a legacy server requires one request, and nothing is loaded or stored for it', async () => {
  const met = await shakenHands({ http: legacy });

  expect(met).toMatchObject({ methods: ['initialize'], loaded: [], said: [answer] });
  expect(met.remembered()).toBeUndefined();
});

test.each([
  ['an error', modern],
  [
    '404',
    (asked, ...rest) => (asked.method === 'initialize' ? notFound() : modern(asked, ...rest)),
  ],
  [
    'a revision without a handshake',
    (asked, ...rest) =>
      asked.method === 'initialize'
        ? [{ id: asked.id, result: { protocolVersion: '2026-07-28' } }]
        : modern(asked, ...rest),
  ],
] satisfies [string, Script][])(
  'era detection: a server that answers initialize with %s is discovered as modern and remembered',
  async (_, http) => {
    const met = await shakenHands({ http });

    expect(met.methods).toEqual(['initialize', 'server/discover']);
    expect(met.said).toMatchObject([answer]);
    expect(met.remembered()).toBe('modern');
  },
);

test('era detection: a remembered modern server requires one request', async () => {
  const met = await shakenHands({ http: modern, kind: 'modern' });

  expect(met).toMatchObject({ methods: ['server/discover'], said: [answer] });
});

test('era detection: a remembered server that has become legacy is forgotten', async () => {
  const met = await shakenHands({ http: legacy, kind: 'modern' });

  expect(met).toMatchObject({ methods: ['server/discover', 'initialize'], said: [answer] });
  expect(met.remembered()).toBeUndefined();
});

test('era detection: a server of no known era is reported with its first refusal', async () => {
  const error = { code: -32600, message: 'no such thing' };
  const telling = await shakenHands({ http: ({ id }) => [{ id, error }] });
  const failing = await shakenHands({ http: notFound });

  expect(telling.said).toMatchObject([{ id: 0, error }]);
  expect(failing.failure).toMatchObject({ code: 'status', status: 404 });
  expect(failing.remembered()).toBeUndefined();
});

test.each([
  ['unreachable', undefined],
  ['unauthorized', 401],
  ['status', 500],
] as const)(
  'era detection: a server that is %s is not tried with other transports',
  async (code, status) => {
    const met = await shakenHands({
      http() {
        throw new UpstreamError(code, 'no', { ...(status !== undefined && { status }) });
      },
    });

    expect(met).toMatchObject({ methods: ['initialize'], loaded: [], failure: { code } });
  },
);

test('era detection: a 2024-11-05 server is found by its SSE stream, remembered and then used that way', async () => {
  const met = await shakenHands({ http: notFound, sse: legacy });
  await met.server.send(asMessage({ id: 1, method: 'tools/list' }), listener().deliver, signal);
  const again = await shakenHands({ http: notFound, sse: legacy, kind: 'sse' });

  expect(met.said).toMatchObject([answer]);
  expect(met.remembered()).toBe('sse');
  expect(met.stream.asked.map(({ method }) => method)).toEqual(['initialize', 'tools/list']);
  expect(again).toMatchObject({ methods: [], said: [answer] });
});

test('era detection: a remembered HTTP+SSE server without its stream is detected again', async () => {
  const met = await shakenHands({ http: legacy, kind: 'sse' });

  expect(met).toMatchObject({ methods: ['initialize'], said: [answer] });
  expect(met.remembered()).toBeUndefined();
});

test.each([
  ['http-only', notFound, [], ['translated'], 404],
  ['sse-only', legacy, ['initialize'], ['sse'], undefined],
  ['sse-first', notFound, ['initialize'], ['sse'], undefined],
] satisfies [TransportChoice, Script, string[], string[], number | undefined][])(
  'transport: %s tries only the chosen transports',
  async (transport, http, streamed, loaded, status) => {
    const met = await shakenHands({ http, sse: legacy, transport });

    expect(met.stream.asked.map(({ method }) => method)).toEqual(streamed);
    expect(met.loaded).toEqual(loaded);
    expect(met.failure instanceof UpstreamError ? met.failure.status : undefined).toBe(status);
  },
);

test('transport: with sse-first a missing SSE stream is not requested a second time', async () => {
  const met = await shakenHands({ http: legacy, transport: 'sse-first' });

  expect(met).toMatchObject({ methods: ['initialize'], loaded: ['sse'], said: [answer] });
});

const url = 'https://acme.example/mcp/acme/sales?key=1';

test('remembered server: it is stored for its URL, in a file that only its owner can read', async () => {
  await using folder = await temporaryFolder('servers');
  const directory = join(folder.path, 'servers');
  await rememberedServer(directory, url).remember('modern');

  const [file = ''] = await readdir(directory);

  expect(rememberedServer(directory, url).recall()).toBe('modern');
  expect(rememberedServer(directory, `${url}2`).recall()).toBeUndefined();
  expect((await stat(join(directory, file))).mode & 0o777).toBe(0o600);
});

test('remembered server: after it is forgotten, none is recalled', async () => {
  await using folder = await temporaryFolder('servers');
  const server = rememberedServer(folder.path, url);
  await server.remember('sse');
  await server.remember(undefined);

  expect(server.recall()).toBeUndefined();
  expect(await readdir(folder.path)).toEqual([]);
});

test('remembered server: in a directory that cannot be written, none is remembered, without an error', async () => {
  await using folder = await temporaryFolder('servers');
  const blocked = join(folder.path, 'file');
  await mkdir(blocked);
  await chmod(blocked, 0o500);
  const server = rememberedServer(join(blocked, 'not\0possible'), url);

  await expect(server.remember('modern')).resolves.toBeUndefined();
  expect(server.recall()).toBeUndefined();
});

import { expect, test } from 'vitest';
import { jsonLinesLog } from '#proxy/log/log';
import { creditFrame, frameType, jsonFrame, writeFrame } from '#proxy/tunnel/frame';
import { keepTunnel, type TunnelState } from '#proxy/tunnel/keep-tunnel';
import type { Bound } from '#proxy/tunnel/payloads';
import { StreamRefusal, type Responder, type TunnelRequest } from '#proxy/tunnel/responder';
import { TunnelError } from '#proxy/tunnel/tunnel-error';
import { fakeClock } from '#support/fake-clock';
import { fakeDial, type FakeSocket } from '#support/tunnel/fake-dial';

const hello = {
  version: '1',
  instance: 'one',
  servers: [{ name: 'sales', kind: 'stdio' as const }],
};
const away = () => new TunnelError('unreachable', 'no route');

async function* bytes(...chunks: string[]): AsyncGenerator<Buffer> {
  for (const chunk of chunks) yield Buffer.from(chunk);
}

/** A kept tunnel whose requests are answered with what they carried. */
function kept(respond?: Responder['respond'], refused: TunnelError[] = []) {
  const clock = fakeClock();
  const { dial, sockets, refusals } = fakeDial();
  refusals.push(...refused);
  const requests: TunnelRequest[] = [];
  const states: TunnelState[] = [];
  const bounds: Bound[] = [];
  const place = { network: 'home' };
  const tunnel = keepTunnel({
    dial,
    clock,
    random: () => 1,
    network: () => place.network,
    hello: () => hello,
    tell: (state) => states.push(state),
    bound: (bound) => bounds.push(bound),
    maxBodyBytes: 1_000,
    log: jsonLinesLog('error', () => undefined),
    responder: {
      async respond(request) {
        requests.push(request);
        if (respond) return respond(request);
        const headers = { 'content-type': 'application/json', server: 'apache' };
        return { status: 200, headers, body: bytes(String(request.body)) };
      },
    },
  });
  const socket = (at: number): FakeSocket => {
    const found = sockets[at];
    if (!found) throw new Error(`no socket ${at}`);
    return found;
  };
  return { clock, tunnel, sockets, socket, requests, states, bounds, place };
}

const opening = { server: 'sales', method: 'POST', headers: {}, caller: 'dana' };

function ask({ hears }: FakeSocket, id: number, body: string, more: object = {}): void {
  hears.frame(jsonFrame(frameType.open, id, { ...opening, ...more }));
  hears.frame(writeFrame(frameType.data, id, Buffer.from(body)));
  hears.frame(writeFrame(frameType.end, id));
}

const typesOf = ({ sent }: FakeSocket, id: number) =>
  sent.filter(({ stream }) => stream === id).map(({ type }) => type);

test('HELLO is first; a request gets its head, its bytes and its end', async () => {
  const { clock, socket, requests, bounds } = kept();
  await clock.settled();
  const bound = { organization: 'acme', agent: 'berlin', servers: ['sales'], unknown: 1 };
  socket(0).hears.frame(jsonFrame(frameType.bound, 0, bound));
  const headers = { accept: 'text/event-stream', cookie: 'a=b', authorization: 'Bearer x' };
  ask(socket(0), 1, 'hello', { headers: { ...headers, 'mcp-param-region': 'eu' } });
  await clock.settled();

  const [first] = socket(0).sent;
  expect([first?.type, JSON.parse(String(first?.payload))]).toEqual([1, hello]);
  expect(bounds).toEqual([{ organization: 'acme', agent: 'berlin', servers: ['sales'] }]);
  expect(requests[0]?.headers).toEqual({ accept: 'text/event-stream', 'mcp-param-region': 'eu' });
  const { credit, head, data, end } = frameType;
  expect(typesOf(socket(0), 1)).toEqual([credit, head, data, end]);
  expect(JSON.parse(String(socket(0).sent[2]?.payload))).toEqual({
    status: 200,
    headers: { 'content-type': 'application/json' },
  });
  expect(requests[0]?.signal.aborted).toBe(true);
});

test('an answer waits for credit after 256 KiB, and goes on with what is given', async () => {
  const long = async () => ({ status: 200, headers: {}, body: bytes('x'.repeat(400_000)) });
  const { clock, socket } = kept(long);
  await clock.settled();
  const sentBytes = () =>
    socket(0)
      .sent.filter(({ type }) => type === frameType.data)
      .reduce((sum, { payload }) => sum + payload.length, 0);
  ask(socket(0), 1, '');
  await clock.settled();
  const before = sentBytes();

  socket(0).hears.frame(creditFrame(1, 1_000));
  await clock.settled();
  const between = sentBytes();
  socket(0).hears.frame(creditFrame(1, 1_000_000));
  await clock.settled();

  expect([before, between, sentBytes()]).toEqual([262_144, 263_144, 400_000]);
  expect(Math.max(...socket(0).sent.map(({ payload }) => payload.length))).toBe(65_536);
  expect(typesOf(socket(0), 1).at(-1)).toBe(frameType.end);
});

test('a reset ends the request; a failure is a reset with its reason', async () => {
  const { clock, socket, requests } = kept(async ({ server, signal }) => {
    if (server === 'gone') throw new StreamRefusal('unreachable', 'no such program');
    return new Promise((_, reject) => {
      signal.addEventListener('abort', () => reject(new Error('aborted')));
    });
  });
  await clock.settled();
  ask(socket(0), 1, 'a');
  ask(socket(0), 2, 'a', { server: 'gone' });
  ask(socket(0), 3, 'x'.repeat(2_000));
  await clock.settled();
  socket(0).hears.frame(jsonFrame(frameType.reset, 1, { code: 'cancelled' }));
  await clock.settled();

  const resets = socket(0).sent.filter(({ type }) => type === frameType.reset);
  expect(requests[0]?.signal.aborted).toBe(true);
  expect(resets.map(({ stream, payload }) => [stream, JSON.parse(String(payload)).code])).toEqual([
    [3, 'too_large'],
    [2, 'unreachable'],
  ]);
});

test('frames against the rules, and on streams that are over, do no harm', async () => {
  const { clock, socket, requests } = kept();
  await clock.settled();
  const { hears } = socket(0);
  for (const frame of [
    Buffer.from([1, 2]),
    writeFrame(99, 4),
    writeFrame(frameType.open, 1, Buffer.from('no JSON')),
    jsonFrame(frameType.open, 2, { ...opening, method: 'TRACE' }),
    jsonFrame(frameType.open, 3, { ...opening, caller: '' }),
    writeFrame(frameType.data, 77, Buffer.from('x')),
    jsonFrame(frameType.bound, 0, { servers: 'all' }),
    jsonFrame(frameType.open, 3, opening),
  ])
    hears.frame(frame);
  ask(socket(0), 4, 'fine');
  await clock.settled();

  expect(requests.map(({ body }) => String(body))).toEqual(['fine']);
  expect([1, 2, 3].map((id) => typesOf(socket(0), id))).toEqual(
    [1, 2, 3].map(() => [frameType.reset]),
  );
});

test('pauses double up to 30 s, and a change of the network ends one at once', async () => {
  const refused = Array.from({ length: 9 }, away);
  const { clock, sockets, states, place } = kept(undefined, refused);
  for (let turn = 0; turn < 50; turn += 1) await clock.advance(2);
  const waits = states.flatMap((state) => (state.state === 'waiting' ? [state.seconds] : []));
  const before = sockets.length;
  place.network = 'train';
  await clock.advance(2);

  expect(waits.slice(0, 8)).toEqual([1, 1, 2, 4, 8, 16, 30, 30]);
  expect(before).toBe(0);
  expect(sockets).toHaveLength(1);
});

test('who says nothing for five seconds is let go, and dialled again', async () => {
  const { clock, socket, sockets, states } = kept();
  await clock.settled();
  for (let second = 0; second < 20; second += 1) {
    socket(0).hears.alive();
    await clock.advance(1);
  }
  const alive = socket(0).ended;
  for (let second = 0; second < 7; second += 1) await clock.advance(1);

  expect(alive).toBeUndefined();
  expect(socket(0).ended).toBe('terminated');
  expect(states).toContainEqual({ state: 'lost', reason: 'the server fell silent' });
  expect(sockets).toHaveLength(2);
});

test('a draining server is dialled again at once, and what is under way finishes', async () => {
  const done = Promise.withResolvers<void>();
  const { clock, socket, sockets, tunnel } = kept(async () => {
    await done.promise;
    return { status: 200, headers: {}, body: bytes('late') };
  });
  await clock.settled();
  ask(socket(0), 1, 'a');
  await clock.advance(1);
  socket(0).hears.frame(writeFrame(frameType.drain, 0));
  await clock.settled();
  const both = tunnel.tunnels;
  done.resolve();
  await clock.settled();
  socket(0).hears.closed(1001, '');

  expect(sockets).toHaveLength(2);
  expect(both).toBe(2);
  expect(typesOf(socket(0), 1).at(-1)).toBe(frameType.end);
});

test('a revoked key is dialled with again, as it may be replaced, after a pause', async () => {
  const { clock, socket, sockets, states } = kept();
  await clock.settled();
  socket(0).hears.closed(4401, 'revoked');
  await clock.settled();
  const before = sockets.length;
  await clock.advance(1);

  expect(before).toBe(1);
  expect(sockets).toHaveLength(2);
  expect(states).toContainEqual(
    expect.objectContaining({
      state: 'waiting',
      error: expect.objectContaining({ code: 'refused', message: 'the key was revoked' }),
    }),
  );
});

test('told to drain, it takes leave of the server and waits for what is under way', async () => {
  const done = Promise.withResolvers<void>();
  const { clock, socket, tunnel } = kept(async () => {
    await done.promise;
    return { status: 200, headers: {}, body: bytes('late') };
  });
  await clock.settled();
  ask(socket(0), 1, 'a');
  await clock.settled();

  const drained = tunnel.drain(10_000);
  await clock.settled();
  const meanwhile = socket(0).ended;
  const { payload } = socket(0).sent.findLast(({ type }) => type === frameType.hello) ?? {};
  done.resolve();
  await drained;

  expect(JSON.parse(String(payload))).toMatchObject({ servers: [] });
  expect(meanwhile).toBeUndefined();
  expect(socket(0).ended).toBe(1000);
  expect(typesOf(socket(0), 1).at(-1)).toBe(frameType.end);
});

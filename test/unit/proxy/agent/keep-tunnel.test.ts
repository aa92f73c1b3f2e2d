import { expect, test } from 'vitest';
import { jsonLinesLog } from '#proxy/log/log';
import { creditFrame, frameType, jsonFrame, writeFrame, type Bound } from '#mcp/tunnel-frames';
import { KeptTunnel, type TunnelState } from '#proxy/agent/keep-tunnel';
import { StreamRefusal, type Responder, type TunnelRequest } from '#proxy/agent/served-stream';
import { TunnelError } from '#proxy/agent/tunnel';
import { fakeClock } from '#support/fake-clock';
import { fakeDial, type FakeSocket } from '#support/tunnel/fake-dial';
import { batch, wireFrame } from '#support/wire-frames';

const hello = {
  version: '1',
  instance: 'one',
  servers: [{ name: 'sales', kind: 'stdio' as const }],
};
const away = () => new TunnelError('unreachable', 'no route');

async function* bytes(...chunks: string[]): AsyncGenerator<Buffer> {
  for (const chunk of chunks) yield Buffer.from(chunk);
}

/** A kept tunnel that answers each request with the body of the request, unless `respond` is given. */
function kept(respond?: Responder['respond'], refused: TunnelError[] = []) {
  const clock = fakeClock();
  const { dial, sockets, refusals } = fakeDial();
  refusals.push(...refused);
  const requests: TunnelRequest[] = [];
  const states: TunnelState[] = [];
  const bounds: Bound[] = [];
  const lefts: string[] = [];
  const place = { network: 'home' };
  const tunnel = new KeptTunnel({
    dial,
    clock,
    random: () => 1,
    network: () => place.network,
    hello: () => hello,
    onState: (state) => states.push(state),
    bound: (bound) => bounds.push(bound),
    left: (caller) => lefts.push(caller),
    maxBodyBytes: 200_000,
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
  return { clock, tunnel, sockets, socket, requests, states, bounds, lefts, place, refusals };
}

const opening = { server: 'sales', method: 'POST', headers: {}, caller: 'dana' };

function ask({ events }: FakeSocket, id: number, body: string, more: object = {}): void {
  events.frame(jsonFrame(frameType.open, id, { ...opening, ...more }));
  events.frame(wireFrame(frameType.data, id, body));
  events.frame(writeFrame(frameType.end, id));
}

const typesOf = ({ sent }: FakeSocket, id: number) =>
  sent.filter(({ stream }) => stream === id).map(({ type }) => type);

test('agent tunnel: HELLO is sent first, and a request receives its head, its body and its end', async () => {
  const { clock, socket, requests, bounds } = kept();
  await clock.settled();
  const bound = { organization: 'acme', agent: 'berlin', servers: ['sales'], unknown: 1 };
  socket(0).events.frame(jsonFrame(frameType.bound, 0, bound));
  const headers = { accept: 'text/event-stream', cookie: 'a=b', authorization: 'Bearer x' };
  ask(socket(0), 1, 'hello', { headers: { ...headers, 'mcp-param-region': 'eu' } });
  await clock.settled();

  const [first] = socket(0).sent;
  expect([first?.type, JSON.parse(String(first?.payload))]).toEqual([1, hello]);
  expect(bounds).toEqual([{ organization: 'acme', agent: 'berlin', servers: ['sales'] }]);
  expect(requests[0]?.headers).toEqual({ accept: 'text/event-stream', 'mcp-param-region': 'eu' });
  const { head, data, end } = frameType;
  expect(typesOf(socket(0), 1)).toEqual([head, data, end]);
  expect(JSON.parse(String(socket(0).sent[1]?.payload))).toEqual({
    status: 200,
    headers: { 'content-type': 'application/json' },
  });
  expect(requests[0]?.signal.aborted).toBe(true);
});

test('agent tunnel: a BATCH is read like its frames, and sent only to a server that reads it', async () => {
  const { clock, socket, requests } = kept();
  await clock.settled();
  const bound = { organization: 'acme', agent: 'berlin', servers: ['sales'] };
  socket(0).events.frame(jsonFrame(frameType.bound, 0, bound));
  const before = socket(0).joins;
  socket(0).events.frame(jsonFrame(frameType.bound, 0, { ...bound, batches: true }));
  const asked = { server: 'sales', method: 'POST', headers: {}, caller: 'dana' };
  const frames = [
    jsonFrame(frameType.open, 1, asked),
    writeFrame(frameType.data, 1, Buffer.from('hello')),
    writeFrame(frameType.end, 1),
  ];
  socket(0).events.frame(batch(...frames));
  socket(0).events.frame(batch(...frames).subarray(0, -1));
  await clock.settled();

  expect([before, socket(0).joins]).toEqual([false, true]);
  expect(requests.map(({ body }) => String(body))).toEqual(['hello']);
  const { head, data, end } = frameType;
  expect(typesOf(socket(0), 1)).toEqual([head, data, end]);
});

test('agent tunnel: a disconnected caller is reported; invalid and unknown frames are ignored', async () => {
  const { clock, socket, lefts } = kept();
  await clock.settled();
  const { events } = socket(0);
  events.frame(jsonFrame(frameType.left, 0, { caller: 'dana', why: 'of a newer server' }));
  for (const caller of ['', 7, undefined]) events.frame(jsonFrame(frameType.left, 0, { caller }));
  events.frame(wireFrame(9, 0, Buffer.from('of a newer server')));
  ask(socket(0), 1, 'hello');
  await clock.settled();

  expect(lefts).toEqual(['dana']);
  expect(typesOf(socket(0), 1)).toContain(frameType.end);
});

test('agent tunnel: a long request gets credit in steps of 64 KiB, before it has to wait', async () => {
  const { clock, socket, requests } = kept();
  await clock.settled();
  const { events } = socket(0);
  events.frame(jsonFrame(frameType.open, 1, opening));
  for (let piece = 0; piece < 3; piece += 1) {
    events.frame(writeFrame(frameType.data, 1, Buffer.alloc(40_000, 'x')));
  }
  const given = socket(0)
    .sent.filter(({ type }) => type === frameType.credit)
    .map(({ payload }) => payload.readUInt32BE());
  events.frame(writeFrame(frameType.end, 1));
  await clock.settled();

  expect(given).toEqual([80_000]);
  expect(requests[0]?.body?.length).toBe(120_000);
});

test('agent tunnel: an answer waits for credit after 256 KiB, and continues when it gets more', async () => {
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

  socket(0).events.frame(creditFrame(1, 1_000));
  await clock.settled();
  const between = sentBytes();
  socket(0).events.frame(creditFrame(1, 1_000_000));
  await clock.settled();

  expect([before, between, sentBytes()]).toEqual([262_144, 263_144, 400_000]);
  expect(Math.max(...socket(0).sent.map(({ payload }) => payload.length))).toBe(65_536);
  expect(typesOf(socket(0), 1).at(-1)).toBe(frameType.end);
});

test('agent tunnel: a reset ends the request, and a failure is a reset with its reason', async () => {
  const { clock, socket, requests } = kept(async ({ server, signal }) => {
    if (server === 'gone') throw new StreamRefusal('unreachable', 'no such program');
    return new Promise((_, reject) => {
      signal.addEventListener('abort', () => reject(new Error('aborted')));
    });
  });
  await clock.settled();
  ask(socket(0), 1, 'a');
  ask(socket(0), 2, 'a', { server: 'gone' });
  ask(socket(0), 3, 'x'.repeat(200_001));
  await clock.settled();
  socket(0).events.frame(jsonFrame(frameType.reset, 1, { code: 'cancelled' }));
  await clock.settled();

  const resets = socket(0).sent.filter(({ type }) => type === frameType.reset);
  expect(requests[0]?.signal.aborted).toBe(true);
  expect(resets.map(({ stream, payload }) => [stream, JSON.parse(String(payload)).code])).toEqual([
    [3, 'too_large'],
    [2, 'unreachable'],
  ]);
});

test('agent tunnel: frames that violate the protocol, and frames for ended streams, do no harm', async () => {
  const { clock, socket, requests } = kept();
  await clock.settled();
  const { events } = socket(0);
  for (const frame of [
    Buffer.from([1, 2]),
    wireFrame(99, 4),
    writeFrame(frameType.open, 1, Buffer.from('no JSON')),
    jsonFrame(frameType.open, 2, { ...opening, method: 'TRACE' }),
    jsonFrame(frameType.open, 3, { ...opening, caller: '' }),
    writeFrame(frameType.data, 77, Buffer.from('x')),
    jsonFrame(frameType.bound, 0, { servers: 'all' }),
    jsonFrame(frameType.open, 3, opening),
  ])
    events.frame(frame);
  ask(socket(0), 4, 'fine');
  await clock.settled();

  expect(requests.map(({ body }) => String(body))).toEqual(['fine']);
  expect([1, 2, 3].map((id) => typesOf(socket(0), id))).toEqual(
    [1, 2, 3].map(() => [frameType.reset]),
  );
});

test('agent tunnel: pauses double up to 30 s, and a network change ends one immediately', async () => {
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

test('agent tunnel: a server that is silent for five seconds is disconnected and dialled again', async () => {
  const { clock, socket, sockets, states } = kept();
  await clock.settled();
  for (let second = 0; second < 20; second += 1) {
    socket(0).events.alive();
    await clock.advance(1);
  }
  const alive = socket(0).ended;
  for (let second = 0; second < 7; second += 1) await clock.advance(1);

  expect(alive).toBeUndefined();
  expect(socket(0).ended).toBe('terminated');
  expect(states).toContainEqual({ state: 'lost', reason: 'the server stopped responding' });
  expect(sockets).toHaveLength(2);
});

test('agent tunnel: a draining server is dialled again immediately, and open calls finish', async () => {
  const done = Promise.withResolvers<void>();
  const { clock, socket, sockets, tunnel } = kept(async () => {
    await done.promise;
    return { status: 200, headers: {}, body: bytes('late') };
  });
  await clock.settled();
  ask(socket(0), 1, 'a');
  await clock.advance(1);
  socket(0).events.frame(writeFrame(frameType.drain, 0));
  await clock.settled();
  const both = tunnel.tunnels;
  done.resolve();
  await clock.settled();
  socket(0).events.closed(1001, '');

  expect(sockets).toHaveLength(2);
  expect(both).toBe(2);
  expect(typesOf(socket(0), 1).at(-1)).toBe(frameType.end);
});

test('agent tunnel: after a revoked key it dials again with a pause, because the key may be replaced', async () => {
  const { clock, socket, sockets, states } = kept();
  await clock.settled();
  socket(0).events.closed(4401, 'revoked');
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

test('agent tunnel: drain notifies the server and waits for open calls', async () => {
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

/** Sends BOUND with the bound servers, as the server does after every HELLO. */
function greet({ events }: FakeSocket): void {
  const bound = { organization: 'acme', agent: 'berlin', servers: ['sales'] };
  events.frame(jsonFrame(frameType.bound, 0, bound));
}

const lastHello = ({ sent }: FakeSocket) =>
  JSON.parse(String(sent.findLast(({ type }) => type === frameType.hello)?.payload));

test('tunnel renewal: the old tunnel drains once the new one serves, and ends with its last call', async () => {
  const done = Promise.withResolvers<void>();
  const { clock, socket, sockets, states, tunnel } = kept(async ({ body }) => {
    if (String(body) === 'slow') await done.promise;
    return { status: 200, headers: {}, body: bytes('said') };
  });
  await clock.settled();
  ask(socket(0), 1, 'slow');
  await clock.settled();

  const renewed = tunnel.renew();
  await clock.settled();
  const beforeGreeting = lastHello(socket(0));
  greet(socket(1));
  const left = (await renewed)?.drained;
  await clock.settled();
  ask(socket(0), 2, 'crossed on the way');
  ask(socket(1), 1, 'at the new one');
  await clock.settled();
  const meanwhile = socket(0).ended;
  done.resolve();
  await left;

  expect(sockets).toHaveLength(2);
  expect(beforeGreeting.servers).toHaveLength(1);
  expect(lastHello(socket(0))).toMatchObject({ servers: [] });
  expect(meanwhile).toBeUndefined();
  expect([1, 2].map((id) => typesOf(socket(0), id).at(-1))).toEqual([frameType.end, frameType.end]);
  expect(typesOf(socket(1), 1).at(-1)).toBe(frameType.end);
  expect([socket(0).ended, socket(1).ended]).toEqual([1000, undefined]);
  socket(0).events.closed(1000, '');
  for (let second = 0; second < 20; second += 1) {
    socket(1).events.alive();
    await clock.advance(1);
  }
  expect(sockets).toHaveLength(2);
  expect(states.map(({ state }) => state)).toEqual(['connecting', 'connected']);
});

test('tunnel renewal: the old tunnel stays open until the server has acknowledged that it drains', async () => {
  const { clock, socket, tunnel } = kept();
  await clock.settled();
  socket(0).answers(false);
  const renewed = tunnel.renew();
  await clock.settled();
  greet(socket(1));
  const left = (await renewed)?.drained;
  await clock.settled();
  const unheard = socket(0).ended;
  ask(socket(0), 1, 'crossed on the way');
  socket(0).answers(true);
  await left;

  expect(unheard).toBeUndefined();
  expect(typesOf(socket(0), 1).at(-1)).toBe(frameType.end);
  expect(socket(0).ended).toBe(1000);
});

test('tunnel renewal: if the server refuses the new tunnel, the old one stays open', async () => {
  const { clock, socket, sockets, refusals, tunnel } = kept();
  await clock.settled();
  refusals.push(new TunnelError('refused', 'an unknown key'));
  const refused = tunnel.renew();
  await expect(refused).rejects.toMatchObject({ code: 'refused' });
  ask(socket(0), 1, 'still here');
  await clock.settled();
  const revoked = tunnel.renew();
  await clock.settled();
  socket(1).events.closed(4401, '');

  await expect(revoked).rejects.toMatchObject({ message: 'the key was revoked' });
  expect(typesOf(socket(0), 1).at(-1)).toBe(frameType.end);
  expect(lastHello(socket(0)).servers).toHaveLength(1);
  expect(sockets).toHaveLength(2);
});

test('tunnel renewal: an old tunnel that ends during the renewal is not dialled again', async () => {
  const { clock, socket, sockets, tunnel } = kept();
  await clock.settled();
  const renewed = tunnel.renew();
  await clock.settled();
  socket(0).events.closed(1006, '');
  greet(socket(1));
  await (
    await renewed
  )?.drained;
  for (let second = 0; second < 60; second += 1) {
    for (const { events } of sockets) events.alive();
    await clock.advance(1);
  }

  expect(tunnel.tunnels).toBe(1);
  expect(sockets.filter(({ ended }) => ended === undefined)).toHaveLength(1);
});

test('tunnel renewal: it ends the pause before the next attempt', async () => {
  const { clock, sockets, refusals, tunnel } = kept(undefined, Array.from({ length: 9 }, away));
  for (let turn = 0; turn < 20; turn += 1) await clock.advance(2);
  refusals.length = 0;
  const before = sockets.length;
  await tunnel.renew();
  await clock.advance(2);

  expect([before, sockets.length]).toEqual([0, 1]);
});

const secondTitle = 'agent tunnel, several nodes:';

/** Answers HELLO as the node `node` does, while `nodes` are alive. */
function greetFrom({ events }: FakeSocket, node: string, nodes: readonly string[]): void {
  const bound = { organization: 'acme', agent: 'berlin', servers: ['sales'], node, nodes };
  events.frame(jsonFrame(frameType.bound, 0, bound));
}

test(`${secondTitle} a server with one node, or that announces none, gets one tunnel`, async () => {
  const [alone, older] = [kept(), kept()];
  await alone.clock.settled();
  await older.clock.settled();
  greetFrom(alone.socket(0), 'a', ['a']);
  greet(older.socket(0));
  for (const { clock, socket } of [alone, older]) {
    for (let second = 0; second < 180; second += 1) {
      socket(0).events.alive();
      await clock.advance(1);
    }
  }

  expect([alone.sockets.length, older.sockets.length]).toEqual([1, 1]);
});

test(`${secondTitle} it dials until it reaches another node, and closes tunnels to the same one`, async () => {
  const { clock, socket, sockets, bounds, tunnel } = kept();
  await clock.settled();
  greetFrom(socket(0), 'a', ['a', 'b']);
  await clock.advance(1);
  greetFrom(socket(1), 'a', ['a', 'b']);
  await clock.advance(1);
  greetFrom(socket(2), 'b', ['a', 'b']);
  for (let second = 0; second < 120; second += 1) {
    socket(0).events.alive();
    socket(2).events.alive();
    await clock.advance(1);
  }

  expect(sockets).toHaveLength(3);
  expect([socket(0).ended, socket(1).ended, socket(2).ended]).toEqual([undefined, 1000, undefined]);
  expect(lastHello(socket(1))).toMatchObject({ servers: [] });
  expect(tunnel.tunnels).toBe(2);
  expect(bounds).toHaveLength(1);
});

test(`${secondTitle} a load balancer that always selects the same node is eventually dialled once a minute`, async () => {
  const { clock, socket, sockets, states } = kept();
  await clock.settled();
  const greeted = new Set<FakeSocket>();
  const seconds: number[] = [];
  for (let second = 0; second < 600; second += 1) {
    for (const one of sockets) {
      if (!greeted.has(one)) {
        seconds.push(second);
        greetFrom(one, 'a', ['a', 'b']);
      }
      greeted.add(one);
    }
    socket(0).events.alive();
    await clock.advance(1);
  }
  const pauses = seconds.slice(1).map((at, index) => at - (seconds[index] ?? 0));

  expect(seconds.length).toBeLessThan(18);
  expect(pauses.slice(-3)).toEqual([60, 60, 60]);
  expect(states.map(({ state }) => state)).toEqual(['connecting', 'connected']);
});

test(`${secondTitle} when a node stops, the other tunnel continues, and another node is dialled`, async () => {
  const { clock, socket, sockets, states, tunnel } = kept();
  await clock.settled();
  greetFrom(socket(0), 'a', ['a', 'b']);
  await clock.advance(1);
  greetFrom(socket(1), 'b', ['a', 'b']);
  await clock.settled();
  socket(0).events.closed(1006, '');
  greetFrom(socket(1), 'b', ['b']);
  await clock.advance(1);
  const alone = [tunnel.tunnels, sockets.length];
  greetFrom(socket(1), 'b', ['b', 'c']);
  await clock.advance(1);
  greetFrom(socket(2), 'c', ['b', 'c']);
  await clock.settled();

  expect(alone).toEqual([1, 2]);
  expect(tunnel.tunnels).toBe(2);
  expect(states.map(({ state }) => state)).toEqual(['connecting', 'connected']);
});

test(`${secondTitle} a node that drains keeps its open calls, and no third tunnel replaces the first`, async () => {
  const done = Promise.withResolvers<void>();
  const { clock, socket, sockets } = kept(async () => {
    await done.promise;
    return { status: 200, headers: {}, body: bytes('late') };
  });
  await clock.settled();
  greetFrom(socket(0), 'a', ['a', 'b']);
  await clock.advance(1);
  greetFrom(socket(1), 'b', ['a', 'b']);
  await clock.settled();
  ask(socket(0), 1, 'slow');
  await clock.settled();
  greetFrom(socket(1), 'b', ['b']);
  socket(0).events.frame(writeFrame(frameType.drain, 0));
  await clock.advance(2);
  done.resolve();
  await clock.settled();

  expect(sockets).toHaveLength(2);
  expect(socket(0).ended).toBeUndefined();
  expect(typesOf(socket(0), 1).at(-1)).toBe(frameType.end);
});

test(`${secondTitle} a new key replaces both tunnels`, async () => {
  const { clock, socket, tunnel } = kept();
  await clock.settled();
  greetFrom(socket(0), 'a', ['a', 'b']);
  await clock.advance(1);
  greetFrom(socket(1), 'b', ['a', 'b']);
  await clock.settled();
  const renewed = tunnel.renew();
  await clock.settled();
  greetFrom(socket(2), 'b', ['a', 'b']);
  await (
    await renewed
  )?.drained;
  await clock.advance(1);
  greetFrom(socket(3), 'a', ['a', 'b']);
  await clock.settled();

  expect([0, 1, 2, 3].map((at) => socket(at).ended)).toEqual([1000, 1000, undefined, undefined]);
});

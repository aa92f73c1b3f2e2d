import { expect, test } from 'vitest';

import { callerNames } from '#server/upstreams/tunnel/agent-tunnels';
import { handTunnels } from '#support/agent-by-hand';
import { chunksOf } from '#support/fake-upstream';
import { credit, head, hello, types, wireFrame, type WireFrame } from '#support/wire-frames';

test('calls go to the tunnel with the fewest calls', async () => {
  using server = handTunnels();
  const agents = [server.connect(), server.connect(), server.connect()];
  const answers = Array.from({ length: 9 }, (_, index) => server.send({ caller: `c${index}` }));

  expect(agents.map(({ tunnel }) => tunnel.calls)).toEqual([3, 3, 3]);
  for (const agent of agents) for (const { stream } of agent.opened()) agent.answer(stream);
  await Promise.all(answers);
});

test('a caller returns to the process that served it', async () => {
  using server = handTunnels();
  const agents = [server.connect(), server.connect()];
  for (let count = 0; count < 4; count += 1) {
    const answer = server.send();
    for (const agent of agents) {
      for (const { stream } of agent.opened().slice(-1)) agent.answer(stream);
    }
    await answer;
  }

  const counts = agents.map((agent) => agent.opened().length);
  expect([Math.min(...counts), Math.max(...counts)]).toEqual([0, 4]);
});

test('a session stays with the process that opened it, also over its new tunnel', async () => {
  using server = handTunnels();
  const one = server.connect(['sales'], { instance: 'one' });
  const opening = server.send();
  one.answer(1, '{}', { 'mcp-session-id': 's1' });
  await opening;
  const two = server.connect(['sales'], { instance: 'two' });
  server.tunnels.remove(one.tunnel);
  const again = server.connect(['sales'], { instance: 'one' });
  const answer = server.send({ headers: { 'mcp-session-id': 's1' } });
  again.answer(1);
  await answer;

  expect([two.opened().length, again.opened().length]).toEqual([0, 1]);
});

test('a session from another node goes to the process that it names', async () => {
  using server = handTunnels();
  const [one, two] = ['one', 'two'].map((instance) => server.connect(['sales'], { instance }));
  const names = ['two', 'one', 'two', 'gone'];
  const answers = names.map((process) => {
    const upstream = server.tunnels.upstreamOf('agent_a', 'sales', 'dana', { process });
    return upstream.send({
      method: 'POST',
      headers: { 'mcp-session-id': 's1' },
      signal: new AbortController().signal,
    });
  });
  for (const agent of [one, two]) for (const { stream } of agent!.opened()) agent!.answer(stream);
  await Promise.all(answers);

  expect([one?.opened().length, two?.opened().length]).toEqual([2, 2]);
  expect(['one', 'gone'].map((name) => server.tunnels.hasProcess('agent_a', name))).toEqual([
    true,
    false,
  ]);
});

test('the process of a session is known by the name that the agent gave it, and only here', async () => {
  using server = handTunnels();
  const opened = async (agent: ReturnType<typeof server.connect>, caller: string) => {
    const opening = server.send({ caller });
    agent.answer(1, '{}', { 'mcp-session-id': 's1' });
    await opening;
    server.tunnels.remove(agent.tunnel);
    return server.tunnels.processOf('agent_a', { server: 'sales', caller, sessionId: 's1' });
  };

  expect(await opened(server.connect(['sales'], { instance: 'one' }), 'dana')).toBe('one');
  expect(await opened(server.connect(), 'eve')).toBeUndefined();
});

test('the same session id of another caller is another session', async () => {
  using server = handTunnels();
  const one = server.connect(['sales'], { instance: 'one' });
  const danas = server.send({ caller: 'dana' });
  one.answer(1, '{}', { 'mcp-session-id': 's1' });
  await danas;
  const two = server.connect(['sales'], { instance: 'two' });
  void server.send({ caller: 'dana', headers: { 'mcp-session-id': 's1' } }).catch(() => undefined);
  void server.send({ caller: 'eve', headers: { 'mcp-session-id': 's1' } }).catch(() => undefined);

  expect(one.opened().map(({ json }) => json['caller'])).toEqual(['dana', 'dana']);
  expect(two.opened().map(({ json }) => json['caller'])).toEqual(['eve']);
});

test('a session whose process ended is requested from another one, for a 404', async () => {
  using server = handTunnels();
  const one = server.connect(['sales'], { instance: 'one' });
  const opening = server.send();
  one.answer(1, '{}', { 'mcp-session-id': 's1' });
  await opening;
  server.tunnels.remove(one.tunnel);
  const two = server.connect(['sales'], { instance: 'two' });
  const answer = server.send({ headers: { 'mcp-session-id': 's1' } });
  two.say(wireFrame(types.head, 1, '{"status":404}'), wireFrame(types.end, 1));

  expect((await answer).status).toBe(404);
});

test('callers that wait for a full agent are served in turn', async () => {
  using server = handTunnels();
  const agent = server.connect();
  const send = (caller: string) => void server.send({ caller }).catch(() => undefined);
  for (let count = 0; count < 96; count += 1) send('greedy');
  for (let count = 0; count < 32; count += 1) send('other');
  for (let count = 0; count < 40; count += 1) send('greedy');
  send('modest');
  send('shy');
  await Promise.resolve();
  expect(agent.opened()).toHaveLength(128);

  for (let stream = 1; stream <= 6; stream += 1) agent.answer(stream);
  await new Promise(setImmediate);
  const served = agent
    .opened()
    .slice(128)
    .map(({ json }) => json['caller']);
  expect(served).toEqual(['greedy', 'modest', 'shy', 'greedy', 'greedy', 'greedy']);
});

test('one caller never takes the last quarter of a tunnel', async () => {
  using server = handTunnels();
  const agent = server.connect();
  for (let count = 0; count < 150; count += 1) {
    void server.send({ caller: 'greedy' }).catch(() => undefined);
  }
  void server.send({ caller: 'modest' }).catch(() => undefined);

  expect(agent.opened()).toHaveLength(97);
  expect(agent.opened().at(-1)?.json['caller']).toBe('modest');
});

test('a caller that waits behind 64 of its own, or for thirty seconds, gets Retry-After', async () => {
  using server = handTunnels();
  const agent = server.connect();
  const all = Array.from({ length: 96 + 65 }, () => server.send());
  for (const answer of all) answer.catch(() => undefined);

  expect(await all.at(-1)).toMatchObject({ status: 503, retryAfterSeconds: 1 });
  for (let seconds = 0; seconds < 30; seconds += 3) {
    server.pass(3000);
    agent.tunnel.noteActivity();
  }
  expect(await all.at(-2)).toMatchObject({ status: 503 });
});

test('a waiting caller is refused immediately when the agent disconnects', async () => {
  using server = handTunnels();
  const agent = server.connect();
  const all = Array.from({ length: 97 }, () => server.send());
  const settled = Promise.allSettled(all);
  server.tunnels.remove(agent.tunnel);

  const codes = (await settled).map((result) =>
    result.status === 'rejected' ? result.reason.code : 'answered',
  );
  expect([...new Set(codes)]).toEqual(['broken', 'offline']);
});

test('streams that only listen take no slot of a call', async () => {
  using server = handTunnels();
  const agent = server.connect();
  for (let count = 0; count < 500; count += 1) {
    void server.send({ method: 'GET' }).catch(() => undefined);
    const headers = { 'mcp-method': 'subscriptions/listen' };
    void server.send({ headers }).catch(() => undefined);
  }
  void server.send().catch(() => undefined);

  expect(agent.tunnel.listening).toBe(1000);
  expect(agent.tunnel.calls).toBe(1);
});

test('a key that is revoked ends its tunnel and its calls in progress', async () => {
  using server = handTunnels();
  const agent = server.connect();
  const other = server.connect(['sales'], { keyId: 'key_b' });
  const answers = [server.send({ caller: 'a' }), server.send({ caller: 'b' })];
  const settled = Promise.allSettled(answers);
  await server.write('key_a', undefined);
  other.answer(1);

  expect(agent.closed()).toBe(4401);
  expect(other.closed()).toBeUndefined();
  expect((await settled).map(({ status }) => status)).toEqual(['rejected', 'fulfilled']);
});

test('a key that expires ends its tunnel, although nothing was written', async () => {
  using server = handTunnels();
  const agent = server.connect(['sales'], { keyExpiresAt: server.clock.now() + 60 });
  server.clock.advance(59);
  await server.tunnels.checkKeys();
  expect(agent.closed()).toBeUndefined();
  server.clock.advance(1);
  await server.tunnels.checkKeys();

  expect(agent.closed()).toBe(4401);
});

test('BOUND is sent again when the dashboard binds or unbinds a server', async () => {
  using server = handTunnels();
  const agent = server.connect(['sales']);
  await server.write('key_a', ['sales', 'stock']);
  await server.write('key_a', ['sales', 'stock']);
  await server.write('key_a', []);

  const bound = agent.frames.filter(({ type }) => type === types.bound);
  expect(bound.map(({ json }) => json['servers'])).toEqual([['sales'], ['sales', 'stock'], []]);
});

test('one query serves all tunnels, and runs only after a write', async () => {
  using server = handTunnels();
  for (let count = 0; count < 10; count += 1) server.connect();
  await server.tunnels.checkKeys();
  const before = server.asked();
  for (let count = 0; count < 10; count += 1) await server.tunnels.checkKeys();
  expect(server.asked()).toBe(before);
  await server.write('key_a', ['sales']);

  expect(server.asked()).toBe(before + 1);
});

test('a server that drains announces it, lets calls finish and then closes', async () => {
  using server = handTunnels();
  const agent = server.connect();
  const idle = server.connect();
  const answer = server.send();
  server.tunnels.drain();

  expect(idle.closed()).toBe(1001);
  expect(agent.closed()).toBeUndefined();
  expect(agent.frames.at(-1)?.type).toBe(types.drain);
  await expect(server.send()).rejects.toMatchObject({ code: 'offline' });
  expect(server.tunnels.hasRoomFor('agent_a')).toBe(false);
  agent.answer(1);
  expect((await answer).status).toBe(200);
  expect(agent.closed()).toBe(1001);
});

test('one agent has at most 32 tunnels', () => {
  using server = handTunnels();
  for (let count = 0; count < 31; count += 1) server.connect();
  expect(server.tunnels.hasRoomFor('agent_a')).toBe(true);
  server.connect();

  expect(server.tunnels.hasRoomFor('agent_a')).toBe(false);
});

async function textOf(body: Parameters<typeof chunksOf>[0]): Promise<string> {
  const pieces: Uint8Array[] = [];
  for await (const chunk of chunksOf(body)) pieces.push(chunk);
  return Buffer.concat(pieces).toString();
}

const piece = Buffer.alloc(64 * 1024);

test('if callers leave too much unread, the slowest is given up and the others continue', async () => {
  using server = handTunnels();
  const agents = [server.connect(), server.connect(), server.connect()];
  const reading = server.send({ caller: 'reader' });
  const slow = Array.from({ length: 300 }, (_, index) => server.send({ caller: `slow ${index}` }));
  let brought = 0;
  for (const agent of agents)
    for (const { stream } of agent.opened()) {
      agent.say(head(stream, { 'content-type': 'text/event-stream' }));
      const pieces = agent === agents[0] && stream === 1 ? 0 : 4;
      for (let count = 0; count < pieces; count += 1) {
        agent.say(wireFrame(types.data, stream, piece));
        brought += piece.length;
      }
    }
  agents[0]?.say(wireFrame(types.data, 1, 'read'));
  const isReset = ({ type }: WireFrame) => type === types.reset;
  const resets = agents.flatMap(({ frames }) => frames.filter(isReset));
  for (const agent of agents) {
    const given = new Set(agent.frames.filter(isReset).map(({ stream }) => stream));
    for (const { stream } of agent.opened())
      if (!given.has(stream)) agent.say(wireFrame(types.end, stream));
  }
  const read = await reading;

  expect(brought).toBeGreaterThan(64 * 1024 * 1024);
  expect(resets).toHaveLength(300 - 255);
  expect(await textOf(read.body)).toBe('read');
  const ends = await Promise.allSettled(slow.map(async (answer) => textOf((await answer).body)));
  expect(ends.filter(({ status }) => status === 'rejected')).toHaveLength(45);
});

test('requests that cannot be sent yet take 64 MiB at most, and one caller’s take less', async () => {
  using server = handTunnels();
  const agent = server.connect();
  const body = new Uint8Array(4 * 1024 * 1024);
  const send = (caller: string) => server.send({ caller, body });
  const greedy = Array.from({ length: 13 }, () => send('greedy'));
  const others = ['a', 'b', 'c', 'd'].map(send);
  for (const answer of [...greedy, ...others]) answer.catch(() => undefined);

  expect(await greedy.at(-1)).toMatchObject({ status: 503, retryAfterSeconds: 1 });
  expect(agent.opened()).toHaveLength(16);
  void send('e').catch(() => undefined);
  // The latest request of the caller with the most memory gives way.
  expect(await greedy[11]).toMatchObject({ status: 503, retryAfterSeconds: 1 });
  expect(agent.opened()).toHaveLength(17);
  server.tunnels.remove(agent.tunnel);
  const again = server.connect();
  for (let count = 0; count < 16; count += 1) void send(`n${count}`).catch(() => undefined);
  expect(again.opened()).toHaveLength(16);
  expect(await send('one too many')).toMatchObject({ status: 503 });
  again.say(credit(1, body.length));
  void send('one more').catch(() => undefined);
  expect(again.opened()).toHaveLength(17);
});

test('a caller that waits for a tunnel is given up too, and a call that ends is not counted as waiting', async () => {
  using server = handTunnels();
  server.connect();
  const body = new Uint8Array(4 * 1024 * 1024);
  const ended = new AbortController();
  const small = Array.from({ length: 96 }, () => server.send({ caller: 'greedy' }));
  const waiting = Array.from({ length: 12 }, () => server.send({ caller: 'greedy', body }));
  const gone = server.send({ caller: 'other', body, signal: ended.signal });
  for (const answer of [...small, ...waiting, gone]) answer.catch(() => undefined);
  ended.abort();

  await expect(gone).rejects.toMatchObject({ name: 'AbortError' });
  for (let count = 0; count < 5; count += 1)
    server.send({ caller: `n${count}`, body }).catch(() => undefined);
  expect(await waiting.at(-1)).toMatchObject({ status: 503, retryAfterSeconds: 1 });
  expect(server.tunnels.presenceOf('agent_a').waiting).toBe(11);
});

test('pages are notified when an agent connects, changes or disconnects', () => {
  using server = handTunnels();
  const seen = new Set<number>();
  const look = () => seen.add(server.tunnels.revision('acme'));
  look();
  const agent = server.connect();
  look();
  agent.say(hello(['stock']));
  look();
  expect(server.tunnels.presenceOf('agent_a')).toMatchObject({
    isOnline: true,
    tunnels: 1,
    versions: ['0.1.0'],
    servers: [{ name: 'stock', kind: 'stdio' }],
  });
  server.tunnels.remove(agent.tunnel);
  look();

  expect(seen.size).toBe(4);
  expect(server.tunnels.presenceOf('agent_a').isOnline).toBe(false);
});

const told = (frames: readonly WireFrame[]) =>
  frames.filter(({ type }) => type === types.left).map(({ json }) => json['caller']);

test('an agent is notified in every tunnel about a caller that lost access, if that ever called it', async () => {
  using server = handTunnels();
  const [one, two] = [server.connect(), server.connect()];
  const other = server.connect(['sales'], { id: 'agent_b', keyId: 'key_b' });
  const answer = server.send();
  for (const agent of [one, two]) if (agent.opened().length > 0) agent.answer(1);
  await answer;
  for (const caller of ['dana', 'nobody']) server.tunnels.endCaller(caller);

  expect([one, two, other].map(({ frames }) => told(frames))).toEqual([['dana'], ['dana'], []]);
});

test('a caller that lost access during its first call is reported too', () => {
  using server = handTunnels();
  const agent = server.connect();
  server.send().catch(() => undefined);
  server.tunnels.endCaller('dana');

  expect(told(agent.frames)).toEqual(['dana']);
});

test('a reconnected agent is notified of those who lost access, for as long as it may have sessions of theirs', () => {
  using server = handTunnels();
  const agent = server.connect();
  for (const caller of ['dana', 'eve']) {
    server.send({ caller }).catch(() => undefined);
    server.tunnels.remove(agent.tunnel);
    server.tunnels.endCaller(caller);
    if (caller === 'dana') server.pass(80_000);
    server.connect();
  }
  const soon = server.connect();
  server.pass(11_000);
  const later = server.connect();
  server.pass(90_000);
  const late = server.connect();

  expect([soon, later, late].map(({ frames }) => told(frames))).toEqual([
    ['dana', 'eve'],
    ['eve'],
    [],
  ]);
});

test('a caller that is admitted again has not lost access, and the end of its session does not change that', () => {
  using server = handTunnels();
  const agent = server.connect();
  for (const caller of ['dana', 'eve']) {
    server.send({ caller }).catch(() => undefined);
    server.tunnels.endCaller(caller);
  }
  server.send({ caller: 'dana' }).catch(() => undefined);
  const headers = { 'mcp-session-id': 's1' };
  server.send({ caller: 'eve', method: 'DELETE', headers }).catch(() => undefined);
  server.tunnels.remove(agent.tunnel);

  expect(told(server.connect().frames)).toEqual(['eve']);
});

test('a caller has one name at one server, which reveals nothing about its identity', () => {
  const name = callerNames(Buffer.alloc(32, 1));

  expect(name('client:c:dana srv_a')).toBe(name('client:c:dana srv_a'));
  expect(name('client:c:dana srv_a')).not.toBe(name('client:c:dana srv_b'));
  expect(name('client:c:dana srv_a')).toMatch(/^[\w-]{32}$/);
  expect(callerNames(Buffer.alloc(32, 2))('x')).not.toBe(name('x'));
});

test('an agent is told which node it reached and which are alive, whenever that changes', () => {
  let alive = ['a', 'b'];
  using server = handTunnels({ nodes: () => ({ node: 'a', nodes: alive }) });
  const agent = server.connect();
  server.pass(2000);
  alive = ['a'];
  server.pass(500);

  const bounds = agent.frames.filter(({ type }) => type === types.bound);
  expect(bounds.map(({ json }) => [json['node'], json['nodes']])).toEqual([
    ['a', ['a', 'b']],
    ['a', ['a']],
  ]);
});

test('a server that can only have one node names none', () => {
  using server = handTunnels();
  const agent = server.connect();
  server.pass(2000);

  const bounds = agent.frames.filter(({ type }) => type === types.bound);
  expect(bounds.map(({ json }) => json)).toEqual([
    { organization: 'acme', agent: 'berlin', servers: ['sales'], batches: true },
  ]);
});

test('107: agents: calls to agents that are not connected leave nothing behind', async () => {
  using server = handTunnels();
  const { signal } = new AbortController();
  for (let n = 0; n < 2000; n += 1) {
    const upstream = server.tunnels.upstreamOf(`agent_${n}`, 'sales', 'dana');
    await expect(upstream.send({ method: 'POST', headers: {}, signal })).rejects.toMatchObject({
      code: 'offline',
    });
  }

  expect(server.tunnels.remembered).toBe(0);
});

test('107: agents: the last thousand disconnected ones are remembered, and a forgotten one serves when it returns', async () => {
  using server = handTunnels();
  for (let n = 0; n < 1100; n += 1) {
    const { tunnel } = server.connect(['sales'], { id: `agent_${n}` });
    server.tunnels.remove(tunnel);
  }
  const { remembered } = server.tunnels;
  const upstream = server.tunnels.upstreamOf('agent_0', 'sales', 'dana');
  const again = server.connect(['sales'], { id: 'agent_0' });
  const { signal } = new AbortController();
  const answer = upstream.send({ method: 'POST', headers: {}, signal });
  again.answer(1);

  expect((await answer).status).toBe(200);
  expect(remembered).toBe(1000);
});

import { expect, test } from 'vitest';

import { handTunnels } from '#support/agent-by-hand';
import { chunksOf } from '#support/fake-upstream';
import { batch, credit, head, hello, types, wireFrame } from '#support/wire-frames';

async function textOf(body: Parameters<typeof chunksOf>[0]): Promise<string> {
  let all = '';
  for await (const chunk of chunksOf(body)) all += Buffer.from(chunk).toString();
  return all;
}

test('HELLO is answered with what the dashboard bound to the agent', () => {
  using server = handTunnels();
  const agent = server.connect(['sales', 'stock']);

  expect(agent.frames.map(({ type, stream, json }) => ({ type, stream, json }))).toEqual([
    {
      type: types.bound,
      stream: 0,
      json: { organization: 'acme', agent: 'berlin', servers: ['sales', 'stock'], batches: true },
    },
  ]);
});

test('a request is OPEN, DATA and END, and its answer arrives whole', async () => {
  using server = handTunnels();
  const agent = server.connect();
  const headers = { accept: 'application/json', authorization: 'Bearer x', 'mcp-param-a': 'b' };
  const answer = server.send({ headers, body: '{"a":1}' });

  expect(agent.opened()[0]?.json).toEqual({
    server: 'sales',
    method: 'POST',
    headers: { accept: 'application/json', 'mcp-param-a': 'b' },
    caller: 'dana',
  });
  expect(agent.frames.slice(-2).map(({ type, payload }) => [type, payload.toString()])).toEqual([
    [types.data, '{"a":1}'],
    [types.end, ''],
  ]);

  agent.answer(1, '{"b":2}', { 'mcp-session-id': 's1', 'set-cookie': 'no', 'retry-after': '7' });
  expect(await answer).toEqual({
    status: 200,
    mediaType: 'application/json',
    sessionId: 's1',
    retryAfterSeconds: 7,
    body: Buffer.from('{"b":2}'),
  });
});

test('a person’s key goes only to an agent that passes it on, for a server over HTTP', async () => {
  using server = handTunnels();
  const key = { name: 'x-api-key', value: 'the key of dana' };
  const recent = server.connect(['sales'], { greets: false });
  recent.say(hello(['sales'], { keys: true, servers: [{ name: 'sales', kind: 'http' }] }));
  void server.send({ key }).catch(() => undefined);
  const opened = recent.opened().map(({ json }) => json);

  expect(opened).toMatchObject([{ server: 'sales', headers: {}, key }]);
});

test.each([
  ['of a command', { keys: true }],
  ['of an agent that does not know keys', { servers: [{ name: 'sales', kind: 'http' }] }],
])('a person’s key is not sent to a server %s', async (_title, said) => {
  using server = handTunnels();
  const agent = server.connect(['sales'], { greets: false });
  agent.say(hello(['sales'], said));

  const sent = server.send({ key: { name: 'x-api-key', value: 'the key of dana' } });
  sent.catch(() => undefined);

  expect(agent.opened()).toEqual([]);
  await expect(sent).rejects.toMatchObject({ code: 'not_served' });
});

test('frames are joined only for an agent whose HELLO says that it reads BATCH', () => {
  using server = handTunnels();
  const old = server.connect();
  const recent = server.connect(['sales'], { greets: false });
  recent.say(hello(['sales'], { batches: true }));

  expect([old.joins(), recent.joins()]).toEqual([false, true]);
});

test('an answer in one BATCH is read like its frames, and an event stream in it arrives whole', async () => {
  using server = handTunnels();
  const agent = server.connect();
  const answers = [server.send(), server.send()];
  const events = { 'content-type': 'text/event-stream' };
  const framesOf = (stream: number, text: string, headers: object) => [
    head(stream, headers),
    wireFrame(types.data, stream, text),
    wireFrame(types.end, stream),
  ];
  agent.say(batch(...framesOf(1, '{}', {}), ...framesOf(2, 'data: {}\n\n', events)));

  expect(await Promise.all(answers)).toMatchObject([
    { mediaType: 'application/json', body: Buffer.from('{}') },
    { mediaType: 'text/event-stream', body: Buffer.from('data: {}\n\n') },
  ]);
});

test('an event stream whose end is not there yet arrives as it comes', async () => {
  using server = handTunnels();
  const agent = server.connect();
  const answer = server.send();
  agent.say(head(1, { 'content-type': 'text/event-stream' }), wireFrame(types.data, 1, 'data: 1'));
  const { body } = await answer;
  agent.say(wireFrame(types.end, 1));

  expect(body).not.toBeInstanceOf(Uint8Array);
  expect(await textOf(body)).toBe('data: 1');
});

test.each([
  ['is cut off', batch(head(1)).subarray(0, -1)],
  ['has a frame that is too short', batch(Buffer.alloc(4))],
  ['holds another BATCH', batch(batch(head(1)))],
  ['has a stream', Buffer.concat([Buffer.from([types.batch, 0, 0, 0, 1]), batch().subarray(5)])],
])('a BATCH that %s is a violation, and none of it is read', async (_, message) => {
  using server = handTunnels();
  const agent = server.connect();
  const answer = server.send();
  agent.say(...Array.from({ length: 100 }, () => message));
  const before = agent.closed();
  agent.say(message);

  expect([before, agent.closed()]).toEqual([undefined, 4403]);
  await expect(answer).rejects.toMatchObject({ code: 'broken' });
});

test('a long request waits for credit after 256 KiB', async () => {
  using server = handTunnels();
  const agent = server.connect();
  const answer = server.send({ body: Buffer.alloc(300 * 1024, 'x') });
  const sent = () =>
    agent.frames
      .filter(({ type }) => type === types.data)
      .reduce((sum, { payload }) => sum + payload.length, 0);

  expect(sent()).toBe(256 * 1024);
  expect(agent.frames.at(-1)?.type).toBe(types.data);
  agent.say(credit(1, 64 * 1024));
  expect(sent()).toBe(300 * 1024);
  expect(agent.frames.at(-1)?.type).toBe(types.end);
  agent.answer(1);
  await answer;
});

test('credit is given as the bytes are read, and an agent that exceeds it is disconnected', async () => {
  using server = handTunnels();
  const agent = server.connect();
  const answer = server.send();
  const piece = Buffer.alloc(64 * 1024, 'y');
  const say = () => agent.say(wireFrame(types.data, 1, piece));
  agent.say(head(1));
  for (let count = 0; count < 4; count += 1) say();
  const { body } = await answer;

  expect(agent.frames.some(({ type }) => type === types.credit)).toBe(false);
  const chunks = chunksOf(body)[Symbol.asyncIterator]();
  expect((await chunks.next()).value).toHaveLength(256 * 1024);
  const next = chunks.next();
  const given = agent.frames.find(({ type }) => type === types.credit);
  expect(given?.payload.readUInt32BE(0)).toBe(256 * 1024);

  for (let count = 0; count < 5; count += 1) say();
  expect(agent.frames.at(-1)).toMatchObject({ type: types.reset, json: { code: 'broken' } });
  await next;
  await expect(chunks.next()).rejects.toThrow('more data than it was allowed');
});

test('a stream of events is passed on as it arrives', async () => {
  using server = handTunnels();
  const agent = server.connect();
  const answer = server.send();
  agent.say(head(1, { 'content-type': 'text/event-stream; charset=utf-8' }));
  const { body, mediaType } = await answer;
  const chunks = chunksOf(body)[Symbol.asyncIterator]();
  agent.say(wireFrame(types.data, 1, 'data: 1\n\n'));

  expect(mediaType).toBe('text/event-stream');
  expect(String((await chunks.next()).value)).toBe('data: 1\n\n');
  agent.say(wireFrame(types.end, 1));
  expect((await chunks.next()).done).toBe(true);
  expect(agent.frames.some(({ type }) => type === types.reset)).toBe(false);
});

test('answers that arrive in interleaved pieces stay separate', async () => {
  using server = handTunnels();
  const agent = server.connect();
  const answers = Array.from({ length: 20 }, (_, index) =>
    server.send({ caller: `caller ${index % 3}`, body: `nonce ${index}` }),
  );
  const asked = new Map(agent.opened().map(({ stream }) => [stream, '']));
  for (const { type, stream, payload } of agent.frames) {
    if (type === types.data) asked.set(stream, payload.toString());
  }
  for (const stream of [...asked.keys()].toReversed()) agent.say(head(stream));
  for (let at = 0; at < 8; at += 1) {
    for (const [stream, nonce] of asked)
      agent.say(wireFrame(types.data, stream, nonce.slice(at, at + 1)));
  }
  for (const stream of asked.keys()) agent.say(wireFrame(types.end, stream));

  const texts = await Promise.all(answers.map(async (answer) => textOf((await answer).body)));
  expect(texts).toEqual(answers.map((_, index) => `nonce ${index}`));
});

test('a caller that cancels is released immediately, and the agent is told', async () => {
  using server = handTunnels();
  const agent = server.connect();
  const leaving = new AbortController();
  const answer = server.send({ signal: leaving.signal });
  leaving.abort();

  await expect(answer).rejects.toMatchObject({ name: 'AbortError' });
  expect(agent.frames.at(-1)).toMatchObject({ type: types.reset, json: { code: 'cancelled' } });
  expect(agent.tunnel.calls).toBe(0);
  agent.answer(1);
  expect(agent.closed()).toBeUndefined();
});

test('a caller that stops reading an answer resets its stream', async () => {
  using server = handTunnels();
  const agent = server.connect();
  const answer = server.send();
  agent.say(
    head(1, { 'content-type': 'text/event-stream' }),
    wireFrame(types.data, 1, 'data: 1\n\n'),
  );
  for await (const _ of chunksOf((await answer).body)) break;

  expect(agent.frames.at(-1)).toMatchObject({ type: types.reset, json: { code: 'cancelled' } });
  expect(agent.tunnel.calls).toBe(0);
});

test.each([
  ['unknown_server', 'not_served'],
  ['unreachable', 'unreachable'],
  ['unknown_host', 'unknown_host'],
  ['tls', 'tls'],
  ['timeout', 'timeout'],
  ['too_large', 'too_large'],
  ['something new', 'broken'],
])('the reason %s of an agent becomes %s', async (code, expected) => {
  using server = handTunnels();
  const agent = server.connect();
  const answer = server.send();
  agent.say(wireFrame(types.reset, 1, JSON.stringify({ code, detail: 'a\nb' })));

  await expect(answer).rejects.toMatchObject({ name: 'UpstreamError', code: expected });
  expect(server.tunnels.presenceOf('agent_a').lastError?.message).toMatch(/: a b$/);
});

test('a busy agent makes the caller retry', async () => {
  using server = handTunnels();
  const agent = server.connect();
  const answer = server.send();
  agent.say(wireFrame(types.reset, 1, '{"code":"busy"}'));

  expect(await answer).toMatchObject({ status: 503, retryAfterSeconds: 1 });
});

test('frames of unknown streams are ignored, and the hundred-and-first ends the tunnel', async () => {
  using server = handTunnels();
  const agent = server.connect();
  const answer = server.send();
  const frame = (type: number, stream: number) => wireFrame(type, stream, '{}');
  for (let count = 0; count < 100; count += 1) agent.say(frame(types.data, 1000 + count));

  expect(agent.closed()).toBeUndefined();
  agent.say(frame(types.head, 7));
  expect(agent.closed()).toBe(4403);
  await expect(answer).rejects.toMatchObject({ code: 'broken' });
});

test.each([
  ['a frame before HELLO', wireFrame(types.head, 1, '{}')],
  ['a HELLO that is no JSON', wireFrame(types.hello, 0, '{')],
  ['a HELLO without servers', wireFrame(types.hello, 0, '{"version":"1"}')],
  ['four bytes', Buffer.alloc(4)],
])('%s ends the tunnel immediately', (_, frame) => {
  using server = handTunnels();
  const agent = server.connect(['sales'], { greets: false });
  agent.say(frame);

  expect(agent.closed()).toBe(4403);
});

test('a tunnel without HELLO is closed after ten seconds, and serves no one before', async () => {
  using server = handTunnels();
  const agent = server.connect(['sales'], { greets: false });
  await expect(server.send()).rejects.toMatchObject({ code: 'offline' });
  for (let seconds = 0; seconds < 11; seconds += 1) {
    server.pass(1000);
    agent.tunnel.noteActivity();
  }

  expect(agent.closed()).toBe(4403);
});

test.each([
  ['a head that is no JSON', wireFrame(types.head, 1, 'x')],
  ['a status that is none', wireFrame(types.head, 1, '{"status":99}')],
  ['a header with a line break', head(1, { 'mcp-session-id': 'a\r\nx: y' })],
  ['data before the head', wireFrame(types.data, 1, 'x')],
  ['an end before the head', wireFrame(types.end, 1)],
])('%s fails the call and nothing else', async (_, frame) => {
  using server = handTunnels();
  const agent = server.connect();
  const answer = server.send();
  agent.say(frame);

  await expect(answer).rejects.toMatchObject({ code: 'broken' });
  expect(agent.closed()).toBeUndefined();
  expect(server.tunnels.presenceOf('agent_a').isOnline).toBe(true);
});

test('a call without an answer is given up after ten minutes', async () => {
  using server = handTunnels();
  const agent = server.connect();
  const answer = server.send();
  const settled = Promise.allSettled([answer]);
  for (let seconds = 0; seconds < 603; seconds += 3) {
    server.pass(3000);
    agent.tunnel.noteActivity();
  }

  expect((await settled)[0]).toMatchObject({ reason: { code: 'timeout' } });
  expect(agent.frames.at(-1)).toMatchObject({ type: types.reset, json: { code: 'timeout' } });
});

test('an agent is pinged every two seconds, and offline after four seconds of silence', async () => {
  using server = handTunnels();
  const agent = server.connect();
  const answer = server.send();
  const settled = Promise.allSettled([answer]);
  server.pass(4000);

  expect(agent.pings()).toBe(2);
  expect(server.tunnels.presenceOf('agent_a').isOnline).toBe(true);
  agent.tunnel.noteActivity();
  server.pass(4000);
  expect(server.tunnels.presenceOf('agent_a').isOnline).toBe(true);
  server.pass(500);
  expect(agent.closed()).toBe(1006);
  expect(server.tunnels.presenceOf('agent_a').isOnline).toBe(false);
  expect((await settled)[0]).toMatchObject({ reason: { code: 'broken' } });
  await expect(server.send()).rejects.toMatchObject({ code: 'offline' });
});

test('a server that was suspended does not blame the agents', () => {
  using server = handTunnels();
  const agent = server.connect();
  server.sleep(60_000);

  expect(agent.closed()).toBeUndefined();
  agent.tunnel.noteActivity();
  server.pass(500);
  expect(agent.closed()).toBeUndefined();
});

test('a second HELLO changes what the agent can serve', async () => {
  using server = handTunnels();
  const agent = server.connect();
  await expect(server.send({ server: 'stock' })).rejects.toMatchObject({ code: 'not_served' });
  agent.say(hello(['stock']));
  const answer = server.send({ server: 'stock' });
  agent.answer(1);

  expect((await answer).status).toBe(200);
});

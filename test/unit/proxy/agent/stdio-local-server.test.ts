import { expect, test } from 'vitest';
import { jsonLinesLog } from '#proxy/log/log';
import { chunksOf } from '#proxy/agent/local-server';
import { StdioLocalServer } from '#proxy/agent/stdio-local-server';
import { fakeChild, type FakeChild } from '#support/local-server/fake-child';
import {
  localCaller,
  messagesIn,
  modernMeta,
  saidIn,
  textOf,
} from '#support/local-server/local-caller';
import { fakeClock } from '#support/fake-clock';

/** A server whose children answer `initialize` and `server/discover` on their own. */
function serverOfFakes({ maxSessionsPerCaller = 32 } = {}) {
  const clock = fakeClock();
  const children: FakeChild[] = [];
  const logged: string[] = [];
  const server = new StdioLocalServer({
    async start() {
      const child = fakeChild();
      children.push(child);
      void child.hears('initialize').then(({ id }) => {
        child.says({ id, result: { protocolVersion: '2025-11-25', serverInfo: {} } });
      });
      void child.hears('server/discover').then(({ id }) => {
        child.says({ id, result: { supportedVersions: ['2026-07-28'] } });
      });
      return child;
    },
    clock,
    log: jsonLinesLog('debug', (line) => logged.push(line)),
    maxMessageBytes: 1_000_000,
    maxSessionsPerCaller,
  });
  const child = (at: number) => {
    const found = children[at];
    if (!found) throw new Error(`no child ${at}`);
    return found;
  };
  return { server, clock, children, child, logged };
}

const content = (text: string) => ({ content: [{ type: 'text', text }] });

test('stdio server: each session of a caller has its own child process', async () => {
  const { server, children } = serverOfFakes();

  await localCaller(server).initialize();
  await localCaller(server).initialize();
  await localCaller(server, 'eve').initialize();

  expect(children).toHaveLength(3);
});

test('stdio server: requests with equal ids share a child without conflict, and keep their ids', async () => {
  const { server, child } = serverOfFakes();
  const dana = localCaller(server);
  await dana.initialize();
  const big = '12345678901234567890';
  const raw = (id: string, x: string) =>
    server.send({
      method: 'POST',
      headers: { 'mcp-session-id': dana.session() ?? '' },
      body: Buffer.from(`{"jsonrpc":"2.0","id":${id},"method":"m","params":{"x":${x}}}`),
      caller: 'dana',
      signal: new AbortController().signal,
    });
  const first = raw(big, big);
  const second = raw(big, '2');
  const [one, two] = child(0).heard.filter(({ method }) => method === 'm');
  child(0).says({ id: two?.id, result: { of: 2 } });
  child(0).says(`{"jsonrpc":"2.0","id":${String(one?.id)},"result":{"of":${big}}}`);

  const texts = await Promise.all(
    [first, second].map(async (answer) => {
      let text = '';
      for await (const chunk of chunksOf((await answer).body)) text += chunk.toString();
      return text;
    }),
  );

  expect(texts[0]).toBe(`{"jsonrpc":"2.0","id":${big},"result":{"of":${big}}}`);
  expect(texts[1]).toContain(`"id":${big}`);
  expect(texts[1]).toContain('"of":2');
});

test('stdio server: when a child exits, open requests get no answer, and the next session gets a new child', async () => {
  const { server, child, children } = serverOfFakes();
  const dana = localCaller(server);
  await dana.initialize();
  const params = { name: 'two', _meta: { progressToken: 7 } };
  const open = [dana.call('one'), dana.ask('tools/call', params)];
  const listening = await dana.send(undefined, { method: 'GET' });
  await child(0).hears('tools/call');

  child(0).says({ method: 'notifications/tools/list_changed' });
  const progressToken = child(0).heard.at(-1)?.params?.['_meta'];
  child(0).says({ method: 'notifications/progress', params: progressToken });
  child(0).dies('was killed by SIGSEGV');
  const ends = await Promise.allSettled(open);
  const heard = await saidIn(listening);
  const after = await dana.open('tools/list');
  await localCaller(server).initialize();

  const reason = { code: 'broken', message: 'the MCP server was killed by SIGSEGV' };
  const failed = { status: 'rejected', reason };
  expect(ends).toMatchObject([failed, failed]);
  expect(heard.map(({ method }) => method)).toEqual(['notifications/tools/list_changed']);
  expect(after.status).toBe(404);
  expect(children).toHaveLength(2);
});

test('stdio server: invalid lines, unexpected answers and lines over the limit are ignored', async () => {
  const { server, child, logged } = serverOfFakes();
  const dana = localCaller(server);
  await dana.initialize();
  const answer = dana.call('echo');
  const { id } = await child(0).hears('tools/call');

  for (const line of ['Server listening!', '[]', '{"jsonrpc":"2.0","id":77,"result":{}}', '{"a":'])
    child(0).says(line);
  child(0).says({ id, result: content('still here') });

  expect(textOf(await answer)).toBe('still here');
  expect(logged.filter((line) => line.includes('ignored a message'))).toHaveLength(4);
});

test('stdio server: a disconnect cancels the call at the child, under the child’s own id', async () => {
  const { server, child } = serverOfFakes();
  const dana = localCaller(server);
  await dana.initialize();
  const gone = new AbortController();
  const first = dana.open('tools/call', { name: 'one' }, gone.signal);
  const second = dana.open('tools/call', { name: 'two' });
  const [one, two] = child(0).heard.filter(({ method }) => method === 'tools/call');

  gone.abort();
  await dana.send({ method: 'notifications/cancelled', params: { requestId: 3, reason: 'late' } });
  child(0).says({ id: two?.id, result: content('too late') });

  expect(await saidIn(await first)).toEqual([]);
  expect(await saidIn(await second)).toEqual([]);
  expect(child(0).heard.slice(-2)).toEqual([
    expect.objectContaining({ params: { requestId: one?.id } }),
    expect.objectContaining({ params: { requestId: two?.id, reason: 'late' } }),
  ]);
});

test('stdio server: notifications wait for the caller’s GET stream', async () => {
  const { server, child, clock } = serverOfFakes();
  const dana = localCaller(server);
  await dana.initialize();

  child(0).says({ method: 'notifications/resources/list_changed' });
  await clock.settled();
  const listening = messagesIn(await dana.send(undefined, { method: 'GET' }));
  child(0).says({ id: 'r1', method: 'roots/list' });
  const heard = [(await listening.next()).value, (await listening.next()).value];
  await dana.send({ id: 'r1', result: { roots: [] } });
  await dana.send({ id: 'r1', result: { roots: ['twice'] } });
  await dana.send({ id: 'never asked', result: {} });

  expect(heard.map((message) => message?.method)).toEqual([
    'notifications/resources/list_changed',
    'roots/list',
  ]);
  expect(child(0).heard.filter(({ result }) => result)).toEqual([
    expect.objectContaining({ id: 'r1', result: { roots: [] } }),
  ]);
});

test('stdio server: a request of the child that a listener left unread goes to the next one', async () => {
  const { server, child, clock } = serverOfFakes();
  const dana = localCaller(server);
  await dana.initialize();

  for (const id of ['r1', 'r2']) {
    const leaving = new AbortController();
    await dana.send(undefined, { method: 'GET', signal: leaving.signal });
    child(0).says({ id, method: 'roots/list' });
    await clock.settled();
    leaving.abort();
  }
  const listening = messagesIn(await dana.send(undefined, { method: 'GET' }));
  const heard = [(await listening.next()).value, (await listening.next()).value];

  expect(heard.map((message) => message?.id)).toEqual(['r1', 'r2']);
});

test('107: stdio server: requests of a child that are too long to be buffered are refused', async () => {
  const { server, child, clock } = serverOfFakes();
  await localCaller(server).initialize();
  const params = { text: 'x'.repeat(3 * 1024 ** 2) };
  child(0).says({ id: 'first', method: 'roots/list', params });
  child(0).says({ id: 'second', method: 'roots/list', params });
  await clock.settled();

  expect(child(0).heard.filter(({ error }) => error)).toMatchObject([{ id: 'first' }]);
});

test('107: stdio server: requests of a child beyond a limit are refused, so that none waits forever', async () => {
  const { server, child, clock } = serverOfFakes();
  const dana = localCaller(server);
  await dana.initialize();

  for (let n = 1; n <= 101; n += 1) child(0).says({ id: `held ${n}`, method: 'roots/list' });
  await clock.settled();
  const refusedOfHeld = child(0).heard.filter(({ error }) => error);
  const listening = messagesIn(await dana.send(undefined, { method: 'GET' }));
  await listening.next();
  for (let n = 1; n <= 1_000; n += 1) child(0).says({ id: n, method: 'roots/list' });
  await clock.settled();
  const refused = child(0).heard.filter(({ error }) => error);
  child(0).says({ method: 'notifications/cancelled', params: { requestId: 1 } });
  child(0).says({ id: 'after', method: 'roots/list' });
  await clock.settled();

  expect(refusedOfHeld).toMatchObject([{ id: 'held 1', error: { code: -32603 } }]);
  expect(refused).toHaveLength(1 + 100);
  expect(child(0).heard.filter(({ error }) => error)).toHaveLength(refused.length);
});

test('stdio server: an idle session ends together with its child, and a busy one does not', async () => {
  const { server, child, clock } = serverOfFakes();
  const idle = localCaller(server);
  const busy = localCaller(server);
  await idle.initialize();
  await busy.initialize();
  const answer = busy.call('slow');
  await child(1).hears('tools/call');

  await clock.advance(1_801);
  const unknown = await idle.open('tools/list');

  expect(unknown.status).toBe(404);
  expect([child(0).isEnded, child(1).isEnded]).toEqual([true, false]);
  child(1).dies();
  await expect(answer).rejects.toMatchObject({ code: 'broken' });
});

test('stdio server: beyond the limit, the caller’s least recently used session ends, and no other caller’s', async () => {
  const { server, child, clock } = serverOfFakes({ maxSessionsPerCaller: 2 });
  await localCaller(server, 'eve').initialize();
  for (let at = 0; at < 3; at += 1) {
    await localCaller(server).initialize();
    await clock.advance(1);
  }

  expect([0, 1, 2, 3].map((at) => child(at).isEnded)).toEqual([false, true, false, false]);
});

test('stdio server: modern requests of a caller share one child, and progress is matched to them', async () => {
  const { server, child, children, clock } = serverOfFakes();
  const dana = localCaller(server);
  const eve = localCaller(server, 'eve');
  const discovered = await dana.ask('server/discover', { _meta: modernMeta });
  const params = { name: 'a', _meta: { ...modernMeta, progressToken: 1 } };
  const calls = [dana.open('tools/call', params), dana.open('tools/call', params)];
  await clock.settled();
  const [one, two] = child(0).heard.filter(({ method }) => method === 'tools/call');
  const meta = (message: typeof one) => Object(message?.params?.['_meta']);
  child(0).says({
    method: 'notifications/progress',
    params: { progressToken: meta(two).progressToken, progress: 5 },
  });
  child(0).says({ id: 'x', method: 'sampling/createMessage' });
  child(0).says({ id: one?.id, result: content('one') });
  child(0).says({ id: two?.id, result: content('two') });
  const said = await Promise.all(calls.map(async (call) => saidIn(await call)));
  void eve.ask('tools/list', { _meta: modernMeta });
  await clock.settled();

  expect(discovered.result).toBeDefined();
  expect(said.map((all) => all.length)).toEqual([1, 2]);
  expect(said[1]?.[0]?.params).toEqual({ progressToken: 1, progress: 5 });
  expect(child(0).heard.at(-1)).toMatchObject({ id: 'x', error: { code: -32601 } });
  expect(children).toHaveLength(2);
});

test('stdio server: after a disconnect, the caller’s children end, with or without a session, and no others', async () => {
  const { server, children } = serverOfFakes();
  const [dana, eve] = [localCaller(server), localCaller(server, 'eve')];
  for (const somebody of [dana, eve]) {
    await somebody.ask('server/discover', { _meta: modernMeta });
    await somebody.initialize();
  }
  // The child of `late` has not started yet when this caller leaves.
  const late = localCaller(server, 'late').ask('server/discover', { _meta: modernMeta });
  late.catch(() => undefined);
  await Promise.all([server.leave('dana'), server.leave('late'), server.leave('nobody')]);

  expect(children.map(({ isEnded }) => isEnded)).toEqual([true, true, false, false, true]);
  expect((await dana.open('tools/list')).status).toBe(404);

  const again = await localCaller(server).ask('server/discover', { _meta: modernMeta });

  expect(again.result).toBeDefined();
});

test('stdio server: a subscription keeps the caller’s id', async () => {
  const { server, child } = serverOfFakes();
  const dana = localCaller(server);
  const key = 'io.modelcontextprotocol/subscriptionId';
  const listening = dana.open('subscriptions/listen', { _meta: modernMeta });
  const { id } = await child(0).hears('subscriptions/listen');
  const method = 'notifications/subscriptions/acknowledged';
  child(0).says({ method, params: { _meta: { [key]: id } } });

  const first = await messagesIn(await listening).next();

  expect(id).not.toBe('listen-1');
  expect(first.value).toMatchObject({ method, params: { _meta: { [key]: 1 } } });
  child(0).dies();
});

test('stdio server: a legacy child refuses a modern request once, and is not asked again', async () => {
  const clock = fakeClock();
  let started = 0;
  const server = new StdioLocalServer({
    async start() {
      started += 1;
      const child = fakeChild();
      // Refuses the caller's own request, and the second one, with which the server makes sure.
      const refuse = async (count: number): Promise<void> => {
        await clock.settled();
        const asked = child.heard.filter(({ method }) => method === 'server/discover');
        const error = { code: -32602, message: 'before initialize' };
        for (const { id } of asked.slice(count)) child.says({ id, error });
        if (asked.length < 2) return refuse(asked.length);
      };
      void refuse(0);
      return child;
    },
    clock,
    log: jsonLinesLog('error', () => undefined),
    maxMessageBytes: 1_000,
  });
  const dana = localCaller(server);

  const answers = [
    await dana.open('server/discover', { _meta: modernMeta }),
    await dana.open('server/discover', { _meta: modernMeta }),
  ];

  expect(answers.map(({ status }) => status)).toEqual([404, 404]);
  expect(started).toBe(1);
});

test('stdio server: an error for one invalid request does not make its child legacy', async () => {
  const clock = fakeClock();
  const child = fakeChild();
  const server = new StdioLocalServer({
    start: () => Promise.resolve(child),
    clock,
    log: jsonLinesLog('error', () => undefined),
    maxMessageBytes: 1_000,
  });
  const eve = localCaller(server, 'eve');
  const wrong = eve.open('server/discover', { _meta: { ...modernMeta, wrong: true } });
  const first = await child.hears('server/discover');
  child.says({ id: first.id, error: { code: -32602, message: 'a wrong question' } });
  await clock.settled();
  const second = child.heard.findLast(({ method }) => method === 'server/discover');
  child.says({ id: second?.id, result: { supportedVersions: ['2026-07-28'] } });

  const { status } = await wrong;
  const listing = eve.open('tools/list', { _meta: modernMeta });
  const { id } = await child.hears('tools/list');
  child.says({ id, result: { tools: [] } });

  expect(status).toBe(400);
  expect(second?.params?.['_meta']).not.toHaveProperty('wrong');
  expect((await listing).status).toBe(200);
  child.dies();
});

test('stdio server: without a session, only initialize and modern requests are accepted', async () => {
  const { server } = serverOfFakes();
  const dana = localCaller(server);
  const raw = (body: string) =>
    server.send({
      method: 'POST',
      headers: {},
      body: Buffer.from(body),
      caller: 'dana',
      signal: new AbortController().signal,
    });

  const statuses = [
    await dana.open('tools/list'),
    await dana.send(undefined, { method: 'GET' }),
    await dana.send(undefined, { method: 'DELETE' }),
    await raw('[{"jsonrpc":"2.0","id":1,"method":"initialize"}]'),
    await raw('{"jsonrpc":"2.0","id":1,"id":2,"method":"initialize"}'),
    await raw(''),
  ].map(({ status }) => status);

  expect(statuses).toEqual([400, 405, 405, 400, 400, 400]);
});

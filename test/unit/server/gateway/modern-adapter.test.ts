import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';

import { modernHeaders } from '#mcp/headers';
import { messageOf } from '#mcp/message';
import { EraAdapters } from '#server/gateway/era-adapters';
import { LegacyCall } from '#server/gateway/legacy-call';
import { LegacyLink } from '#server/gateway/legacy-link';
import { InterruptedCalls } from '#server/gateway/modern-adapter';
import type { Target } from '#server/model/endpoints';
import { type SaidMessage, allOf, eraCaller, lastOf, messagesOf } from '#support/era-caller';
import {
  type ScriptedAnswer,
  type SentRequest,
  eventStream,
  fakeUpstream,
} from '#support/fake-upstream';
import { mapSteps } from '#support/map-steps';
import { modern } from '#support/mcp-call';
import { scannedMessage } from '#support/scanned-message';
import { stillClock } from '#support/still-clock';
import { patient } from '#support/patient';

describe('legacy upstream for modern callers', () => {
  const capabilities = {
    tools: { listChanged: true },
    resources: { subscribe: true },
    logging: {},
  };
  const sampling = {
    meta: { 'io.modelcontextprotocol/clientCapabilities': { sampling: {} } },
  };

  /** A server of the older era, with sessions, whose streams are written by hand. */
  function legacyServer() {
    let opened = 0;
    const known = new Set<string>();
    const forgotten: { answer: ScriptedAnswer } = { answer: { status: 404 } };
    const streams: Written[] = [];
    const heard: SaidMessage[] = [];
    const script = ({ method, headers, text, signal }: SentRequest): ScriptedAnswer => {
      const session = headers['mcp-session-id'] ?? '';
      if (method === 'DELETE') return { status: known.delete(session) ? 204 : 404 };
      if (method === 'GET') {
        const unasked = written(signal);
        streams.push(unasked);
        return { mediaType: 'text/event-stream', text: unasked.text };
      }
      const asked: SaidMessage = JSON.parse(text);
      const answer = (value: object) => ({
        text: JSON.stringify({ jsonrpc: '2.0', id: asked.id, ...value }),
      });
      if (asked.method === 'server/discover')
        return answer({ error: { code: -32601, message: 'no' } });
      if (asked.method === 'initialize') {
        opened += 1;
        const sessionId = `session-${opened}`;
        known.add(sessionId);
        const serverInfo = { name: 'older', version: '1' };
        const result = { protocolVersion: '2025-06-18', capabilities, serverInfo };
        return { ...answer({ result }), sessionId };
      }
      if (!known.has(session)) return forgotten.answer;
      heard.push(asked);
      if (asked.id === undefined || asked.method === undefined) return { status: 202 };
      if (asked.method !== 'tools/call') return answer({ result: { of: asked.method } });
      const own = written(signal);
      calls.push({ ...own, asked });
      return { mediaType: 'text/event-stream', text: own.text };
    };
    const upstream = fakeUpstream(script);
    const calls: (Written & { asked: SaidMessage })[] = [];
    return { ...upstream, upstream, script, known, forgotten, streams, calls, heard };
  }

  /** The same server over stdio: all its requests arrive on one stream, and its answers begin when they are complete. */
  function stdioServer() {
    const server = legacyServer();
    const upstream = fakeUpstream(async (request): Promise<ScriptedAnswer> => {
      const asked: SaidMessage | undefined = request.text ? JSON.parse(request.text) : undefined;
      if (asked?.method !== 'tools/call') return server.script(request);
      const answer = Promise.withResolvers<string>();
      request.signal.addEventListener('abort', () => answer.reject(request.signal.reason));
      const say = (message: object) =>
        answer.resolve(JSON.stringify({ jsonrpc: '2.0', ...message }));
      server.calls.push({ text: written(request.signal).text, say, asked });
      return { text: await answer.promise };
    });
    return { ...server, upstream };
  }

  interface Written {
    readonly text: AsyncIterable<Uint8Array>;
    readonly say: (message: object) => void;
  }

  function written(signal: AbortSignal): Written {
    const waiting: string[] = [];
    let news = Promise.withResolvers<void>();
    signal.addEventListener('abort', () => news.resolve());
    const text = (async function* () {
      while (!signal.aborted) {
        const next = waiting.shift();
        if (next !== undefined) yield Buffer.from(eventStream(next));
        else {
          news = Promise.withResolvers();
          await news.promise;
        }
      }
      throw signal.reason;
    })();
    return {
      text,
      say(message) {
        waiting.push(JSON.stringify({ jsonrpc: '2.0', ...message }));
        news.resolve();
      },
    };
  }

  let server: ReturnType<typeof legacyServer>;
  let clock: ReturnType<typeof stillClock>;
  let eras: EraAdapters;
  const as = (owner: string) => eraCaller(server.upstream, { eras, clock, owner });

  beforeEach(() => {
    server = legacyServer();
    clock = stillClock();
    eras = new EraAdapters(clock);
    return () => eras.close();
  });

  const call = { name: 't', arguments: {} };

  /** A call that the upstream answered with a question. */
  async function askedBack(owner = 'a') {
    const caller = as(owner);
    const answering = caller.modern('tools/call', call, sampling);
    await vi.waitFor(() => expect(server.calls).toHaveLength(1), patient);
    const [own] = server.calls;
    own?.say({ id: 'q', method: 'sampling/createMessage', params: { maxTokens: 1 } });
    const { result } = await lastOf(await answering);
    const requestState = result?.requestState ?? '';
    const retry = (more: object = { inputResponses: { input: { model: 'm' } } }) =>
      caller.modern('tools/call', { ...call, requestState, ...more }, sampling);
    return { result, requestState, retry, own };
  }

  test('server/discover is answered with what the upstream said in its handshake', async () => {
    const { result } = await lastOf(await as('a').modern('server/discover'));

    expect(result).toMatchObject({ supportedVersions: ['2026-07-28'], capabilities });
  });

  test('a request is sent in a session in the legacy era, and its answer returns in the modern one', async () => {
    const answer = await lastOf(await as('a').modern('prompts/list'));

    expect(answer).toMatchObject({
      id: 1,
      result: { of: 'prompts/list', resultType: 'complete', ttlMs: 0, cacheScope: 'private' },
    });
    const { headers, text } = server.sent.at(-1) ?? { headers: {}, text: '' };
    expect(headers).toMatchObject({
      'mcp-session-id': 'session-1',
      'mcp-protocol-version': '2025-06-18',
    });
    expect(headers).not.toHaveProperty('mcp-method');
    expect(text).not.toContain('io.modelcontextprotocol');
  });

  test('one handshake serves one client of an owner; another client or owner gets its own', async () => {
    await as('a').modern('prompts/list');
    await as('a').modern('prompts/list');
    await as('a').modern('prompts/list', {}, sampling);
    await as('b').modern('prompts/list');

    const sessions = server.sent
      .filter(({ text }) => text.includes('prompts/list'))
      .map(({ headers }) => headers['mcp-session-id']);
    expect(sessions).toEqual(['session-1', 'session-1', 'session-2', 'session-3']);
  });

  test.each([
    ['404', { status: 404 }],
    [
      '400, as the examples of the SDK do',
      {
        status: 400,
        text: '{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"}}',
      },
    ],
  ])(
    'a session that the upstream forgot, with %s, is opened again, and the request sent once more',
    async (_, answered) => {
      server.forgotten.answer = answered;
      await as('a').modern('prompts/list');
      server.known.clear();

      const answer = await lastOf(await as('a').modern('prompts/list'));

      expect(answer.result).toMatchObject({ of: 'prompts/list' });
    },
  );

  test('a session that is unused for five minutes is ended at the upstream', async () => {
    vi.useFakeTimers();
    try {
      eras = new EraAdapters(clock);
      await as('a').modern('prompts/list');
      clock.advance(301);
      await vi.advanceTimersByTimeAsync(30_000);

      expect(server.known).toEqual(new Set());
    } finally {
      vi.useRealTimers();
    }
  });

  test('all sessions are ended when the gateway closes', async () => {
    await as('a').modern('prompts/list');
    await as('b').modern('prompts/list');

    await eras.close();

    expect(server.known).toEqual(new Set());
  });

  test.each(['ping', 'logging/setLevel', 'resources/subscribe', 'tasks/get'])(
    '%s is not a method of the modern era',
    async (method) => {
      const answer = await as('a').modern(method);

      expect(answer.status).toBe(404);
      expect(await lastOf(answer)).toMatchObject({ error: { code: -32601 } });
    },
  );

  test('a method that the upstream does not know is 404', async () => {
    const unknowing = fakeUpstream(({ text }) => {
      const { id, method }: SaidMessage = JSON.parse(text);
      const isHandshake = method === 'initialize';
      const rest = isHandshake
        ? { result: { protocolVersion: '2025-06-18', capabilities: {} } }
        : { error: { code: -32601, message: 'no' } };
      return { text: JSON.stringify({ jsonrpc: '2.0', id, ...rest }) };
    });

    expect((await eraCaller(unknowing).modern('prompts/list')).status).toBe(404);
  });

  describe('for the member of a collection', () => {
    const proved = {
      type: 'member',
      collection: 'all',
      proved: { type: 'key', keyHash: 'hash' },
    } as const;
    const ofCollection = (target?: Partial<Target>) =>
      eraCaller(server.upstream, { eras, clock, owner: 'a', proved, ...(target && { target }) });

    test.each(['tasks/get', 'tasks/result', 'tasks/cancel'])(
      '%s passes as it is',
      async (method) => {
        const { result } = await lastOf(await ofCollection().modern(method, { taskId: 't' }));

        expect(result).toMatchObject({ of: method });
        expect(server.heard.at(-1)?.params).toEqual({ taskId: 't' });
      },
    );

    test('a change of roots is told to the upstream that has a session already', async () => {
      const changed = 'notifications/roots/list_changed';
      const told = () => server.heard.filter(({ method }) => method === changed).length;
      const send = async () => {
        const { method, params }: SaidMessage = JSON.parse(modern(changed).body);
        const text = JSON.stringify({ jsonrpc: '2.0', method, params });
        const { envelope } = scannedMessage(text);
        return ofCollection().send('modern', text, { headers: modernHeaders(envelope) });
      };

      await send();
      await ofCollection().modern('prompts/list');
      expect(told()).toBe(0);
      expect((await send()).status).toBe(202);

      await vi.waitFor(() => expect(told()).toBe(1), patient);
    });

    describe('tasks of the older era', () => {
      const about = (taskId: string) => ({
        method: 'notifications/tasks/status',
        params: { taskId, status: 'working' },
      });
      const progressOf = (progressToken: unknown) => ({
        method: 'notifications/progress',
        params: { progressToken, progress: 1 },
      });
      let gone: AbortController;
      beforeEach(() => {
        gone = new AbortController();
        return () => gone.abort();
      });

      /** Begins a task with a progress token; returns the token that the upstream got in its place. */
      async function begun(taskId: string, target?: Partial<Target>) {
        const caller = ofCollection(target);
        const params = { ...call, task: {} };
        const before = server.calls.length;
        const answering = caller.modern('tools/call', params, { meta: { progressToken: 'mine' } });
        await vi.waitFor(() => expect(server.calls).toHaveLength(before + 1), patient);
        const own = server.calls.at(-1);
        own?.say({ id: own.asked.id, result: { task: { taskId, status: 'working' } } });
        await allOf(await answering);
        return own?.asked.id;
      }

      async function listened() {
        const answer = await ofCollection().modern(
          'subscriptions/listen',
          { notifications: {} },
          { signal: gone.signal },
        );
        const messages = messagesOf(answer);
        expect((await messages.next()).value).toMatchObject({ params: { notifications: {} } });
        return async () => {
          const { value } = await messages.next();
          return value;
        };
      }

      test('a listener hears of its owner’s, and of their progress after the answer, and of no others', async () => {
        const next = await listened();
        const token = await begun('t');

        for (const taskId of ['foreign', 't']) server.streams[0]?.say(about(taskId));
        for (const known of ['foreign', token]) server.streams[0]?.say(progressOf(known));

        expect(await next()).toMatchObject(about('t'));
        expect(await next()).toMatchObject(progressOf('mine'));
      });

      test('a listener goes on hearing of them when the server was changed since it began to listen', async () => {
        const next = await listened();
        const token = await begun('t', { hiddenTools: ['x'] });
        await vi.waitFor(() => expect(server.streams).toHaveLength(2), patient);

        server.streams[1]?.say(about('t'));
        server.streams[1]?.say(progressOf(token));

        expect(await next()).toMatchObject(about('t'));
        expect(await next()).toMatchObject(progressOf('mine'));
      });

      test('what comes on the stream of a request about a task stays there', async () => {
        const token = await begun('t');
        const params = { ...call, task: {} };
        const answering = ofCollection().modern('tools/call', params);
        await vi.waitFor(() => expect(server.calls).toHaveLength(2), patient);
        const other = server.calls[1];

        for (const message of [about('foreign'), about('t'), progressOf(token)])
          other?.say(message);
        other?.say({ id: other.asked.id, result: {} });

        expect(await allOf(await answering)).toMatchObject([
          about('t'),
          progressOf('mine'),
          { id: 1, result: {} },
        ]);
      });

      test('a caller of the server itself is not told, because the modern era has other tasks', async () => {
        const answering = as('a').modern('tools/call', { ...call, task: {} });
        await vi.waitFor(() => expect(server.calls).toHaveLength(1), patient);
        const [own] = server.calls;

        own?.say(about('t'));
        own?.say({ id: own.asked.id, result: {} });

        expect(await allOf(await answering)).toMatchObject([{ id: 1, result: {} }]);
      });
    });
  });

  describe('progress and log', () => {
    test('requests of several log levels share a session, which logs for the one that wants most', async () => {
      const levels = ['error', 'debug', 'error', 'info'];
      for (const level of levels) {
        const meta = { 'io.modelcontextprotocol/logLevel': level };
        await as('a').modern('prompts/list', {}, { meta });
      }

      const set = server.heard.filter(({ method }) => method === 'logging/setLevel');
      expect(set.map(({ params }) => params)).toEqual([{ level: 'error' }, { level: 'debug' }]);
      expect(server.known.size).toBe(1);
    });

    test('progress arrives under the caller’s own token, the log only if the caller requested it', async () => {
      const said = async (meta: object) => {
        const answering = as('a').modern('tools/call', call, { meta });
        await vi.waitFor(() => expect(server.calls.length).toBeGreaterThan(0), patient);
        const { asked, say } = server.calls.pop() ?? { asked: {}, say: () => undefined };
        say({ method: 'notifications/message', params: { level: 'info', data: 'd' } });
        say({ method: 'notifications/progress', params: { progressToken: asked.id, progress: 1 } });
        say({ id: asked.id, result: {} });
        return allOf(await answering);
      };
      const level = { 'io.modelcontextprotocol/logLevel': 'info' };

      const [first, second, third] = await said({ progressToken: 'mine', ...level });
      const without = await said({});

      expect(first).toMatchObject({ method: 'notifications/message' });
      expect(second?.params).toEqual({ progressToken: 'mine', progress: 1 });
      expect(third).toMatchObject({ id: 1, result: { resultType: 'complete' } });
      expect(without).toHaveLength(1);
      expect(server.heard).toContainEqual(
        expect.objectContaining({ method: 'logging/setLevel', params: { level: 'info' } }),
      );
    });
  });

  test('closing the answer cancels the call at the upstream', async () => {
    const gone = new AbortController();
    const answering = as('a').modern('tools/call', call, { signal: gone.signal });
    const failed = answering.then(() => 'answered', String);
    await vi.waitFor(() => expect(server.calls).toHaveLength(1), patient);
    const { asked } = server.calls[0] ?? {};

    gone.abort();

    expect(await failed).toContain('the call was ended');
    await vi.waitFor(
      () =>
        expect(server.heard).toContainEqual(
          expect.objectContaining({
            method: 'notifications/cancelled',
            params: expect.objectContaining({ requestId: asked?.id }),
          }),
        ),
      patient,
    );
  });

  describe('a question of the upstream', () => {
    test('is a result that requires input, and the retry’s response continues the same call', async () => {
      const { result, retry, own } = await askedBack();
      const answering = retry();
      await vi.waitFor(() => expect(server.heard.some(({ id }) => id === 'q')).toBe(true), patient);
      own?.say({ id: own.asked.id, result: { content: [] } });

      expect(result).toMatchObject({
        resultType: 'input_required',
        inputRequests: { input: { method: 'sampling/createMessage', params: { maxTokens: 1 } } },
      });
      expect(await lastOf(await answering)).toMatchObject({
        id: 1,
        result: { content: [], resultType: 'complete' },
      });
      expect(server.heard.find(({ id }) => id === 'q')?.result).toEqual({ model: 'm' });
      expect(server.calls).toHaveLength(1);
    });

    test('is repeated for a retry without the response', async () => {
      const { retry, requestState } = await askedBack();

      const { result } = await lastOf(await retry({}));

      expect(result).toMatchObject({ resultType: 'input_required' });
      expect(result?.requestState).not.toBe(requestState);
    });

    test('continues once, and for its owner only', async () => {
      const { retry, requestState, own } = await askedBack('a');
      const stolen = as('b').modern('tools/call', { ...call, requestState }, sampling);
      await expect(stolen).rejects.toMatchObject({ code: 'not_theirs' });
      const answering = retry();
      own?.say({ id: own.asked.id, result: {} });
      await answering;

      await expect(retry()).rejects.toMatchObject({ code: 'not_theirs' });
    });

    test('is answered by the gateway if the caller does not support it, as a ping always is', async () => {
      const answering = as('a').modern('tools/call', call);
      await vi.waitFor(() => expect(server.calls).toHaveLength(1), patient);
      const [own] = server.calls;
      own?.say({ id: 'p', method: 'ping' });
      own?.say({ id: 'q', method: 'sampling/createMessage', params: {} });
      await vi.waitFor(() => expect(server.heard.some(({ id }) => id === 'q')).toBe(true), patient);
      own?.say({ id: own.asked.id, result: {} });
      await answering;

      expect(server.heard.find(({ id }) => id === 'p')?.result).toEqual({});
      expect(server.heard.find(({ id }) => id === 'q')?.error).toMatchObject({ code: -32601 });
    });

    test('on the stream that belongs to no call goes to the latest call', async () => {
      const answering = as('a').modern('tools/call', call, sampling);
      await vi.waitFor(
        () => expect([server.calls.length, server.streams.length]).toEqual([1, 1]),
        patient,
      );

      server.streams[0]?.say({ id: 'q', method: 'sampling/createMessage', params: {} });

      expect((await lastOf(await answering)).result).toMatchObject({
        resultType: 'input_required',
      });
    });

    test('is cancelled at the upstream if it is not answered for ten minutes', async () => {
      vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
      try {
        const { retry } = await askedBack();
        await vi.advanceTimersByTimeAsync(600_000);

        await expect(retry()).rejects.toMatchObject({ code: 'not_theirs' });
        expect(server.heard.map(({ method }) => method)).toContain('notifications/cancelled');
      } finally {
        vi.useRealTimers();
      }
    });
  });

  describe('over stdio, where the upstream does not name the call', () => {
    const question = (id: string) => ({ id, method: 'sampling/createMessage', params: {} });
    const responses = (id: string) => server.heard.filter((message) => message.id === id);

    beforeEach(() => {
      server = stdioServer();
    });

    /** `count` calls that the upstream has received and not answered. */
    async function openCalls(count: number) {
      const callers = Array.from({ length: count }, () => {
        const gone = new AbortController();
        const caller = as('a');
        const { signal } = gone;
        const answered = caller.modern('tools/call', call, { ...sampling, signal }).then(lastOf);
        answered.catch(() => undefined);
        return { answered, gone };
      });
      await vi.waitFor(
        () => expect([server.calls.length, server.streams.length]).toEqual([count, 1]),
        patient,
      );
      const [stream] = server.streams;
      return { callers, ask: (id: string) => stream?.say(question(id)) };
    }
    const retried = ({ result }: SaidMessage) =>
      as('a')
        .modern(
          'tools/call',
          {
            ...call,
            requestState: result?.requestState,
            inputResponses: { input: { model: 'm' } },
          },
          sampling,
        )
        .then(lastOf);
    const answerAll = () => {
      for (const { say, asked } of server.calls) say({ id: asked.id, result: { content: [] } });
    };

    test('a question reaches the caller before the answer of its call has begun', async () => {
      const { callers, ask } = await openCalls(2);

      ask('q');
      const asked = await callers[1]?.answered;
      const answered = retried(asked ?? {});
      await vi.waitFor(() => expect(responses('q')).toHaveLength(1), patient);
      answerAll();

      expect(asked?.result).toMatchObject({ resultType: 'input_required' });
      expect((await answered).result).toMatchObject({ resultType: 'complete' });
      expect((await callers[0]?.answered)?.result).toMatchObject({ resultType: 'complete' });
    });

    test('the next question goes to the call whose caller still waits', async () => {
      const { callers, ask } = await openCalls(2);

      ask('q1');
      await callers[1]?.answered;
      ask('q2');

      expect((await callers[0]?.answered)?.result).toMatchObject({ resultType: 'input_required' });
    });

    test('a question of a call that was answered before it goes to another call', async () => {
      const { callers, ask } = await openCalls(2);

      const last = server.calls[1];
      last?.say({ id: last.asked.id, result: {} });
      ask('q');

      expect((await callers[1]?.answered)?.result).toMatchObject({ resultType: 'complete' });
      expect((await callers[0]?.answered)?.result).toMatchObject({ resultType: 'input_required' });
    });

    test('a question whose caller disconnected before it goes to another call', async () => {
      const { callers, ask } = await openCalls(2);

      ask('q');
      callers[1]?.gone.abort();

      expect((await callers[0]?.answered)?.result).toMatchObject({ resultType: 'input_required' });
    });

    test('a question without a remaining caller is refused', async () => {
      const { callers, ask } = await openCalls(1);

      ask('q1');
      callers[0]?.gone.abort();
      await vi.waitFor(() => expect(responses('q1')).toHaveLength(1), patient);
      ask('q2');
      await vi.waitFor(() => expect(responses('q2')).toHaveLength(1), patient);

      expect([...responses('q1'), ...responses('q2')].map(({ error }) => error?.code)).toEqual([
        -32601, -32601,
      ]);
    });

    test('a question without an answer is refused when its call is given up', async () => {
      const { callers, ask } = await openCalls(1);
      ask('q');
      await callers[0]?.answered;

      eras.endOf('a');
      await vi.waitFor(() => expect(responses('q')).toHaveLength(1), patient);

      expect(responses('q')[0]?.error).toMatchObject({ code: -32603 });
    });

    test('closing the answer cancels a call whose answer has not begun', async () => {
      const { callers } = await openCalls(1);

      callers[0]?.gone.abort();

      await expect(callers[0]?.answered).rejects.toMatchObject({ name: 'AbortError' });
      await vi.waitFor(
        () => expect(server.heard.map(({ method }) => method)).toContain('notifications/cancelled'),
        patient,
      );
    });
  });

  describe('a subscription', () => {
    const notifications = { toolsListChanged: true, resourceSubscriptions: ['a:b'] };
    const listen = (owner: string, but: object = notifications) => {
      const gone = new AbortController();
      const listening = as(owner).modern(
        'subscriptions/listen',
        { notifications: but },
        { signal: gone.signal },
      );
      return { gone, messages: listening.then(messagesOf) };
    };

    test('is acknowledged as far as the upstream supports it, and notified under its own id', async () => {
      const stream = await listen('a', { ...notifications, promptsListChanged: true }).messages;
      const { value: acknowledged } = await stream.next();
      server.streams[0]?.say({ method: 'notifications/prompts/list_changed' });
      server.streams[0]?.say({ method: 'notifications/resources/updated', params: { uri: 'c:d' } });
      server.streams[0]?.say({ method: 'notifications/tools/list_changed' });
      server.streams[0]?.say({ method: 'notifications/resources/updated', params: { uri: 'a:b' } });

      const _meta = { 'io.modelcontextprotocol/subscriptionId': 1 };
      expect(acknowledged).toMatchObject({
        method: 'notifications/subscriptions/acknowledged',
        params: { notifications, _meta },
      });
      expect((await stream.next()).value).toMatchObject({
        method: 'notifications/tools/list_changed',
        params: { _meta },
      });
      expect((await stream.next()).value).toMatchObject({
        method: 'notifications/resources/updated',
        params: { uri: 'a:b', _meta },
      });
      expect(server.heard).toContainEqual(
        expect.objectContaining({ method: 'resources/subscribe' }),
      );
    });

    test('with a log level gets what the upstream logs outside of calls, from that level on', async () => {
      const meta = { 'io.modelcontextprotocol/logLevel': 'warning' };
      const answer = as('a').modern('subscriptions/listen', { notifications: {} }, { meta });
      const stream = messagesOf(await answer);
      await stream.next();
      const log = 'notifications/message';
      server.streams[0]?.say({ method: log, params: { level: 'info', data: 1 } });
      server.streams[0]?.say({ method: log, params: { level: 'error', data: 2 } });

      const _meta = { 'io.modelcontextprotocol/subscriptionId': 1 };
      expect((await stream.next()).value?.params).toEqual({ level: 'error', data: 2, _meta });
      await stream.return(undefined);
    });

    test('gets no notification of another owner', async () => {
      const mine = await listen('a').messages;
      const theirs = await listen('b').messages;
      await mine.next();
      await theirs.next();
      server.streams[0]?.say({ method: 'notifications/resources/updated', params: { uri: 'a:b' } });
      server.streams[1]?.say({ method: 'notifications/tools/list_changed' });

      expect((await mine.next()).value?.method).toBe('notifications/resources/updated');
      expect((await theirs.next()).value?.method).toBe('notifications/tools/list_changed');
    });

    test('when closed, ends the upstream subscriptions that it alone needed', async () => {
      const first = listen('a');
      const second = listen('a');
      await (await first.messages).next();
      await (await second.messages).next();
      const unsubscribed = () =>
        server.heard.filter(({ method }) => method === 'resources/unsubscribe').length;

      first.gone.abort();
      expect((await (await first.messages).next()).done).toBe(true);
      expect(unsubscribed()).toBe(0);
      second.gone.abort();
      expect((await (await second.messages).next()).done).toBe(true);

      await vi.waitFor(() => expect(unsubscribed()).toBe(1), patient);
    });

    test('at an upstream without a GET stream ends immediately, with nothing honoured', async () => {
      const silent = fakeUpstream(({ method, text }) => {
        if (method !== 'POST') return { status: 405 };
        const { id, method: asked }: SaidMessage = JSON.parse(text);
        const result = { protocolVersion: '2025-06-18', capabilities };
        if (asked === 'initialize') return { text: JSON.stringify({ jsonrpc: '2.0', id, result }) };
        return id === undefined ? { status: 202 } : { status: 404 };
      });
      const answer = await eraCaller(silent).modern('subscriptions/listen', { notifications });

      expect(await allOf(answer)).toMatchObject([
        { params: { notifications: {} } },
        { id: 1, result: { resultType: 'complete' } },
      ]);
    });
  });
});

describe('calls that wait for their caller', () => {
  const link = new LegacyLink({
    upstream: fakeUpstream(() => ({ status: 202 })),
    client: { capabilities: '{}', clientInfo: undefined, logLevel: undefined },
    initialized: messageOf('{"jsonrpc":"2.0","id":0,"result":{}}'),
    protocolVersion: '2025-06-18',
    sessionId: undefined,
  });
  const question = messageOf('{"jsonrpc":"2.0","id":1,"method":"elicitation/create"}');
  const made: LegacyCall[] = [];

  afterEach(() => {
    for (const call of made.splice(0)) call.over();
  });

  function interrupted(owner: string) {
    const ports = { tell: () => undefined, over: () => undefined };
    const call = new LegacyCall('1', ports, { isCallers: true, isAskable: true });
    made.push(call);
    return { owner, link, call, question };
  }

  test('the hundred and first waiting call of an owner ends its oldest, and no other owner’s', () => {
    const calls = new InterruptedCalls();
    const other = interrupted('b');
    const theirs = calls.keep(other);
    const first = interrupted('a');
    const states = [first, ...Array.from({ length: 100 }, () => interrupted('a'))].map((call) =>
      calls.keep(call),
    );

    expect(calls.size).toBe(101);
    expect(first.call.ended.aborted).toBe(true);
    expect(calls.take(states[0] ?? '', 'a')).toBeUndefined();
    expect(calls.take(states[1] ?? '', 'b')).toBeUndefined();
    expect(calls.take(states[1] ?? '', 'a')).toBeDefined();
    expect(calls.take(theirs, 'b')).toMatchObject(other);
  });

  test('the state of one owner does not grow with the calls of all others', () => {
    const calls = new InterruptedCalls();
    for (let index = 0; index < 2000; index += 1) calls.keep(interrupted(`other ${index}`));
    for (let index = 0; index < 100; index += 1) calls.keep(interrupted('mine'));
    const one = interrupted('mine');

    expect(mapSteps(() => calls.keep(one))).toBeLessThan(20);
    expect(calls.size).toBe(2100);
  });
});

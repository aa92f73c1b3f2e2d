import { expect, test } from 'vitest';
import { readMessage, type Message } from '#mcp/raw-message';
import { jsonLinesLog } from '#proxy/log/log';
import type { CachedAnswers } from '#proxy/pipeline/cached-answers';
import type { ConnectionState } from '#proxy/pipeline/contact';
import { OfflineCache, redactedServer } from '#proxy/pipeline/offline-cache';
import { compose } from '#proxy/pipeline/step';
import type { SignInPage } from '#proxy/auth/sign-in-service';
import type { PersonSignIn } from '#proxy/pipeline/sign-in-page';
import { signInTool } from '#proxy/pipeline/offline-answers';
import { type Deliver, type Upstream, UpstreamError } from '#proxy/transport/upstream';
import { fakeClock } from '#support/fake-clock';

type Said = {
  id?: unknown;
  method?: string;
  result?: Record<string, unknown>;
  error?: { code: number };
};
type Script = (request: { method: string; id: unknown }) => unknown;

class SignedOut extends Error {}
const away = () => {
  throw new UpstreamError('unreachable', 'cannot reach it');
};
const silent = () => new Promise(() => {});
const signedOut = () => {
  throw new SignedOut('nobody is signed in');
};

const handshake = {
  protocolVersion: '2025-11-25',
  capabilities: { tools: {}, prompts: {} },
  serverInfo: { name: 'real', version: '1' },
};
const tools = { tools: [{ name: 'echo' }] };

/** A server that works: it answers the handshake and `tools/list`, and everything else with an empty result. */
const works: Script = ({ method }) => {
  if (method === 'initialize') return handshake;
  if (method === 'tools/list') return tools;
  return {};
};

function memoryAnswers(): CachedAnswers {
  const kept = new Map<string, Buffer>();
  return {
    read: (question) => Promise.resolve(kept.get(question)),
    keep: (question, answer) => Promise.resolve(void kept.set(question, answer)),
    forget: () => Promise.resolve(kept.clear()),
  };
}

/** A proxy whose server answers by `script`, which may change; `next` is the next run on this machine. */
function machine(answers = memoryAnswers(), signInService?: PersonSignIn) {
  const clock = fakeClock();
  const asked: string[] = [];
  const said: Said[] = [];
  const standings: ConnectionState[] = [];
  const server = { script: works };
  const upstream: Upstream = {
    async send(message, deliver) {
      asked.push(message.method ?? 'answer');
      const id: unknown = message.id === undefined ? undefined : JSON.parse(message.id);
      const result = await server.script({ method: message.method ?? '', id });
      if (message.kind !== 'request') return;
      const answer = result instanceof Map ? Object.fromEntries(result) : { result };
      await deliver(readMessage(Buffer.from(JSON.stringify({ id, ...answer }))));
    },
    listen: () => Promise.resolve(),
    close: () => Promise.resolve(),
  };
  const cache = new OfflineCache({
    answers,
    name: 'acme',
    url: 'https://acme.example/mcp',
    troubleOf: (error) => {
      if (error instanceof SignedOut) return 'signed_out';
      if (error instanceof UpstreamError && error.code === 'account') return 'account';
      return error instanceof UpstreamError && error.code === 'unreachable' ? 'offline' : undefined;
    },
    explain: String,
    ...(signInService && { signInService }),
    presence: { changed: (standing) => standings.push(standing) },
    clock,
    log: jsonLinesLog('error', () => undefined),
    random: () => 1,
  });
  const proxy = compose([cache], upstream);
  const deliver: Deliver = async (message: Message) => {
    said.push(JSON.parse(message.bytes.toString()));
  };
  let ids = 0;
  const never = new AbortController().signal;
  const message = (value: object) => readMessage(Buffer.from(JSON.stringify(value)));
  return {
    clock,
    asked,
    said,
    server,
    standings,
    /** The methods of the messages that the proxy sent on its own. */
    told: () => said.flatMap(({ method }) => (method === undefined ? [] : [method])),
    tell: async (method: string) => proxy.send(message({ method }), deliver, never),
    /** The answer, with a result or an error; rejects if sending the request fails. */
    async request(method: string, params: object = {}): Promise<Said> {
      ids += 1;
      const id = ids;
      await proxy.send(message({ id, method, params }), deliver, never);
      return said.find((one) => one.id === id && one.method === undefined) ?? {};
    },
    async start() {
      const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: {} };
      const answer = await this.request('initialize', params);
      await this.tell('notifications/initialized');
      return answer;
    },
    next: () => machine(answers, signInService),
    close: async () => proxy.close(never),
  };
}

/** The second run on a machine whose first run cached the handshake and the tools. */
async function seen(signInService?: PersonSignIn) {
  const first = machine(memoryAnswers(), signInService);
  await first.start();
  await first.request('tools/list');
  await first.close();
  return first.next();
}

/** A sign-in service whose person signs in when the test says so. */
function testDoor() {
  const finished = Promise.withResolvers<boolean>();
  const shown = Promise.withResolvers<void>();
  const state = { signedIn: false, given: 0 };
  let page: SignInPage | undefined;
  const signInService: PersonSignIn = {
    waits: false,
    command: 'latchkey login acme',
    page: () => page,
    shown: (signal) =>
      new Promise((resolve) => {
        signal.addEventListener('abort', () => resolve());
        void shown.promise.then(resolve);
      }),
    begin() {
      shown.resolve();
      page ??= {
        link: () => new URL('http://127.0.0.1:49152/sign-in/1'),
        opened: false,
        done: finished.promise,
        giveUp() {
          state.given += 1;
          page = undefined;
        },
      };
      return Promise.resolve(page);
    },
    signedIn: () => Promise.resolve(state.signedIn),
    lookAgain() {
      if (state.signedIn) finished.resolve(true);
      return Promise.resolve();
    },
  };
  const finish = () => {
    state.signedIn = true;
    finished.resolve(true);
  };
  return { signInService, state, finish };
}

const text = ({ result }: Said) => JSON.stringify(result);

test('offline cache: every request is sent to a reachable server first', async () => {
  const run = await seen();
  const answer = await run.start();
  await run.request('tools/list');

  expect(answer.result).toEqual(handshake);
  expect(run.asked).toEqual(['initialize', 'notifications/initialized', 'tools/list']);
});

test('offline cache: requests to an unreachable server are answered immediately, with listChanged announced', async () => {
  const run = await seen();
  run.server.script = away;

  const answer = await run.start();
  const list = await run.request('tools/list');

  expect(answer.result).toEqual({
    ...handshake,
    capabilities: { tools: { listChanged: true }, prompts: { listChanged: true } },
  });
  expect(list.result).toEqual(tools);
  expect(run.asked).toEqual(['initialize']);
});

test('offline cache: an unreachable server is retried with growing pauses; then its changes are announced', async () => {
  const run = await seen();
  run.server.script = away;
  await run.start();
  await run.request('tools/list');
  await run.clock.advance(1);
  await run.clock.advance(1);
  await run.clock.advance(1);
  const tries = run.asked.length;
  run.server.script = works;
  run.asked.length = 0;
  await run.clock.advance(4);

  expect(tries).toBe(3);
  expect(run.asked).toEqual(['initialize', 'notifications/initialized']);
  expect(run.told()).toEqual(['notifications/tools/list_changed']);
  expect(run.standings.map(({ state }) => state)).toEqual(['offline', 'online']);
});

test('offline cache: a call during an outage retries immediately, and fails with the start of the outage', async () => {
  const run = await seen();
  run.server.script = away;
  await run.start();
  run.asked.length = 0;

  const failed = run.request('tools/call', { name: 'echo' });
  await expect(failed).rejects.toMatchObject({ code: 'offline', sinceAt: run.clock.now() });
  run.server.script = works;
  const { result } = await run.request('tools/call', { name: 'echo' });

  expect(result).toEqual({});
  expect(run.asked).toEqual([
    'initialize',
    'initialize',
    'notifications/initialized',
    'tools/call',
  ]);
});

test('offline cache: a slow handshake is answered after two seconds from the cache, after eight without one', async () => {
  const known = await seen();
  known.server.script = silent;
  const kept = known.start();
  await known.clock.settled();
  await known.clock.advance(2);
  const unknown = machine();
  unknown.server.script = silent;
  let made: Said | undefined;
  void unknown.start().then((answer) => (made = answer));
  await unknown.clock.advance(2);
  const early = made;
  await unknown.clock.advance(6);

  expect((await kept).result).toMatchObject({ serverInfo: { name: 'real' } });
  expect(early).toBeUndefined();
  expect(made?.result).toMatchObject({ serverInfo: { name: 'acme' } });
});

test('offline cache: a slow list is answered from the cache, and a change is announced if the late answer differs', async () => {
  const run = await seen();
  await run.start();
  for (const late of [tools, { tools: [] }]) {
    const slow = Promise.withResolvers<unknown>();
    run.server.script = () => slow.promise;
    const list = run.request('tools/list');
    await run.clock.asleep();
    await run.clock.advance(2);
    expect((await list).result).toEqual(tools);
    slow.resolve(late);
    await run.clock.settled();
  }

  expect(run.told()).toEqual(['notifications/tools/list_changed']);
});

test('offline cache: a list that fails during a session is answered from the cache until the server is back', async () => {
  const run = await seen();
  await run.start();
  run.server.script = away;
  const list = await run.request('tools/list');
  const failed = run.request('tools/call');
  await expect(failed).rejects.toBeInstanceOf(UpstreamError);
  run.server.script = works;
  run.asked.length = 0;
  await run.clock.advance(1);

  expect(list.result).toEqual(tools);
  expect(run.asked).toEqual(['ping']);
  expect(run.told()).toEqual(['notifications/tools/list_changed']);
});

test('offline cache: a server whose own upstream is down counts as unreachable', async () => {
  const run = await seen();
  run.server.script = () => new Map([['error', { code: -32000, message: 'agent offline' }]]);

  const answer = await run.start();

  expect(answer.result).toMatchObject({ serverInfo: { name: 'real' } });
  await expect(run.request('tools/call')).rejects.toMatchObject({ message: 'agent offline' });
});

test('offline cache: an error of the server is passed on, even if there is a cached answer', async () => {
  const run = await seen();
  run.server.script = () => new Map([['error', { code: -32602, message: 'no such version' }]]);

  expect((await run.start()).error?.code).toBe(-32602);
});

test('offline cache: server/discover of an unknown server fails with the original error', async () => {
  const run = machine();
  run.server.script = away;

  await expect(run.request('server/discover')).rejects.toBeInstanceOf(UpstreamError);
});

test('offline cache: a list that the server does not support, but the substitute announced, is empty', async () => {
  const run = machine();
  run.server.script = away;
  await run.start();
  run.server.script = works;
  await run.clock.advance(1);
  const resources = await run.request('resources/templates/list');
  await run.request('prompts/list');

  expect(resources.result).toEqual({ resourceTemplates: [] });
  expect(run.asked).not.toContain('resources/templates/list');
  expect(run.asked).toContain('prompts/list');
});

test('signed out: a sign_in tool is listed beside the cached tools until sign-in completes', async () => {
  const { signInService, finish } = testDoor();
  const run = await seen(signInService);
  run.server.script = signedOut;
  await run.start();
  const before = await run.request('tools/list');
  const alive = await run.request('ping');
  await expect(run.request('prompts/get')).rejects.toMatchObject({ code: 'signed_out' });
  const told = await run.request('tools/call', { name: 'sign_in' });
  const waiting = run.request('prompts/get');
  run.server.script = works;
  run.asked.length = 0;
  finish();
  const waited = await waiting;
  const after = await run.request('tools/list');

  expect(waited.result).toEqual({});
  expect(before.result?.['tools']).toMatchObject([{ name: 'sign_in' }, { name: 'echo' }]);
  expect(alive.result).toEqual({});
  expect(text(told)).toContain('http://127.0.0.1:49152/sign-in/1');
  expect(text(told)).toContain('latchkey login acme');
  expect(run.told()).toEqual(['notifications/tools/list_changed']);
  expect(after.result).toEqual(tools);
  expect(run.asked).toEqual([
    'initialize',
    'notifications/initialized',
    'prompts/get',
    'tools/list',
  ]);
});

test('signed out: the server is not contacted until another process has signed in', async () => {
  const { signInService, state } = testDoor();
  const run = machine(memoryAnswers(), signInService);
  run.server.script = signedOut;
  const made = await run.start();
  const before = await run.request('tools/list');
  run.asked.length = 0;
  await run.clock.advance(3_600);
  const meanwhile = [...run.asked];
  state.signedIn = true;
  run.server.script = works;
  await run.clock.advance(30);

  expect(made.result).toMatchObject({ instructions: expect.stringContaining('sign_in') });
  expect(before.result?.['tools']).toMatchObject([{ name: 'sign_in' }]);
  expect(meanwhile).toEqual([]);
  expect(run.asked).toEqual(['initialize', 'notifications/initialized']);
  expect(run.told()).toEqual(['notifications/tools/list_changed']);
});

test('signed out: if the sign-in ends during a session, changed tools are announced, including sign_in', async () => {
  const { signInService } = testDoor();
  const run = machine(memoryAnswers(), signInService);
  await run.start();
  await run.request('tools/list');
  run.server.script = signedOut;

  await expect(run.request('tools/call', { name: 'echo' })).rejects.toMatchObject({
    code: 'signed_out',
  });
  const list = await run.request('tools/list');

  expect(run.told()).toEqual(['notifications/tools/list_changed']);
  expect(list.result?.['tools']).toMatchObject([{ name: 'sign_in' }, { name: 'echo' }]);
});

const keyPage = 'https://acme.example/dashboard/acme/servers/crm/account';
const keyMissing = `enter your own key for this MCP server first: open ${keyPage}`;
/** A server that answers everything with its request for the person's key. */
const asksForKey = (code: number) => () => new Map([['error', { code, message: keyMissing }]]);

test.each([-32000, -32042])(
  'own key: with the error %i instead of a handshake, a tool returns the page, and the tools follow when the key is there',
  async (code) => {
    const run = machine();
    run.server.script = asksForKey(code);
    const made = await run.start();
    const before = await run.request('tools/list');
    const told = await run.request('tools/call', { name: 'connect_account' });
    await run.clock.advance(2);
    run.server.script = works;
    await run.clock.advance(30);
    const after = await run.request('tools/list');
    const again = await run.request('tools/call', { name: 'echo' });

    expect(made.result).toMatchObject({ instructions: expect.stringContaining('connect_account') });
    expect(before.result?.['tools']).toMatchObject([{ name: 'connect_account' }]);
    expect(text(told)).toContain(keyPage);
    expect(told.result).not.toHaveProperty('isError');
    expect(run.standings.map(({ state }) => state)).toEqual(['account', 'online']);
    expect(run.told()).toEqual(['notifications/tools/list_changed']);
    expect([after.result, again.result]).toEqual([tools, {}]);
  },
);

test('own key: beside cached tools, calls fail as tools do, with the page, and work once the key is there', async () => {
  const run = await seen();
  run.server.script = asksForKey(-32000);
  await run.start();
  const listed = await run.request('tools/list');
  const failed = await run.request('tools/call', { name: 'echo' });
  const asTask = run.request('tools/call', { name: 'echo', task: {} });
  await expect(asTask).rejects.toMatchObject({ code: 'account', message: keyMissing });
  run.server.script = works;
  const called = await run.request('tools/call', { name: 'echo' });
  const connected = await run.request('tools/call', { name: 'connect_account' });

  expect(listed.result?.['tools']).toMatchObject([{ name: 'connect_account' }, { name: 'echo' }]);
  expect(failed.result).toEqual({ content: [{ type: 'text', text: keyMissing }], isError: true });
  expect(called.result).toEqual({});
  expect(text(connected)).toContain('available now');
  expect(run.told()).toEqual(['notifications/tools/list_changed']);
});

test('own key: server/discover without a cached answer fails, so that the assistant continues with initialize', async () => {
  const run = machine();
  run.server.script = asksForKey(-32000);

  await expect(run.request('server/discover')).rejects.toMatchObject({ code: 'account' });
  expect((await run.start()).result).toMatchObject({ serverInfo: { name: 'acme' } });
});

test('own key: a list that asks for it during a session gets the tool beside the cached tools', async () => {
  const run = await seen();
  await run.start();
  run.server.script = asksForKey(-32000);
  const list = await run.request('tools/list');
  await run.clock.advance(2);
  const stillAsked = run.standings.at(-1);

  expect(list.result?.['tools']).toMatchObject([{ name: 'connect_account' }, { name: 'echo' }]);
  expect(stillAsked).toMatchObject({ state: 'account', reason: keyMissing });
});

test('own key: an address of another origin is no page of the server', async () => {
  const run = machine();
  const message = 'enter your key: open https://evil.example/dashboard/acme/servers/crm/account';
  run.server.script = () => new Map([['error', { code: -32000, message }]]);

  expect((await run.start()).error).toMatchObject({ code: -32000 });
});

test('sign-in tool: the assistant sees the server’s URL without the key in it', () => {
  const url = 'https://mcp.example.com/mcp?key=hunter22';
  const told = JSON.stringify([
    signInTool.described(redactedServer({ name: 'acme', url })),
    signInTool.described(redactedServer({ name: url, url })),
  ]);

  expect(told).toContain('https://mcp.example.com/mcp');
  expect(told).not.toContain('hunter22');
});

import { randomBytes } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { Upstream } from '#server/gateway/upstream';
import { NodeLinkError } from '#server/nodes/link-stream';
import { NodeLinks } from '#server/nodes/node-links';
import { type LocalAgents, RemoteAgents } from '#server/nodes/remote-agents';
import { masterKey } from '#server/secrets/master-key';
import { MemoryBus } from '#support/memory-bus';
import { patient } from '#support/patient';

let nowMs: number;
let bus: MemoryBus;

/** A node with agents that a test connects, each answering with the name of the node and one session. */
class TestNode {
  readonly bus: ReturnType<MemoryBus['connect']>;
  readonly links: NodeLinks;
  readonly agents: RemoteAgents;
  readonly ended: string[] = [];
  readonly pauses: number[] = [];
  /** How many of the next attempts to open a call fail as if NATS were away. */
  failures = 0;
  /** Whether it cannot ask the database which agents lost their keys. */
  isCutOff = false;
  /** The processes of agents that are connected. */
  readonly #online = new Map<string, readonly string[]>();
  /** The process of the agent that each call here was sent to; `undefined` for any process. */
  readonly asked: (string | undefined)[] = [];
  /** The process that answered the last call here, and has the session. */
  #opened: string | undefined;

  constructor(name: string, common: { bus: MemoryBus; masterKey: ReturnType<typeof masterKey> }) {
    this.bus = common.bus.connect();
    this.links = new NodeLinks({
      ...common,
      bus: this.bus,
      instance: name.repeat(16).slice(0, 16),
      nowMs: () => nowMs,
      wallMs: () => 0,
      ended: () => {},
      accept: (opening, stream) => void this.agents.answer(opening, stream),
    });
    const { links } = this;
    this.agents = new RemoteAgents(
      {
        open: async (node, opening) => {
          if (this.failures === 0) return links.open(node, opening);
          this.failures -= 1;
          throw new NodeLinkError('unreachable', 'NATS cannot be reached');
        },
        announce: (...announced) => links.announce(...announced),
        findAgent: (...found) => links.findAgent(...found),
        hasJustHeard: (...node) => links.hasJustHeard(...node),
      },
      {
        nowMs: () => nowMs,
        mayAnswer: () => !this.isCutOff,
        pause: async (ms) => {
          this.pauses.push(ms);
          await nextTurn();
        },
      },
    );
    const upstreamOf = (process?: string): Upstream => ({
      send: async () => {
        this.asked.push(process);
        this.#opened = process ?? this.#online.get('agt_a')?.[0];
        return {
          status: 200,
          mediaType: 'application/json',
          sessionId: 'session',
          retryAfterSeconds: undefined,
          body: Buffer.from(JSON.stringify(name)),
        };
      },
    });
    const tunnels: LocalAgents = {
      upstreamOf: (...call) => upstreamOf(call[3]?.process),
      takesCalls: (agent) => this.#online.has(agent),
      hasProcess: (agent, process) => this.#online.get(agent)?.includes(process) ?? false,
      processOf: () => this.#opened,
      endCaller: (caller) => void this.ended.push(caller),
    };
    this.agents.serve(tunnels);
  }

  connect(agent: string, isOnline = true, processes: readonly string[] = []): void {
    if (isOnline) this.#online.set(agent, processes);
    else this.#online.delete(agent);
    this.agents.notePresence(agent, { takesCalls: isOnline, processes });
  }

  /** The name of the node that answers a call of `session`, or, without one, a call that opens a session. */
  async call(session?: string): Promise<string> {
    const answer = await this.agents.upstreamOf('agt_a', 'sales', 'dana').send({
      method: 'POST',
      headers: session === undefined ? {} : { 'mcp-session-id': session },
      body: Buffer.from('{}'),
      signal: new AbortController().signal,
    });
    if (!(answer.body instanceof Uint8Array)) throw new Error('a short answer is whole');
    return String(JSON.parse(Buffer.from(answer.body).toString()));
  }
}

let a: TestNode;
let b: TestNode;
let c: TestNode;
let d: TestNode;
beforeEach(() => {
  nowMs = 0;
  bus = new MemoryBus();
  const common = { bus, masterKey: masterKey(randomBytes(32)) };
  [a, b] = [new TestNode('a', common), new TestNode('b', common)];
  [c, d] = [new TestNode('c', common), new TestNode('d', common)];
});
afterEach(async () => {
  for (const { links } of [a, b, c, d]) await links.close();
});

test('remote agents: a session stays with its node while the agent is connected to it, and then moves', async () => {
  a.connect('agt_a');
  const opened = await c.call();
  // A search finds the node that connected first, which is now `b`.
  a.connect('agt_a', false);
  b.connect('agt_a');
  a.connect('agt_a');
  const before = [await c.call('session'), await c.call('session')];
  a.connect('agt_a', false);
  const after = await c.call('session');

  expect([opened, ...before, after]).toEqual(['a', 'a', 'a', 'b']);
});

test('remote agents: a session goes to a tunnel of this node when its node has lost the agent', async () => {
  a.connect('agt_a');
  await c.call();
  c.connect('agt_a');
  const before = await c.call('session');
  a.connect('agt_a', false);

  expect([before, await c.call('session')]).toEqual(['a', 'c']);
});

test('remote agents: a session whose node died goes to the process of the agent that has it', async () => {
  a.connect('agt_a', true, ['process 1']);
  b.connect('agt_a', true, ['process 2']);
  const opened = await d.call();
  c.connect('agt_a', true, ['process 2', 'process 1']);
  await a.links.close();
  a.connect('agt_a', false);
  const after = await d.call('session');
  d.connect('agt_a', true, ['process 2']);
  const besideAnother = await d.call('session');
  d.connect('agt_a', true, ['process 1']);
  const here = await d.call('session');

  expect([opened, after, besideAnother, here]).toEqual(['a', 'c', 'c', 'd']);
  expect([c.asked, d.asked]).toEqual([['process 1', 'process 1'], ['process 1']]);
});

test('remote agents: a session whose process ended goes to any other, for a 404', async () => {
  a.connect('agt_a', true, ['process 1']);
  await d.call();
  b.connect('agt_a', true, ['process 2']);
  a.connect('agt_a', false);

  expect(await d.call('session')).toBe('b');
});

/** How often nodes asked for an agent so far. */
function searches(): number {
  return bus.published.filter(({ subject }) => subject.includes('.agent.')).length;
}

test('remote agents: an agent that was just found is not searched for again, for one second', async () => {
  a.connect('agt_a', true, ['process 1']);
  await c.call();
  const counts = [searches()];
  for (const later of [20, 20, 940, 20, 20]) {
    nowMs += later;
    // Without this opening, the link would have been silent for too long.
    if (later > 50) await c.links.open('aaaaaaaaaaaaaaaa', { to: 'agents', left: 'eve' });
    for (let turn = 0; turn < 5; turn += 1) await nextTurn();
    await c.call();
    counts.push(searches());
  }

  expect(counts).toEqual([1, 1, 1, 1, 2, 2]);
});

test('remote agents: an agent is searched for again when its node was silent for a moment', async () => {
  a.connect('agt_a');
  await c.call();
  nowMs += 51;
  await c.call();

  expect(searches()).toBe(2);
});

test('remote agents: a call to an agent that has just moved goes to its new node', async () => {
  a.connect('agt_a', true, ['process 1']);
  const before = [await c.call(), await c.call('session')];
  a.connect('agt_a', false);
  b.connect('agt_a', true, ['process 1']);
  const after = [await c.call(), await c.call('session')];

  expect([before, after]).toEqual([
    ['a', 'a'],
    ['b', 'b'],
  ]);
});

test('remote agents: a call of a session whose process has just moved follows it, though its node has another', async () => {
  a.connect('agt_a', true, ['process 1']);
  const before = [await c.call(), await c.call('session')];
  a.connect('agt_a', true, ['process 2']);
  b.connect('agt_a', true, ['process 1']);
  const after = await c.call('session');

  expect([...before, after]).toEqual(['a', 'a', 'b']);
  expect(b.asked).toEqual(['process 1']);
});

/** A call that node `c` has not sent yet, because it sends once a turn. */
async function unsentCall(): Promise<{ readonly answer: Promise<string> }> {
  const answer = c.call();
  await new Promise<void>((resolve) => process.nextTick(resolve));
  return { answer };
}

test('remote agents: a call that was not sent when its node went away is sent to another one, once', async () => {
  a.connect('agt_a');
  await c.call();
  const { answer } = await unsentCall();
  a.connect('agt_a', false);
  b.connect('agt_a');
  c.bus.onLost();

  expect(await answer).toBe('b');
  expect([a.asked.length, b.asked.length]).toEqual([1, 1]);
});

test('remote agents: a call that was not sent when the link ended is sent over the next one, once', async () => {
  a.connect('agt_a');
  await c.call();
  const { answer } = await unsentCall();
  c.bus.onLost();

  expect(await answer).toBe('a');
  expect(a.asked.length).toBe(2);
});

test('remote agents: a call that was sent before the link ended is sent nowhere else', async () => {
  a.connect('agt_a');
  await c.call();
  bus.onMessage = () => [];
  const answer = c.call().catch((error: unknown) => error);
  for (let turn = 0; turn < 5; turn += 1) await nextTurn();
  a.connect('agt_a', false);
  b.connect('agt_a');
  c.bus.onLost();

  expect(await answer).toMatchObject({ name: 'UpstreamError', code: 'broken' });
  expect(b.asked).toEqual([]);
});

test('remote agents: the news that a caller lost access is repeated every second until the other node confirms it', async () => {
  a.connect('agt_a');
  await c.call();
  c.failures = 3;
  c.agents.endCaller('dana');
  c.agents.endCaller('eve');
  await vi.waitFor(() => expect(a.ended).toEqual(['dana', 'eve']), patient);

  expect(c.pauses).toEqual([1000, 1000, 1000]);
  expect(c.ended).toEqual(['dana', 'eve']);
  expect(b.ended).toEqual([]);
});

test('remote agents: a node that ended gets no more news', async () => {
  a.connect('agt_a');
  await c.call();
  await a.links.close();
  await nextTurn();
  c.agents.endCaller('dana');
  for (let turn = 0; turn < 20; turn += 1) await nextTurn();

  expect(c.pauses.length).toBeLessThan(2);
  expect(a.ended).toEqual([]);
});

test('112: cut-off node: no call goes to an agent through a node that cannot check its key', async () => {
  a.connect('agt_a');
  b.connect('agt_a');
  const before = [await c.call(), await c.call('session')];
  a.isCutOff = true;
  const meanwhile = [await c.call(), await c.call('session')];
  const stream = await c.links.open('aaaaaaaaaaaaaaaa', {
    to: 'agent',
    agent: 'agt_a',
    server: 'sales',
    caller: 'dana',
    isProbe: false,
    method: 'POST',
    headers: {},
  });

  expect([before, meanwhile]).toEqual([
    ['a', 'a'],
    ['b', 'b'],
  ]);
  await expect(stream.head).rejects.toMatchObject({ code: 'reset', reset: { code: 'offline' } });
});

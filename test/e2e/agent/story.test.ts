import { createHash, randomBytes } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

import { afterAll, beforeAll, expect, test } from 'vitest';

import { storyAssistant, textOf, type StoryAssistant } from '#support/agent-story/story-assistant';
import { storyWorld, type StoryWorld } from '#support/agent-story/story-world';
import { mcpCall } from '#support/mcp-call';
import { refusedDial } from '#support/raw-agent';

const patient = { timeout: 30_000, interval: 100 };
const soon = { timeout: 15_000, interval: 100 };
const dial = 'GET /api/agents/connect ';

let world: StoryWorld;
let assistant: StoryAssistant;
beforeAll(async () => {
  world = await storyWorld();
  assistant = await storyAssistant(world);
});
afterAll(async () => {
  await assistant[Symbol.asyncDispose]();
  await world[Symbol.asyncDispose]();
});

const slow = (seconds: number, steps = 1) => ({
  name: 'trigger-long-running-operation',
  arguments: { duration: seconds, steps },
});
const sentTo = (part: string) => world.sent().filter(({ text }) => text.includes(part));
/** What a child of `who` says by itself, unasked, arrives; it speaks every five seconds. */
async function hearsItsChild(who: StoryAssistant): Promise<void> {
  const before = who.logged;
  await expect.poll(() => who.logged, soon).toBeGreaterThan(before);
}
const outcome = (call: Promise<unknown>) => call.then(() => 'answered', String);

test('tools of a private network are listed, but for those kept back there, and called', async () => {
  const { tools } = await assistant.client.listTools();
  const names = tools.map(({ name }) => name);

  expect(names).toContain('echo');
  expect(names).not.toContain('get-env');
  expect(await assistant.echo('hé 世界')).toBe('Echo: hé 世界');
  await expect(assistant.client.callTool({ name: 'get-env' })).rejects.toThrow(/get-env/);
});

test('a result of 10 MB arrives byte by byte', async () => {
  // The server says it twice, as text and structured.
  const text = randomBytes(2_500_000).toString('hex');
  const path = join(world.folder, 'big.txt');
  await writeFile(path, text);
  await using files = await storyAssistant(world, 'files');
  const read = await files.client.callTool({ name: 'read_text_file', arguments: { path } });

  expect(JSON.stringify(read).length).toBeGreaterThan(10_000_000);
  expect(sha256(textOf(read))).toBe(sha256(text));
  expect(sha256(String(Object(read.structuredContent).content))).toBe(sha256(text));
});

test('progress comes while a call runs, and the server may ask the assistant for a sample', async () => {
  const steps: number[] = [];
  const { client } = assistant;
  await client.callTool(slow(0.6, 3), undefined, { onprogress: (at) => steps.push(at.progress) });
  const prompt = { prompt: 'why', maxTokens: 10 };
  const sampled = await client.callTool({ name: 'trigger-sampling-request', arguments: prompt });

  expect([...steps, ...assistant.lateSteps]).toEqual([1, 2, 3]);
  expect(textOf(sampled)).toContain('because');
});

test('what a child says by itself arrives', { timeout: 30_000 }, async () => {
  await assistant.startLog();
  const before = assistant.logged;

  await expect.poll(() => assistant.logged, soon).toBeGreaterThan(before);
});

test('a call that the assistant cancels is cancelled at the child within a second', async () => {
  const gone = new AbortController();
  const before = sentTo('long-running').length;
  const call = outcome(assistant.client.callTool(slow(30), undefined, { signal: gone.signal }));
  await expect.poll(() => sentTo('long-running').length, patient).toBe(before + 1);

  const cancelledAtMs = Date.now();
  gone.abort('no longer needed');

  expect(await call).toContain('no longer needed');
  await expect.poll(() => sentTo('notifications/cancelled').length, patient).toBe(1);
  const [seen] = sentTo('notifications/cancelled');
  expect((seen?.atMs ?? Infinity) - cancelledAtMs).toBeLessThan(1000);
});

test('an agent killed inside a call costs one error, and its successor serves and speaks', async () => {
  const before = sentTo('long-running').length;
  const call = outcome(assistant.client.callTool(slow(60)));
  await expect.poll(() => sentTo('long-running').length, patient).toBe(before + 1);

  world.agent.kill('SIGKILL');
  const error = await call;
  await world.startAgent();

  // The tool only reads, so it was asked for once more.
  expect(error).toContain('the agent that serves this endpoint is offline');
  expect(await assistant.echo('back')).toBe('Echo: back');
  // The first child was asked to, and ended with its agent.
  await assistant.startLog();
  await hearsItsChild(assistant);
  expect(assistant.surprises).toEqual([]);
});

test(
  'a network cut for 30 s: offline within 5 s, one answer a call, and then all works with nothing started anew',
  { timeout: 120_000 },
  async () => {
    const { agent } = world;
    const children = sentTo('started').length;
    const before = sentTo('long-running').length;
    const open = outcome(assistant.client.callTool(slow(60)));
    await expect.poll(() => sentTo('long-running').length, patient).toBe(before + 1);
    expect(await world.standing()).toBe('Online');

    const cutAtMs = performance.now();
    const sinceCut = () => performance.now() - cutAtMs;
    world.network.cut(dial);
    const meanwhile: Promise<string>[] = [];
    let offlineAfterMs = 0;
    while (sinceCut() < 30_000) {
      if (meanwhile.length < sinceCut() / 2000) meanwhile.push(outcome(assistant.echo('lost')));
      if (offlineAfterMs === 0 && (await world.standing()) === 'Offline')
        offlineAfterMs = sinceCut();
      await delay(50);
    }
    const said = await Promise.all([open, ...meanwhile]);
    world.network.join();
    await expect.poll(() => world.standing(), patient).toBe('Online');

    expect(offlineAfterMs).toBeGreaterThan(0);
    expect(offlineAfterMs).toBeLessThan(5000);
    expect(said).toHaveLength(16);
    for (const error of said) expect(error).toMatch(/agent|unknown/);
    expect(await assistant.echo('joined')).toBe('Echo: joined');
    await hearsItsChild(assistant);
    expect(world.agent).toBe(agent);
    expect(sentTo('started')).toHaveLength(children);
    expect(assistant.surprises).toEqual([]);
  },
);

test('the key is replaced in four steps under a stream of calls, and none fails', async () => {
  await using other = await storyAssistant(world);
  await other.startLog();
  const failures: string[] = [];
  let answered = 0;
  const over = new AbortController();
  const keepCalling = async (who: StoryAssistant, name: string) => {
    for (let count = 0; !over.signal.aborted; count += 1) {
      const message = `${name} ${count}`;
      const said = await who.echo(message).catch(String);
      if (said === `Echo: ${message}`) answered += 1;
      else failures.push(said);
    }
  };
  const keepWaiting = async (who: StoryAssistant) => {
    while (!over.signal.aborted) {
      const said = await outcome(who.client.callTool(slow(1.5)));
      if (said === 'answered') answered += 1;
      else failures.push(said);
    }
  };
  const callers = [
    ...[1, 2, 3].map((count) => keepCalling(assistant, `one ${count}`)),
    ...[1, 2, 3].map((count) => keepCalling(other, `two ${count}`)),
    keepWaiting(assistant),
    keepWaiting(other),
  ];
  const known = (of: unknown) =>
    Array.isArray(of) ? of.map((one) => ({ id: one.id, used: one.last_used_at })) : [];

  const { id, key } = await world.ask('POST', '/agents/berlin/keys', { name: 'second' });
  await world.replaceKey(String(key));
  await world.agent.line(/connected with the new key/, { timeoutMs: 30_000 });
  await world.agent.line(/not used here any more, and can be revoked/, { timeoutMs: 30_000 });
  const ofAgent = async () => known((await world.ask('GET', '/agents/berlin'))['keys']);
  const used = async () => (await ofAgent()).find((one) => one.id === id)?.used;
  await expect.poll(used, patient).toEqual(expect.any(Number));
  const old = (await ofAgent()).find((one) => one.id !== id)?.id;
  await world.ask('DELETE', `/agents/berlin/keys/${String(old)}`);
  const atRevocation = answered;
  await delay(2000);
  over.abort();
  await Promise.all(callers);

  expect(failures).toEqual([]);
  expect(answered).toBeGreaterThan(atRevocation);
  expect(await refusedDial(world.server.base, { key: world.firstKey })).toBe(401);
  expect(await world.standing()).toBe('Online');
  await Promise.all([hearsItsChild(assistant), hearsItsChild(other)]);
  expect([...assistant.surprises, ...other.surprises]).toEqual([]);
});

test('a request without any handshake is answered through the agent', async () => {
  const { status, text } = await mcpCall(`${world.server.base}/mcp/acme/everything`, {
    key: world.mcpKeys.everything,
  });

  expect(status).toBe(200);
  expect(text).toContain('"echo"');
});

test('a revoked agent is told so, says what to do, and callers hear that it is away', async () => {
  await world.ask('DELETE', '/agents/berlin');

  await world.agent.line(/the key was revoked|does not accept the agent's key/, {
    timeoutMs: 30_000,
  });
  await expect(assistant.echo('gone')).rejects.toThrow(/agent|offline/i);
});

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

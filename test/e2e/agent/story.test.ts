import { createHash, randomBytes } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { afterAll, beforeAll, expect, test } from 'vitest';

import { networkCut } from '#support/agent-story/network-cut';
import { storyAssistant, textOf, type StoryAssistant } from '#support/agent-story/story-assistant';
import { storyWorld, type StoryWorld } from '#support/agent-story/story-world';
import { mcpCall } from '#support/mcp-call';
import { refusedDial } from '#support/raw-agent';
import { patient } from '#support/patient';

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
/** Waits for an unsolicited message of the child of `who`, which sends four a second. */
async function hearsItsChild(who: StoryAssistant): Promise<void> {
  const before = who.logged;
  await expect.poll(() => who.logged, patient).toBeGreaterThan(before);
}
const outcome = (call: Promise<unknown>) => call.then(() => 'answered', String);

test('agent: tools of a private network are listed and called, without those denied there', async () => {
  const { tools } = await assistant.client.listTools();
  const names = tools.map(({ name }) => name);

  expect(names).toContain('echo');
  expect(names).not.toContain('get-env');
  expect(await assistant.echo('hé 世界')).toBe('Echo: hé 世界');
  await expect(assistant.client.callTool({ name: 'get-env' })).rejects.toThrow(/get-env/);
});

test('agent: an answer of 10 MB arrives unchanged', async () => {
  // The server sends the text twice, as text and as structured content.
  const text = randomBytes(2_500_000).toString('hex');
  const path = join(world.folder, 'big.txt');
  await writeFile(path, text);
  await using files = await storyAssistant(world, 'files');
  const read = await files.client.callTool({ name: 'read_text_file', arguments: { path } });

  expect(JSON.stringify(read).length).toBeGreaterThan(10_000_000);
  expect(sha256(textOf(read))).toBe(sha256(text));
  expect(sha256(String(Object(read.structuredContent).content))).toBe(sha256(text));
});

test('agent: progress arrives during a call, and the server may request sampling', async () => {
  const steps: number[] = [];
  const { client } = assistant;
  await client.callTool(slow(0.6, 3), undefined, { onprogress: (at) => steps.push(at.progress) });
  const prompt = { prompt: 'why', maxTokens: 10 };
  const sampled = await client.callTool({ name: 'trigger-sampling-request', arguments: prompt });

  expect([...steps, ...assistant.lateSteps]).toEqual([1, 2, 3]);
  expect(textOf(sampled)).toContain('because');
});

test('agent: a notification of the server arrives', async () => {
  await assistant.startLog();
  const before = assistant.logged;

  await expect.poll(() => assistant.logged, patient).toBeGreaterThan(before);
});

test('agent: a call cancelled by the assistant is cancelled at the child while it runs', async () => {
  const gone = new AbortController();
  const before = sentTo('long-running').length;
  const call = outcome(assistant.client.callTool(slow(3600), undefined, { signal: gone.signal }));
  await expect.poll(() => sentTo('long-running').length, patient).toBe(before + 1);

  gone.abort('no longer needed');

  expect(await call).toContain('no longer needed');
  await expect.poll(() => sentTo('notifications/cancelled').length, patient).toBe(1);
});

test.each([
  ['without progress', 1],
  ['after progress', 600],
])(
  'agent: killed during a call %s, it costs one error, and its successor serves and sends notifications',
  async (_, steps) => {
    const before = sentTo('long-running').length;
    const progress = Promise.withResolvers<void>();
    const onprogress = steps > 1 ? { onprogress: () => progress.resolve() } : undefined;
    const call = outcome(assistant.client.callTool(slow(60, steps), undefined, onprogress));
    await expect.poll(() => sentTo('long-running').length, patient).toBe(before + 1);
    if (steps > 1) await progress.promise;

    world.agent.kill('SIGKILL');
    const error = await call;
    await world.startAgent();

    // The tool only reads, so the proxy retried the call once.
    expect(error).toContain('the agent that serves this endpoint is offline');
    expect(await assistant.echo('back')).toBe('Echo: back');
    // The first child was asked for messages, and ended with its agent.
    await assistant.startLog();
    await hearsItsChild(assistant);
    expect(assistant.surprises).toEqual([]);
  },
);

test('agent: a network cut is noticed at both ends, every call gets one answer, and nothing has to be restarted', async () => {
  const { agent } = world;
  const children = sentTo('started').length;

  const cut = await networkCut(world, assistant, ({ isSeen, isDialling }) => isSeen && isDialling);

  expect(cut.offlineAfterMs).toBeDefined();
  expect(cut.asked).toBeGreaterThan(0);
  expect(cut.outcomes).toHaveLength(1 + cut.asked);
  for (const error of cut.outcomes) expect(error).toMatch(/agent|unknown/);
  expect(await assistant.echo('joined')).toBe('Echo: joined');
  await hearsItsChild(assistant);
  expect(world.agent).toBe(agent);
  expect(sentTo('started')).toHaveLength(children);
  expect(assistant.surprises).toEqual([]);
});

test('agent: its key is rotated in four steps during continuous calls, and none fails', async () => {
  await using other = await storyAssistant(world);
  await other.startLog();
  const failures: string[] = [];
  /** How many calls of each caller were answered. */
  const answered = new Map<string, number>();
  const over = new AbortController();
  // Ends the loops even if something below fails: calls of a closed client fail at once, and a loop of them would block all else.
  using ending = new DisposableStack();
  ending.defer(() => over.abort());
  const keepCalling = async (who: StoryAssistant, name: string) => {
    for (let count = 0; !over.signal.aborted; count += 1) {
      const message = `${name} ${count}`;
      const said = await who.echo(message).catch(String);
      if (said === `Echo: ${message}`) answered.set(name, (answered.get(name) ?? 0) + 1);
      else failures.push(said);
    }
  };
  const keepWaiting = async (who: StoryAssistant, name: string) => {
    while (!over.signal.aborted) {
      const said = await outcome(who.client.callTool(slow(1.5)));
      if (said === 'answered') answered.set(name, (answered.get(name) ?? 0) + 1);
      else failures.push(said);
    }
  };
  const callers = [
    ...[1, 2, 3].map((count) => keepCalling(assistant, `one ${count}`)),
    ...[1, 2, 3].map((count) => keepCalling(other, `two ${count}`)),
    keepWaiting(assistant, 'slow one'),
    keepWaiting(other, 'slow two'),
  ];
  const known = (of: unknown) =>
    Array.isArray(of) ? of.map((one) => ({ id: one.id, used: one.last_used_at })) : [];

  const { id, key } = await world.ask('POST', '/agents/berlin/keys', { name: 'second' });
  await world.replaceKey(String(key));
  await world.agent.line(/connected with the new key/);
  await world.agent.line(/no longer used here and can be revoked/);
  const ofAgent = async () => known((await world.ask('GET', '/agents/berlin'))['keys']);
  const used = async () => (await ofAgent()).find((one) => one.id === id)?.used;
  await expect.poll(used, patient).toEqual(expect.any(Number));
  const old = (await ofAgent()).find((one) => one.id !== id)?.id;
  await world.ask('DELETE', `/agents/berlin/keys/${String(old)}`);
  const atRevocation = new Map(answered);
  // The second answer from now on is to a call that began after the revocation.
  const sinceThen = () =>
    [...answered].map(([name, count]) => count - (atRevocation.get(name) ?? 0));
  await expect.poll(() => Math.min(...sinceThen()), patient).toBeGreaterThanOrEqual(2);
  over.abort();
  await Promise.all(callers);

  expect(failures).toEqual([]);
  expect(answered.size).toBe(callers.length);
  expect(await refusedDial(world.server.base, { key: world.firstKey })).toBe(401);
  expect(await world.standing()).toBe('Connected');
  await Promise.all([hearsItsChild(assistant), hearsItsChild(other)]);
  expect([...assistant.surprises, ...other.surprises]).toEqual([]);
});

test('agent: a request without a handshake is answered', async () => {
  const { status, text } = await mcpCall(`${world.server.base}/mcp/acme/everything`, {
    key: world.mcpKeys.everything,
  });

  expect(status).toBe(200);
  expect(text).toContain('"echo"');
});

test('agent: a revoked one reports why, and callers get an error that it is offline', async () => {
  await world.ask('DELETE', '/agents/berlin');

  await world.agent.line(/the key was revoked|does not accept the agent's key/);
  await expect(assistant.echo('gone')).rejects.toThrow(/agent|offline/i);
});

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

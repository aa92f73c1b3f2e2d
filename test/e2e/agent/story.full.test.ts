import { afterAll, beforeAll, expect, test } from 'vitest';

import { networkCut } from '#support/agent-story/network-cut';
import { storyAssistant, type StoryAssistant } from '#support/agent-story/story-assistant';
import { storyWorld, type StoryWorld } from '#support/agent-story/story-world';
import { patient } from '#support/patient';

let world: StoryWorld;
let assistant: StoryAssistant;
beforeAll(async () => {
  world = await storyWorld();
  assistant = await storyAssistant(world);
  // From the list, the proxy knows that the tools only read, and so retries a failed call once.
  await assistant.client.listTools();
});
afterAll(async () => {
  await assistant[Symbol.asyncDispose]();
  await world[Symbol.asyncDispose]();
});

test('a network cut for 30 s: offline within 5 s, one answer a call, and then all works without a restart', async () => {
  const { agent } = world;
  await assistant.startLog();
  const started = () => world.sent().filter(({ text }) => text.includes('started')).length;
  const children = started();

  const cut = await networkCut(world, assistant, ({ sinceMs }) => sinceMs >= 30_000);

  expect(cut.offlineAfterMs).toBeLessThan(5000);
  expect(cut.outcomes).toHaveLength(16);
  for (const error of cut.outcomes) expect(error).toMatch(/agent|unknown/);
  expect(await assistant.echo('joined')).toBe('Echo: joined');
  const logged = assistant.logged;
  await expect.poll(() => assistant.logged, patient).toBeGreaterThan(logged);
  expect(world.agent).toBe(agent);
  expect(started()).toBe(children);
  expect(assistant.surprises).toEqual([]);
});

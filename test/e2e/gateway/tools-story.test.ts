import { expect, test } from 'vitest';

import { storyPlace } from '#support/activity-story/story-place';
import { suite } from '#support/suite';
import { toldStory, toolsStory } from '#support/tools-story/tools-story';

test('tools of a group: on SQLite, programs of others see three of twelve tools, get a fourth, and lose it', async () => {
  await using place = await storyPlace('SQLite', 'http');

  expect(await toolsStory(place)).toEqual(toldStory);
});

await suite('nats', 'tools of a group on several nodes', () => {
  test('tools of a group: on three nodes and behind an agent, programs of others see three of twelve tools, get a fourth, and lose it', async () => {
    await using place = await storyPlace('three nodes', 'agent');

    expect(await toolsStory(place)).toEqual(toldStory);
  });
});

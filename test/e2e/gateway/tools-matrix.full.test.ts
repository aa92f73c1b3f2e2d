import { expect, test } from 'vitest';

import { type Installation, storyPlace, ways } from '#support/activity-story/story-place';
import { suite } from '#support/suite';
import { toldStory, toolsStory } from '#support/tools-story/tools-story';

const tellsTheStory = (chosen: readonly Installation[]) =>
  test.each(chosen.flatMap((installation) => ways.map((way) => ({ installation, way }))))(
    'tools of a group: on $installation, programs of others that reach the server through $way see only their tools',
    async ({ installation, way }) => {
      await using place = await storyPlace(installation, way);

      expect(await toolsStory(place)).toEqual(toldStory);
    },
  );

tellsTheStory(['SQLite', 'two processes']);

await suite('postgres', 'tools of a group on PostgreSQL', () => {
  tellsTheStory(['PostgreSQL']);
});

await suite('nats', 'tools of a group on several nodes', () => {
  tellsTheStory(['three nodes']);
});

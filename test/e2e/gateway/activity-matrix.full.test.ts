import { expect, test, vi } from 'vitest';

import { installations, storyPlace, ways } from '#support/activity-story/story-place';
import { rowsOf, tenCalls, tenRows } from '#support/activity-story/ten-calls';
import { patient } from '#support/patient';
import { suite } from '#support/suite';

const sharesADatabase = (installation: (typeof installations)[number]) =>
  installation === 'PostgreSQL' || installation === 'three nodes';

const recordsTenCalls = (chosen: readonly (typeof installations)[number][]) =>
  test.each(chosen.flatMap((installation) => ways.map((way) => ({ installation, way }))))(
    'activity: on $installation, each of ten calls through $way is exactly one row',
    async ({ installation, way }) => {
      await using place = await storyPlace(installation, way);

      await tenCalls(place);

      const expected = tenRows(way);
      await vi.waitFor(async () => expect(await rowsOf(place.stores)).toEqual(expected), patient);
      // The server writes all pending rows when it ends.
      await place.server.program.end();
      expect(await rowsOf(place.stores)).toEqual(expected);
    },
  );

recordsTenCalls(installations.filter((one) => !sharesADatabase(one)));

await suite('postgres', 'activity on PostgreSQL', () => {
  recordsTenCalls(['PostgreSQL']);
});

await suite('nats', 'activity on several nodes', () => {
  recordsTenCalls(['three nodes']);
});

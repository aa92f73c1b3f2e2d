import { expect, test } from 'vitest';
import { expectPatience } from '#support/stalled-server';

test('stall: a call to a server that is silent for two minutes is sent once and answered once', async () => {
  await expect(expectPatience(120_000)).resolves.toBeUndefined();
});

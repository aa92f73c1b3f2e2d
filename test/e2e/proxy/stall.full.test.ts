import { expect, test } from 'vitest';
import { expectPatience } from '#support/stalled-server';

test('stall: a call at a server that says nothing for two minutes is waited for, asked once and answered once', async () => {
  await expect(expectPatience(120_000)).resolves.toBeUndefined();
});

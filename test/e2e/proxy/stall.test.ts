import { expect, test } from 'vitest';
import { expectPatience, kinds, stalled } from '#support/stalled-server';
import { patient } from '#support/patient';

// Longer than any of the proxy's own short waits; two minutes are in stall.full.test.ts.
test('stall: a call to a server that is silent for four seconds is sent once and answered once', async () => {
  await expect(expectPatience(4000)).resolves.toBeUndefined();
});

test.each(kinds)(
  'stall: a server (%s) silent beyond the idle timeout gives one error a call, and the calls are cancelled',
  async (kind) => {
    await using run = await stalled(kind, { LATCHKEY_IDLE_TIMEOUT: '2' });
    run.call(100, 'act');
    run.call(101, 'read');
    const said = [await run.proxy.next(), await run.proxy.next()];
    await expect
      .poll(() => run.heard.filter((what) => what === 'notifications/cancelled'), patient)
      .toHaveLength(2);
    await expect.poll(() => run.heard.filter((what) => what === 'closed'), patient).toHaveLength(2);
    run.goOn();
    const after = await run.proxy.request('tools/list');

    expect(said.map(({ id }) => String(id)).toSorted()).toEqual(['100', '101']);
    for (const { error } of said)
      expect(error).toMatchObject({
        message: expect.stringContaining('the server sent nothing for 2 s'),
        data: { outcome: 'unknown' },
      });
    expect(after.result).toBeDefined();
    expect(run.waiting).toHaveLength(2);
    expect(run.proxy.unread()).toEqual([]);
  },
);

import { afterEach, describe, expect, test, vi } from 'vitest';

import type { AuditEvent } from '#server/db/audit';
import { CountedRefusals } from '#server/audit/counted-refusals';
import { turnedClock } from '#support/turned-clock';

const counting = () => {
  const written: AuditEvent[] = [];
  const write = async (event: AuditEvent) => void written.push(event);
  const clock = turnedClock();
  const failed = (error: unknown) => {
    throw error;
  };
  return { written, clock, refusals: new CountedRefusals({ write, clock, failed }) };
};
const refusal = (but = {}) => ({
  actor: 'anonymous',
  organization: 'acme',
  action: 'call.bad-credential',
  target: 'acme/sales',
  address: '192.0.2.1',
  requestId: 'r',
  ...but,
});

test('the first refusal is written immediately, equal ones as one with their number', async () => {
  const { written, refusals } = counting();
  for (let turn = 0; turn < 1000; turn += 1) await refusals.note(refusal({ requestId: `${turn}` }));
  const atOnce = written.length;

  await refusals.flush();
  await refusals.flush();

  expect(atOnce).toBe(1);
  expect(written).toMatchObject([
    { requestId: '0', outcome: 'refused' },
    { requestId: '999', times: 999 },
  ]);
});

test('an unlimited variety of refusals becomes one number, and memory stays bounded', async () => {
  const { written, refusals } = counting();
  for (let turn = 0; turn < 5000; turn += 1) {
    await refusals.note(refusal({ target: `acme/${turn}`.padEnd(1000, 'x') }));
  }

  await refusals.flush();

  expect(written).toHaveLength(61);
  expect(written.at(-1)).toMatchObject({ action: 'refusals.more', times: 4940 });
  expect(written[0]?.target).toHaveLength(200);
});

test('a caller that is refused without end does not hide the refusals of others', async () => {
  const { written, refusals } = counting();
  for (let turn = 0; turn < 5000; turn += 1) {
    await refusals.note(refusal({ actor: 'key:key_a', target: `acme/${turn}` }));
  }

  await refusals.note(refusal({ actor: 'key:key_b', organization: 'other', target: 'other/hr' }));
  await refusals.flush();

  expect(written).toHaveLength(62);
  expect(written).toContainEqual(
    expect.objectContaining({ actor: 'key:key_b', organization: 'other', target: 'other/hr' }),
  );
  expect(written.at(-1)).toMatchObject({
    actor: 'key:key_a',
    organization: 'acme',
    action: 'refusals.more',
    times: 4940,
  });
});

test('refusals of one caller in two organizations are counted in neither record', async () => {
  const { written, refusals } = counting();
  for (let turn = 0; turn < 100; turn += 1) {
    await refusals.note(
      refusal({ organization: turn % 2 === 0 ? 'acme' : 'other', target: `${turn}` }),
    );
  }

  await refusals.flush();

  expect(written.at(-1)).toMatchObject({
    action: 'refusals.more',
    organization: undefined,
    times: 40,
  });
});

test('memory is bounded, however many callers are refused', async () => {
  const { written, refusals } = counting();
  for (let turn = 0; turn < 6100; turn += 1) {
    await refusals.note(refusal({ actor: `key:key_${turn % 200}`, target: `acme/${turn}` }));
  }
  expect(written).toHaveLength(6000);

  await refusals.flush();

  expect(written.slice(6000).map(({ times }) => times)).toEqual(
    Array.from({ length: 100 }, () => 1),
  );
});

test('after the minute the next refusal is written immediately again', async () => {
  const { written, refusals } = counting();
  await refusals.note(refusal());
  await refusals.flush();

  await refusals.note(refusal());

  expect(written).toHaveLength(2);
  await refusals.flush();
});

describe('a refusal that is recorded later', () => {
  afterEach(() => void vi.useRealTimers());

  test('is written within a second, with the time at which it happened', async () => {
    vi.useFakeTimers();
    const { written, clock, refusals } = counting();
    const at = clock.now();
    refusals.noteLater(refusal());
    refusals.noteLater(refusal());
    refusals.noteLater(refusal({ organization: undefined, target: undefined }));
    clock.advance(1);
    const before = [...written];

    await vi.advanceTimersByTimeAsync(1000);

    expect(before).toEqual([]);
    expect(written).toMatchObject([
      { at, organization: 'acme', outcome: 'refused' },
      { at, organization: undefined, outcome: 'refused' },
    ]);
    await refusals.flush();
  });

  test('is written at shutdown, before the number of those that followed', async () => {
    const { written, refusals } = counting();
    for (let turn = 0; turn < 3; turn += 1) refusals.noteLater(refusal({ requestId: `${turn}` }));

    await refusals.flush();

    expect(written).toMatchObject([{ requestId: '0' }, { requestId: '2', times: 2 }]);
    expect(written).toHaveLength(2);
  });

  test('is written before shutdown ends, even if its write had begun', async () => {
    vi.useFakeTimers();
    const written: AuditEvent[] = [];
    const begun = Promise.withResolvers<void>();
    const write = async (event: AuditEvent) => {
      await begun.promise;
      written.push(event);
    };
    const refusals = new CountedRefusals({ write, clock: turnedClock(), failed: () => {} });
    refusals.noteLater(refusal());
    await vi.advanceTimersByTimeAsync(1000);

    const stopped = refusals.flush();
    begun.resolve();
    await stopped;

    expect(written).toHaveLength(1);
  });

  test('is reported if it cannot be written, and the others are written', async () => {
    const written: AuditEvent[] = [];
    const write = async (event: AuditEvent) => {
      if (event.target === 'acme/bad') throw new Error('disk full');
      written.push(event);
    };
    const failed = vi.fn<(error: unknown) => void>();
    const refusals = new CountedRefusals({ write, clock: turnedClock(), failed });
    for (const target of ['acme/bad', 'acme/good']) refusals.noteLater(refusal({ target }));

    await refusals.flush();

    expect(failed).toHaveBeenCalledExactlyOnceWith(new Error('disk full'));
    expect(written).toMatchObject([{ target: 'acme/good' }]);
  });
});

test('107: refusals whose targets differ only beyond the recorded length are counted together', async () => {
  const { written, refusals } = counting();
  for (let n = 0; n < 20; n += 1) {
    await refusals.note(refusal({ target: `tool:${'x'.repeat(100_000)}${n}` }));
  }
  await refusals.flush();

  expect(written.map(({ times }) => times)).toEqual([undefined, 19]);
});

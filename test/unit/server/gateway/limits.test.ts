import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';

import { scanMessage } from '#mcp/message';
import { CallLimits, CallerRate } from '#server/gateway/limits';
import type { ServerLimits } from '#server/model/server-limits';
import { someAdmission, someServer } from '#support/some-admission';
import { stillClock } from '#support/still-clock';

describe('limits of calls', () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  const list = '{"jsonrpc":"2.0","id":7,"method":"tools/list"}';
  const someone = someAdmission();
  const another = someAdmission({
    credential: { type: 'key', id: 'key_b' },
    principal: 'key:key_b',
  });

  function limiter() {
    const clock = stillClock();
    const callLimits = new CallLimits(clock);
    const begin = (
      limits: ServerLimits,
      { admission = someone, text = list, ending = new AbortController() } = {},
    ) => {
      const scan = scanMessage(Buffer.from(text));
      if (scan.outcome === 'refused') throw new Error(scan.reason);
      return callLimits.begin({ admission, ending }, scan.envelope, Buffer.from(text), limits);
    };
    return { clock, begin };
  }

  test('a caller over the limit is told when to retry, and no other caller is affected', () => {
    const { begin, clock } = limiter();
    const limits = { callsPerMinute: 2 };
    begin(limits);
    clock.advance(10);
    begin(limits);
    const other = someAdmission({ endpoint: someServer({ id: 'srv_web' }) });

    expect(() => begin(limits)).toThrow(
      expect.objectContaining({
        code: 'too_many_requests',
        message: 'the limit of calls per minute for each caller of this server is 2',
        details: expect.objectContaining({ retryAfterSeconds: 50 }),
      }),
    );
    begin(limits, { admission: another });
    begin(limits, { admission: other });
    clock.advance(50);
    begin(limits);
  });

  describe('across several nodes', () => {
    /** Two nodes that tell each other what they count. */
    function pair() {
      const clock = stillClock();
      const made: CallLimits[] = [];
      for (const at of [0, 1]) {
        made.push(new CallLimits(clock, (changes) => made[1 - at]?.heard(`node ${at}`, changes)));
      }
      onTestFinished(() => made.forEach((limits) => limits.close()));
      const begin = (at: number, limits: ServerLimits) => {
        const scan = scanMessage(Buffer.from(list));
        if (scan.outcome === 'refused') throw new Error(scan.reason);
        const call = { admission: someone, ending: new AbortController() };
        return made[at]?.begin(call, scan.envelope, Buffer.from(list), limits);
      };
      return { clock, begin };
    }

    test('calls at both count against the limit per minute', () => {
      const { begin } = pair();
      const limits = { callsPerMinute: 4 };
      for (const at of [0, 0, 1]) begin(at, limits)?.over();
      vi.advanceTimersByTime(200);

      begin(1, limits);

      expect(() => begin(1, limits)).toThrow('the limit of calls per minute');
      vi.advanceTimersByTime(200);
      expect(() => begin(0, limits)).toThrow('the limit of calls per minute');
    });

    test('calls in progress at both count against the limit of concurrent calls', () => {
      const { begin, clock } = pair();
      const limits = { concurrentCalls: 2 };
      const first = begin(0, limits);
      const second = begin(0, limits);
      vi.advanceTimersByTime(200);
      expect(() => begin(1, limits)).toThrow('the limit of concurrent calls');

      // Each node tells the other one about its calls again while they last.
      for (let seconds = 0; seconds < 20; seconds += 2) {
        clock.advance(2);
        vi.advanceTimersByTime(2000);
      }
      expect(() => begin(1, limits)).toThrow('the limit of concurrent calls');
      first?.over();
      second?.over();
      vi.advanceTimersByTime(200);

      expect(begin(1, limits)).toBeDefined();
    });

    test('the calls in progress of a node that ended no longer count', () => {
      const { begin, clock } = pair();
      const limits = { concurrentCalls: 1 };
      begin(0, limits);
      vi.advanceTimersByTime(200);
      expect(() => begin(1, limits)).toThrow('the limit of concurrent calls');

      clock.advance(7);

      expect(begin(1, limits)).toBeDefined();
    });
  });

  test('notifications count separately from calls', () => {
    const { begin } = limiter();
    const limits = { callsPerMinute: 1 };
    const notice = '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}';
    const call = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}';
    begin(limits, { text: notice });
    begin(limits, { text: call });
    begin(limits, { text: notice });

    expect(() => begin(limits, { text: call })).toThrow('each caller of this server is 1');
  });

  test('the calls in progress of a caller are limited, and each that ends admits another', () => {
    const { begin } = limiter();
    const limits = { concurrentCalls: 2 };
    const first = begin(limits);
    begin(limits);

    expect(() => begin(limits)).toThrow(
      'the limit of concurrent calls for each caller of this server is 2',
    );
    begin(limits, { admission: another });
    first.over();
    begin(limits);
    expect(() => begin(limits)).toThrow('the limit of concurrent calls');
  });

  test('a refused call uses up nothing of the limit', () => {
    const { begin, clock } = limiter();
    const limits = { concurrentCalls: 1, callsPerMinute: 3 };
    const first = begin(limits);
    for (let tries = 0; tries < 10; tries++)
      expect(() => begin(limits)).toThrow('the limit of concurrent calls');
    first.over();
    begin(limits).over();
    begin(limits).over();

    expect(() => begin(limits)).toThrow('calls per minute for each caller of this server is 3');
    clock.advance(60);
    begin(limits).over();
  });

  const notice = '{"jsonrpc":"2.0","method":"notifications/cancelled"}';
  const listening = '{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen"}';
  const response = '{"jsonrpc":"2.0","id":1,"result":{}}';

  test.each([
    ['a notification', notice, 2],
    ['a response', response, 5],
    ['listening', listening, 2],
  ])('%s has no time limit', (_, text, many) => {
    const { begin } = limiter();
    const ending = new AbortController();
    const limits = { callsPerMinute: 1, concurrentCalls: 1, callSeconds: 1 };
    for (let times = 0; times < many; times++) begin(limits, { text, ending });
    vi.advanceTimersByTime(60_000);

    expect(ending.signal.aborted).toBe(false);
  });

  test.each([
    ['notifications', notice],
    ['streams', listening],
  ])('twice as many %s are allowed per minute as calls', (kind, text) => {
    const { begin, clock } = limiter();
    const limits = { callsPerMinute: 2 };
    for (let times = 0; times < 2; times++) begin(limits);
    for (let times = 0; times < 4; times++) begin(limits, { text }).over();
    const refused = {
      code: 'too_many_requests',
      message: `the limit of ${kind} per minute for each caller of this server is 4`,
      details: expect.objectContaining({ retryAfterSeconds: 60 }),
    };

    expect(() => begin(limits, { text })).toThrow(expect.objectContaining(refused));
    begin(limits, { text, admission: another });
    clock.advance(60);
    begin(limits, { text });
  });

  test('four streams of a caller may be open for each concurrent call, besides its calls', () => {
    const { begin } = limiter();
    const limits = { concurrentCalls: 1 };
    const [first] = Array.from({ length: 4 }, () => begin(limits, { text: listening }));

    expect(() => begin(limits, { text: listening })).toThrow(
      'the limit of concurrent streams for each caller of this server is 4',
    );
    begin(limits).over();
    begin(limits, { text: notice });
    begin(limits, { text: listening, admission: another });
    first?.over();
    begin(limits, { text: listening });
  });

  test('a body one byte over the limit is refused, whatever its kind', () => {
    const { begin } = limiter();
    begin({ requestBytes: list.length });

    expect(() => begin({ requestBytes: list.length - 1 })).toThrow(
      expect.objectContaining({ code: 'too_large' }),
    );
  });

  test('a call is ended at its time limit, unless it has ended before', () => {
    const { begin } = limiter();
    const slow = new AbortController();
    const quick = new AbortController();
    begin({ callSeconds: 5 }, { ending: slow });
    begin({ callSeconds: 5 }, { ending: quick }).over();
    vi.advanceTimersByTime(4999);
    const early = slow.signal.aborted;
    vi.advanceTimersByTime(1);

    expect([early, slow.signal.aborted, quick.signal.aborted]).toEqual([false, true, false]);
    expect(slow.signal.reason).toMatchObject({
      code: 'too_slow',
      message: 'it exceeded the timeout of this server (5 s)',
    });
  });
});

describe('the rate of a caller', () => {
  test('calls up to the limit are admitted, then none until the first is a minute old', () => {
    const rate = new CallerRate(1000);
    const burst = [rate.take(2, 1000), rate.take(2, 1010), rate.take(2, 1020)];
    const waits = [rate.take(2, 1059), rate.take(2, 1060), rate.take(2, 1061)];

    expect(burst).toEqual([0, 0, 40]);
    expect(waits).toEqual([1, 0, 9]);
  });

  test('no sixty seconds admit more than the limit, and a caller that waits for Retry-After is admitted', () => {
    const most = 7;
    const rate = new CallerRate(0);
    const passed: number[] = [];
    const again: [number, number][] = [];
    for (let now = 0; now < 1000; now += 1 + ((now * 7) % 5)) {
      for (let tries = 0; tries < (now % 4) + 1; tries++) {
        const wait = rate.take(most, now);
        if (wait === 0) passed.push(now);
        else again.push([wait, rate.take(most, now)]);
      }
    }

    expect(again.every(([wait, then]) => wait === then)).toBe(true);
    expect(passed.length).toBeGreaterThan(100);
    for (const at of passed) {
      expect(passed.filter((other) => other >= at && other < at + 60).length).toBeLessThanOrEqual(
        most,
      );
    }
  });

  test('Retry-After is the shortest wait that suffices', () => {
    const rate = new CallerRate(100);
    for (const at of [100, 130, 131]) rate.take(3, at);
    const wait = rate.take(3, 140);

    expect(rate.take(3, 140 + wait - 1)).toBeGreaterThan(0);
    expect(rate.take(3, 140 + wait)).toBe(0);
  });

  test('setting the clock back admits no one sooner', () => {
    const rate = new CallerRate(5000);
    rate.take(1, 5000);

    expect(rate.take(1, 4000)).toBeGreaterThan(0);
    expect(rate.take(1, 5060)).toBe(0);
  });

  test('a caller is forgotten once its minute has passed and none of its calls are in progress', () => {
    const rate = new CallerRate(100);
    rate.take(5, 100);
    rate.open = 1;
    const busy = rate.isIdle(1000);
    rate.open = 0;

    expect([busy, rate.isIdle(159), rate.isIdle(160)]).toEqual([false, false, true]);
  });
});

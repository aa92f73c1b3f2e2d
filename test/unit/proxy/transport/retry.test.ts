import { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { expect, test } from 'vitest';
import { readMessage } from '#mcp/raw-message';
import { jsonLinesLog } from '#proxy/log/log';
import { HttpError } from '#proxy/transport/http-error';
import { requestWithRetries, repeatableRequests, retryAfterSeconds } from '#proxy/transport/retry';
import { UpstreamError } from '#proxy/transport/upstream';
import { fakeClock } from '#support/fake-clock';

function response(statusCode: number, retryAfter?: string): IncomingMessage {
  const message = new IncomingMessage(new Socket());
  message.statusCode = statusCode;
  if (retryAfter !== undefined) message.headers['retry-after'] = retryAfter;
  return message;
}

function broken(code: string, sent: boolean, kind: HttpError['code'] = 'unreachable') {
  const cause = new HttpError(kind, code, {
    sent,
    cause: Object.assign(new Error(code), { code }),
  });
  return new UpstreamError('unreachable', code, { cause });
}

/** Sends a request to a server that gives these answers in turn, and then repeats the last one. */
function asking(
  answers: (IncomingMessage | Error)[],
  repeatable = false,
  isWorthIt?: () => Promise<boolean>,
) {
  const clock = fakeClock();
  const began = clock.now();
  const cancel = new AbortController();
  let sent = 0;
  const outcome = requestWithRetries(
    () => {
      const answer = answers[Math.min(sent++, answers.length - 1)];
      return answer instanceof IncomingMessage ? Promise.resolve(answer) : Promise.reject(answer);
    },
    {
      isRepeatable: () => repeatable,
      ...(isWorthIt && { isWorthIt }),
      deadlineAt: began + 60,
      signal: cancel.signal,
      clock,
      log: jsonLinesLog('error', () => undefined),
      random: () => 0.5,
    },
  );
  outcome.catch(() => undefined);
  return { clock, cancel, outcome, sent: () => sent };
}

test.each([429, 503])(
  'retry: %s with Retry-After is retried after that time, whatever the request',
  async (status) => {
    const run = asking([response(status, '5'), response(200)]);
    await run.clock.advance(4.9);
    expect(run.sent()).toBe(1);
    await run.clock.advance(1);

    expect(await run.outcome).toMatchObject({ response: { statusCode: 200 }, attempts: 2 });
  },
);

test('retry: a Retry-After beyond the deadline is an error immediately', async () => {
  const run = asking([response(429, '61')], true);

  expect(await run.outcome).toMatchObject({ response: { statusCode: 429 }, attempts: 1 });
});

test('retry: all waits together end at the deadline', async () => {
  const run = asking([response(503, '25')]);
  await run.clock.advance(26);
  await run.clock.advance(26);

  expect(await run.outcome).toMatchObject({ response: { statusCode: 503 }, attempts: 3 });
});

test('retry: a clock that is set back does not extend the deadline', async () => {
  let now = 1_800_000_000;
  const setBack = () => Promise.resolve(void (now -= 3_600));
  const outcome = requestWithRetries(() => Promise.resolve(response(503, '25')), {
    isRepeatable: () => false,
    deadlineAt: now + 60,
    signal: new AbortController().signal,
    clock: { now: () => now, sleep: setBack },
    log: jsonLinesLog('error', () => undefined),
    random: () => 0.5,
  });

  expect(await outcome).toMatchObject({ response: { statusCode: 503 }, attempts: 3 });
});

test.each([429, 502, 503, 504])(
  'retry: %s without Retry-After is retried only for repeatable requests',
  async (status) => {
    const once = asking([response(status)]);
    const thrice = asking([response(status)], true);
    await thrice.clock.advance(1);
    await thrice.clock.advance(1);

    expect(await once.outcome).toMatchObject({ attempts: 1 });
    expect(await thrice.outcome).toMatchObject({ attempts: 3 });
  },
);

test('retry: Retry-After on another status causes no retry', async () => {
  expect(await asking([response(500, '1')], true).outcome).toMatchObject({ attempts: 1 });
  expect(await asking([response(502, '1')]).outcome).toMatchObject({ attempts: 1 });
});

test('retry: a failed connection is tried once more, whatever the request', async () => {
  const good = asking([broken('ECONNREFUSED', false), response(200)]);
  const bad = asking([broken('ECONNREFUSED', false)]);
  await good.clock.advance(1);
  await bad.clock.advance(1);

  expect(await good.outcome).toMatchObject({ attempts: 2 });
  await expect(bad.outcome).rejects.toMatchObject({ details: { attempts: 2 } });
});

test('retry: a failed connection is reported immediately if the caller has a cached answer', async () => {
  const run = asking([broken('ECONNREFUSED', false)], true, () => Promise.resolve(false));

  await expect(run.outcome).rejects.toMatchObject({ code: 'unreachable', details: {} });
  expect(run.sent()).toBe(1);
});

test('retry: a request that may have arrived is repeated only if it is repeatable', async () => {
  const call = asking([broken('ECONNRESET', true), response(200)]);
  const list = asking([broken('ECONNRESET', true), response(200)], true);
  await list.clock.advance(1);

  await expect(call.outcome).rejects.toMatchObject({ code: 'unreachable', details: {} });
  expect(call.sent()).toBe(1);
  expect(await list.outcome).toMatchObject({ attempts: 2 });
});

test('retry: there is none after a connect timeout, a certificate error or a proxy error', async () => {
  for (const error of [
    broken('no connection within 20 s', false),
    broken('CERT_HAS_EXPIRED', false, 'certificate'),
    broken('ECONNREFUSED', false, 'proxy'),
  ]) {
    const run = asking([error], true);
    await expect(run.outcome).rejects.toBe(error);
    expect(run.sent()).toBe(1);
  }
});

test('retry: a cancelled request stops waiting and is not sent again', async () => {
  const run = asking([response(429, '30'), response(200)]);
  await run.clock.asleep();
  run.cancel.abort();

  await expect(run.outcome).rejects.toMatchObject({ code: 'aborted' });
  expect(run.sent()).toBe(1);
});

const message = (value: object) => readMessage(Buffer.from(JSON.stringify({ id: 1, ...value })));
const call = (name: string) => message({ method: 'tools/call', params: { name } });
const list = (cursor?: string) => message({ method: 'tools/list', params: { cursor } });
const tools = (...all: object[]) => message({ result: { tools: all } });

test('repeatable requests: reads are repeatable, and a call of an unknown tool is not', () => {
  const requests = repeatableRequests();

  expect(requests.has(message({ method: 'resources/read' }))).toBe(true);
  expect(requests.has(message({ method: 'company/launch' }))).toBe(false);
  expect(requests.has(call('read'))).toBe(false);
});

test('repeatable requests: a call is repeatable if the last list says its tool is read-only or idempotent', () => {
  const requests = repeatableRequests();
  requests.learn(
    list(),
    tools(
      { name: 'read', annotations: { readOnlyHint: true } },
      { name: 'put', annotations: { idempotentHint: true } },
      { name: 'send', annotations: { readOnlyHint: 'yes' } },
    ),
  );
  requests.learn(list('2'), tools({ name: 'more', annotations: { readOnlyHint: true } }));

  expect(['read', 'put', 'send', 'more'].map((name) => requests.has(call(name)))).toEqual([
    true,
    true,
    false,
    true,
  ]);

  requests.learn(list(), tools({ name: 'read' }));
  expect(['read', 'more'].some((name) => requests.has(call(name)))).toBe(false);
});

test('repeatable requests: a call is not repeatable if a later page of the list revokes the hint of its tool', () => {
  const requests = repeatableRequests();
  const hinted = { name: 'send', annotations: { readOnlyHint: true } };
  requests.learn(list(), tools(hinted, { name: 'read', annotations: { readOnlyHint: true } }));
  requests.learn(list('2'), tools({ name: 'send', annotations: { readOnlyHint: false } }));

  expect(['read', 'send'].map((name) => requests.has(call(name)))).toEqual([true, false]);
});

test('107: repeatable requests: of an endless list, ten thousand tools are remembered', () => {
  const requests = repeatableRequests();
  const named = (n: number) => ({ name: `t${n}`, annotations: { readOnlyHint: true } });
  requests.learn(list(), tools(named(0)));
  requests.learn(list('2'), tools(...Array.from({ length: 10_000 }, (_, n) => named(n + 1))));
  const known = [0, 9999, 10_000].map((n) => requests.has(call(`t${n}`)));
  requests.learn(list(), tools(named(10_000)));

  expect([...known, requests.has(call('t10000'))]).toEqual([true, true, false, true]);
});

const now = Date.parse('2026-11-20T09:00:00Z') / 1000;

test.each([
  ['7', 7],
  [' 0 ', 0],
  ['Fri, 20 Nov 2026 09:01:30 GMT', 90],
  ['Fri, 20 Nov 2026 08:00:00 GMT', 0],
  ['Friday, 20-Nov-26 09:00:10 GMT', 10],
  ['soon', undefined],
  ['-5', undefined],
  ['1.5', undefined],
  ['', undefined],
  [undefined, undefined],
])('Retry-After: %s is %s seconds', (header, seconds) => {
  expect(retryAfterSeconds(header, now)).toBe(seconds);
});

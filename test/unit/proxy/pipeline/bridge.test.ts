import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import { bridge } from '#proxy/pipeline/bridge';
import { jsonLinesLog } from '#proxy/log/log';
import { readMessage, type Message } from '#mcp/raw-message';
import type { Deliver, Upstream } from '#proxy/transport/upstream';
import { fakeClock } from '#support/fake-clock';

type Send = (message: Message, deliver: Deliver, signal: AbortSignal) => Promise<void>;

function running(send: Send, fatal = false) {
  const input = new PassThrough();
  const output = new PassThrough();
  const stop = new AbortController();
  const clock = fakeClock();
  const sent: string[] = [];
  let closed = 0;
  const upstream: Upstream = {
    send: async (message, deliver, signal) => {
      sent.push(message.method ?? 'answer');
      return send(message, deliver, signal);
    },
    listen: () => Promise.resolve(),
    close: () => {
      closed += 1;
      return Promise.resolve();
    },
  };
  const done = bridge({
    input,
    output,
    upstream,
    clock,
    log: jsonLinesLog('error', () => undefined),
    maxMessageBytes: 1_000,
    explain: (error) => ({ failure: { code: -32603, message: String(error) }, fatal }),
    stop: stop.signal,
  });
  done.catch(() => undefined);
  const read = async (count: number) => {
    const lines: unknown[] = [];
    let rest = '';
    for await (const chunk of output.iterator({ destroyOnReturn: false })) {
      const parts = (rest + String(chunk)).split('\n');
      rest = parts.pop() ?? '';
      lines.push(...parts.map((line): unknown => JSON.parse(line)));
      if (lines.length >= count) break;
    }
    return lines;
  };
  const say = (message: object) => input.write(`${JSON.stringify(message)}\n`);
  return { input, output, stop, clock, sent, done, read, say, closed: () => closed };
}

const answer = (id: string) => readMessage(Buffer.from(`{"id":${id},"result":{}}`));
const never: Send = () => new Promise(() => {});

test('bridge: a request whose id is still open is refused, and the first one continues', async () => {
  const run = running(never);
  run.say({ id: 1, method: 'a' });
  run.say({ id: 1, method: 'b' });

  expect(await run.read(1)).toMatchObject([{ id: 1, error: { code: -32600 } }]);
  expect(run.sent).toEqual(['a']);
});

test('bridge: messages after initialize wait for its answer', async () => {
  let answerInitialize = () => {};
  const run = running(async (message, deliver) => {
    if (message.method === 'initialize')
      await new Promise<void>((resolve) => (answerInitialize = resolve));
    if (message.id) await deliver(answer(message.id));
  });
  run.say({ id: 1, method: 'initialize' });
  run.say({ method: 'notifications/initialized' });
  run.say({ id: 2, method: 'tools/list' });
  await run.clock.settled();
  const before = [...run.sent];
  answerInitialize();
  await run.read(2);

  expect(before).toEqual(['initialize']);
  expect(run.sent).toEqual(['initialize', 'notifications/initialized', 'tools/list']);
});

test('bridge: a fatal error answers every open request and ends the bridge', async () => {
  const run = running(
    (message, _, signal) =>
      message.method === 'fail'
        ? Promise.reject(new Error('no keychain'))
        : new Promise((resolve) => signal.addEventListener('abort', () => resolve())),
    true,
  );
  run.say({ id: 1, method: 'wait' });
  run.say({ id: 2, method: 'fail' });

  expect(await run.read(2)).toMatchObject([
    { id: 2, error: {} },
    { id: 1, error: {} },
  ]);
  await expect(run.done).rejects.toThrow('no keychain');
});

test('bridge: open requests have three seconds after the end of stdin', async () => {
  const run = running(never);
  run.say({ id: 1, method: 'slow' });
  run.input.end();
  await run.clock.settled();
  expect(run.closed()).toBe(0);

  await run.clock.advance(3);
  await run.done;

  expect(run.closed()).toBe(1);
});

test('bridge: an assistant that does not read slows down the server instead of filling memory', async () => {
  const run = running(async (message, deliver) => {
    for (let index = 0; index < 1_000; index += 1) {
      await deliver(readMessage(Buffer.from(`{"method":"n","params":"${'x'.repeat(1_000)}"}`)));
      delivered = index;
    }
    await deliver(answer(message.id ?? ''));
  });
  let delivered = 0;
  run.say({ id: 1, method: 'flood' });
  await run.clock.settled();
  expect(delivered).toBeLessThan(200);

  const lines = await run.read(1_001);

  expect(lines.at(-1)).toMatchObject({ id: 1, result: {} });
});

test('bridge: it ends when the assistant disconnects', async () => {
  const run = running(never);
  run.say({ id: 1, method: 'slow' });
  run.output.destroy();

  await run.done;

  expect(run.closed()).toBe(1);
});

test('bridge: requests that are open at the end get an error that says that a call may have run', async () => {
  const run = running(never);
  run.say({ id: 1, method: 'tools/call' });
  run.say({ id: 2, method: 'tools/list' });
  await run.clock.settled();
  run.stop.abort();
  const answers = await run.read(2);
  await run.done;

  expect(answers).toMatchObject([
    { id: 1, error: {} },
    { id: 2, error: {} },
  ]);
  expect(run.closed()).toBe(1);
});

const turns = async (count: number) => {
  for (let turn = 0; turn < count; turn += 1) await new Promise(setImmediate);
};
/** Many times more requests than may be open, in lines of more than 100 bytes. */
const flood = Array.from({ length: 8_000 }, (_, index) => ({
  id: `flood ${index}`,
  method: 'tools/call',
  params: { name: 'x'.repeat(60) },
}));

test('bridge: a flood of requests is read only as fast as it is answered, and all are answered', async () => {
  const waiting: (() => void)[] = [];
  const run = running(async ({ id = '' }, deliver) => {
    await new Promise<void>((resolve) => void waiting.push(resolve));
    await deliver(answer(id));
  });
  const read = run.read(flood.length);
  for (const request of flood) run.say(request);
  await turns(50);
  const atOnce = run.sent.length;
  while (run.sent.length < flood.length || waiting.length > 0) {
    waiting.splice(0).forEach((goOn) => goOn());
    await turns(1);
  }

  expect(atOnce).toBeGreaterThan(1_000);
  expect(atOnce).toBeLessThan(2_000);
  expect(new Set((await read).map((line) => JSON.stringify(line))).size).toBe(flood.length);
});

test('bridge: during a flood of requests, the answer to a request of the server is read immediately', async () => {
  let goOn = () => {};
  const run = running(async (message, deliver) => {
    if (message.kind === 'response') return goOn();
    if (message.method !== 'ask') return never(message, deliver, new AbortController().signal);
    await deliver(readMessage(Buffer.from('{"jsonrpc":"2.0","id":"q","method":"roots/list"}')));
    await new Promise<void>((resolve) => (goOn = resolve));
    await deliver(answer(message.id ?? ''));
  });
  let text = '';
  run.output.on('data', (chunk) => (text += String(chunk)));
  run.say({ id: 1, method: 'ask' });
  for (const request of flood) run.say(request);
  run.say({ id: 'q', result: {} });
  await turns(200);

  const lines = text.trimEnd().split('\n');
  const said = lines.map((line): { id: unknown } => JSON.parse(line));
  expect(said).toContainEqual(expect.objectContaining({ id: 1, result: {} }));
  expect(said).toContainEqual(
    expect.objectContaining({ error: expect.objectContaining({ code: -32000 }) }),
  );
  expect(run.sent.length).toBeLessThan(2_000);
});

test('bridge: during a flood to a server that hangs, a cancellation is read after half a minute', async () => {
  const aborted: string[] = [];
  const run = running(async (message, _, signal) => {
    if (message.kind !== 'request') return;
    signal.addEventListener('abort', () => aborted.push(message.id ?? ''));
    return never(message, () => Promise.resolve(), signal);
  });
  run.output.resume();
  for (const request of flood) run.say(request);
  run.say({ method: 'notifications/cancelled', params: { requestId: 'flood 0' } });
  await turns(50);
  const before = [...aborted];
  for (let turn = 0; turn < 200 && aborted.length === 0; turn += 1) {
    await run.clock.advance(30);
    await turns(5);
  }

  expect([before, aborted]).toEqual([[], ['"flood 0"']]);
});

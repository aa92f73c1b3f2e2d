import { expect, test } from 'vitest';
import { readMessage, type Message } from '#mcp/raw-message';
import { jsonLinesLog } from '#proxy/log/log';
import { idleTimeout } from '#proxy/pipeline/idle-timeout';
import { compose } from '#proxy/pipeline/step';
import { UpstreamError, type Deliver, type Upstream } from '#proxy/transport/upstream';
import { fakeClock } from '#support/fake-clock';

const message = (value: object) => readMessage(Buffer.from(JSON.stringify(value)));
const call = (method: string, more: object = {}) =>
  message({ jsonrpc: '2.0', id: 7, method, params: { name: 'act', ...more } });
const meta = { _meta: { 'io.modelcontextprotocol/protocolVersion': '2026-07-28' } };

/** A server that sends only what a test gives to `say`, behind an idle timeout of ten seconds. */
function silent() {
  const clock = fakeClock();
  const sent: Message[] = [];
  const aborted: string[] = [];
  const person = { isSigningIn: false };
  let say: Deliver = async () => {};
  let sayElsewhere: Deliver = async () => {};
  const inner: Upstream = {
    send: (asked, deliver, signal) => {
      sent.push(asked);
      if (asked.kind !== 'request') return Promise.resolve();
      say = deliver;
      return new Promise((_, reject) => {
        signal.addEventListener('abort', () => {
          aborted.push(asked.method ?? '');
          reject(new UpstreamError('aborted', 'aborted'));
        });
      });
    },
    listen: async (deliver) => void (sayElsewhere = deliver),
    close: async () => {},
  };
  const log = jsonLinesLog('error', () => undefined);
  const upstream = compose(
    [idleTimeout({ idleTimeoutSeconds: 10, isSigningIn: () => person.isSigningIn, clock, log })],
    inner,
  );
  void upstream.listen(async () => {}, new AbortController().signal);
  const heard: Message[] = [];
  const send = (asked: Message, signal = new AbortController().signal) =>
    upstream.send(asked, async (said) => void heard.push(said), signal);
  return {
    clock,
    sent,
    aborted,
    heard,
    person,
    send,
    say: async (said: Message) => say(said),
    sayElsewhere: async (said: Message) => sayElsewhere(said),
  };
}

test('idle timeout: a call without messages fails once, and is cancelled at the server', async () => {
  const { clock, sent, aborted, send } = silent();
  const given = send(call('tools/call')).catch((error: unknown) => error);
  await clock.advance(9);
  const before = aborted.length;
  await clock.advance(1);

  expect(before).toBe(0);
  expect(await given).toMatchObject({
    code: 'no_answer',
    message: 'the server sent nothing for 10 s',
    details: { outcomeUnknown: true },
  });
  expect(sent.map(({ bytes }) => bytes.toString()).at(-1)).toBe(
    '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7,"reason":"no answer in 10 s"}}',
  );
});

test('idle timeout: progress restarts it, and nothing is delivered after it', async () => {
  const { clock, heard, send, say } = silent();
  const given = send(call('tools/call')).catch((error: unknown) => error);
  for (let turn = 0; turn < 5; turn += 1) {
    await clock.advance(6);
    await say(message({ jsonrpc: '2.0', method: 'notifications/progress', params: {} }));
  }
  const meanwhile = heard.length;
  for (let turn = 0; turn < 4; turn += 1) await clock.advance(6);
  expect(await given).toMatchObject({ code: 'no_answer' });
  await say(message({ jsonrpc: '2.0', id: 7, result: {} }));

  expect([meanwhile, heard.length]).toEqual([5, 5]);
});

test('idle timeout: at a modern server only the stream is closed, and the outcome of a list is not unknown', async () => {
  const { clock, sent, send } = silent();
  const given = send(call('tools/list', meta)).catch((error: unknown) => error);
  await clock.advance(10);

  expect(await given).toMatchObject({ details: {} });
  expect(sent).toHaveLength(1);
});

test('idle timeout: subscriptions have none, and cancelling a call aborts it at the server', async () => {
  const { clock, aborted, send } = silent();
  void send(call('subscriptions/listen')).catch(() => undefined);
  const cancelling = new AbortController();
  const cancelled = send(call('tools/call'), cancelling.signal).catch((error: unknown) => error);
  cancelling.abort();
  await clock.advance(60);

  expect(await cancelled).toMatchObject({ code: 'aborted' });
  expect(aborted).toEqual(['tools/call']);
});

test('idle timeout: progress on another stream restarts it', async () => {
  const { clock, aborted, send, sayElsewhere } = silent();
  const given = send(call('tools/call')).catch((error: unknown) => error);
  for (let turn = 0; turn < 5; turn += 1) {
    await clock.advance(6);
    await sayElsewhere(message({ jsonrpc: '2.0', method: 'notifications/progress', params: {} }));
  }
  const meanwhile = aborted.length;
  for (let turn = 0; turn < 4; turn += 1) await clock.advance(6);

  expect(meanwhile).toBe(0);
  expect(await given).toMatchObject({ code: 'no_answer' });
});

test('idle timeout: it does not end a call while the assistant has yet to answer the server', async () => {
  const { clock, aborted, send, say } = silent();
  const given = send(call('tools/call')).catch((error: unknown) => error);
  await say(message({ jsonrpc: '2.0', id: 1, method: 'elicitation/create', params: {} }));
  for (let turn = 0; turn < 6; turn += 1) await clock.advance(10);
  const meanwhile = aborted.length;
  await send(message({ jsonrpc: '2.0', id: 1, result: {} }));
  for (let turn = 0; turn < 3; turn += 1) await clock.advance(10);

  expect(meanwhile).toBe(0);
  expect(await given).toMatchObject({ code: 'no_answer' });
});

test('idle timeout: it does not end a call while a person signs in', async () => {
  const { clock, aborted, person, send } = silent();
  const given = send(call('tools/call')).catch((error: unknown) => error);
  person.isSigningIn = true;
  for (let turn = 0; turn < 6; turn += 1) await clock.advance(10);
  const meanwhile = aborted.length;
  person.isSigningIn = false;
  for (let turn = 0; turn < 3; turn += 1) await clock.advance(10);

  expect(meanwhile).toBe(0);
  expect(await given).toMatchObject({ code: 'no_answer' });
});

import { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { jsonLinesLog } from '#proxy/log/log';
import { recurringEvent } from '#proxy/transport/retry';
import { HeldSession } from '#proxy/transport/session';
import { sessionStream } from '#proxy/transport/session-stream';
import { UpstreamError } from '#proxy/transport/upstream';
import { fakeClock } from '#support/fake-clock';
import { asMessage, listener } from '#support/scripted-upstream';

const log = jsonLinesLog('error', () => undefined);
const initialize = asMessage({ id: 1, method: 'initialize' });
const note = (text: string) => `{"jsonrpc":"2.0","method":"notifications/${text}"}`;
const event = (text: string) => `id: ${text}\ndata: ${note(text)}\n\n`;

type Answer = number | string | Error;

/** The answer to a GET: a status, the text of a stream that ends, a stream that `stays` open, or an error, which is thrown. */
function answered(answer: Answer, signal: AbortSignal): IncomingMessage {
  if (answer instanceof Error) throw answer;
  const response = new IncomingMessage(new Socket());
  response.statusCode = typeof answer === 'number' ? answer : 200;
  if (typeof answer === 'number') return response;
  response.headers['content-type'] = 'text/event-stream';
  if (answer !== 'stays') response.push(answer);
  if (answer !== 'stays') response.push(null);
  signal.addEventListener('abort', () => response.destroy());
  return response;
}

/** Listens in the session `s1` to a server that gives these answers in turn, and then repeats the last one. */
function listening(answers: Answer[], revives: () => boolean = () => true) {
  const clock = fakeClock();
  const accepted = recurringEvent();
  const assistant = listener();
  const asked: { session: string | undefined; behind: string | undefined; at: number }[] = [];
  const began = clock.now();
  const gone = new AbortController();
  onTestFinished(() => gone.abort());
  let made = 1;
  const session = new HeldSession({
    log,
    settings: () => [],
    async send({ method }) {
      if (method !== 'initialize') return;
      if (!revives()) throw new UpstreamError('unreachable', 'away');
      made += 1;
      session.set({ initialize, id: `s${made}` });
    },
  });
  session.set({ initialize, id: 's1' });
  const get = async (behind: string | undefined, signal: AbortSignal) => {
    asked.push({ session: session.current().id, behind, at: clock.now() - began });
    return answered(answers[Math.min(asked.length, answers.length) - 1] ?? 500, signal);
  };
  const options = { session, get, accepted, clock, log, maxMessageBytes: 1_000 };
  let isOver = false;
  void sessionStream(options, assistant.deliver, gone.signal).then(() => (isOver = true));
  return { clock, accepted, asked, session, gone, said: assistant.said, isOver: () => isOver };
}

test('GET stream: after it ends, it is resumed after its last event', async () => {
  const { clock, asked, said } = listening([event('one'), event('two'), 'stays']);
  for (let second = 0; second < 5; second += 1) await clock.advance(1);

  expect(said.map(({ method }) => method)).toEqual(['notifications/one', 'notifications/two']);
  expect(asked).toEqual([
    { session: 's1', behind: undefined, at: 0 },
    { session: 's1', behind: 'one', at: 1 },
    { session: 's1', behind: 'two', at: 2 },
  ]);
});

test('GET stream: it is opened before the assistant’s next message', () => {
  const { asked } = listening(['stays']);

  expect(asked).toHaveLength(1);
});

test('GET stream: a server without one gets one request for it', async () => {
  const { clock, asked, isOver } = listening([405, 'stays']);
  await clock.advance(3_600);

  expect(asked).toHaveLength(1);
  expect(isOver()).toBe(true);
});

test.each([404, 400])(
  'GET stream: if the server never opened one and answers %i, it is requested again only in the next session',
  async (status) => {
    const { clock, asked, session } = listening([status, 'stays']);
    await clock.advance(3_600);
    const before = asked.length;
    session.set({ initialize, id: 's2' });
    await clock.settled();

    expect(before).toBe(1);
    expect(asked.map((one) => one.session)).toEqual(['s1', 's2']);
  },
);

test('GET stream: a forgotten session is replaced once, and its stream starts from the beginning', async () => {
  const { clock, asked, said } = listening([event('one'), 404, 404, 'stays']);
  for (let second = 0; second < 600; second += 1) await clock.advance(1);

  expect(said).toHaveLength(1);
  expect(asked.map(({ session, behind }) => [session, behind])).toEqual([
    ['s1', undefined],
    ['s1', 'one'],
    ['s2', undefined],
  ]);
});

test('GET stream: a session that cannot be replaced is retried with growing pauses', async () => {
  let away = true;
  const { clock, asked } = listening([event('one'), 404, 404, 404, 'stays'], () => !away);
  for (let second = 0; second < 6; second += 1) await clock.advance(1);
  away = false;
  for (let second = 0; second < 10; second += 1) await clock.advance(1);

  expect(asked.map(({ session, at }) => [session, at])).toEqual([
    ['s1', 0],
    ['s1', 1],
    ['s1', 3],
    ['s1', 7],
    ['s2', 7],
  ]);
});

test('GET stream: if it stays open in a replaced session, it is replaced by one in the new session', async () => {
  const { clock, asked, session } = listening(['stays']);
  await clock.settled();
  session.set({ initialize, id: 's2' });
  await clock.settled();

  expect(asked.map((one) => one.session)).toEqual(['s1', 's2']);
});

test('GET stream: during a handshake it waits for the new session', async () => {
  const { clock, asked, session, isOver } = listening([event('one'), 'stays']);
  await clock.settled();
  // The handshake has begun: there is no session at all just now.
  const { promise, resolve } = Promise.withResolvers<void>();
  Object.assign(session, { revival: () => promise });
  session.set({ initialize });
  await clock.advance(1);
  const over = isOver();
  session.set({ initialize, id: 's2' });
  resolve();
  await clock.settled();

  expect(over).toBe(false);
  expect(asked.map((one) => one.session)).toEqual(['s1', 's2']);
});

test('GET stream: after an outage it is retried with growing pauses, and immediately when a message is accepted', async () => {
  const hint = 'retry: 10\nid: one\ndata: {}\n\n';
  const { clock, accepted, asked } = listening([hint, 503, 503, 503, 503, 503, 503, 'stays']);
  await clock.advance(0.01);
  for (let second = 0; second < 34; second += 1) await clock.advance(1);
  const before = asked.length;
  accepted.happened();
  await clock.settled();

  expect(asked.slice(1, before).map(({ at }) => at)).toEqual([0, 2, 6, 14, 30]);
  expect(asked).toHaveLength(before + 1);
});

test('GET stream: if the server never opened one, accepted messages cause no more requests for it', async () => {
  const { clock, accepted, asked } = listening([503]);
  for (let second = 0; second < 60; second += 1) {
    await clock.advance(1);
    accepted.happened();
  }

  expect(asked.map(({ at }) => at)).toEqual([0, 1, 3, 7, 15, 31]);
});

test('GET stream: after 401 it is requested again once the server accepts a message', async () => {
  const refused = new UpstreamError('unauthorized', 'no');
  const { clock, accepted, asked } = listening([refused, 'stays']);
  await clock.advance(3_600);
  const before = asked.length;
  accepted.happened();
  await clock.advance(1);

  expect(before).toBe(1);
  expect(asked).toHaveLength(2);
});

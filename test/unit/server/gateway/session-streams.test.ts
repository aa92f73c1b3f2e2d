import { describe, expect, test, vi } from 'vitest';

import { noResponses } from '#server/gateway/filters';
import { LostCaller, FollowedStream, type ResumableStream } from '#server/gateway/session-streams';
import { LegacySessions, type LegacySession } from '#server/gateway/sessions';
import { eventStream } from '#support/fake-upstream';
import { replied } from '#support/replied';
import { stillClock } from '#support/still-clock';

const response = '{"jsonrpc":"2.0","id":1,"result":{}}';
const progress = (n: number) =>
  `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":${n}}}`;
const question = '{"jsonrpc":"2.0","id":"q-1","method":"elicitation/create","params":{}}';
const going = new AbortController().signal;

/** A session, one of its streams, and an upstream that speaks when it is told to. */
function opened(clock = stillClock()) {
  const sessions = new LegacySessions(clock);
  const session = sessions.open('key:a', 'srv_1', 'upstream-1');
  const giveUp = vi.fn();
  const caller = new LostCaller(giveUp);
  const lost = caller.connected();
  const stream = session.streams.open('answer', caller);
  const upstream = new TransformStream<Uint8Array, Uint8Array>();
  const writer = upstream.writable.getWriter();
  const say = (text: string) => void writer.write(Buffer.from(text));
  const body = streamOf(upstream.readable, session, stream);
  return {
    sessions,
    session,
    stream,
    caller,
    lost,
    giveUp,
    say,
    body,
    end: () => writer.close(),
    clock,
  };
}

/** The events of a body as those of a session's stream. */
async function* streamOf(
  text: AsyncIterable<Uint8Array> | Uint8Array,
  session: LegacySession,
  stream: ResumableStream,
  isPrimed = false,
): AsyncGenerator<Uint8Array> {
  const { body } = await replied(
    { mediaType: 'text/event-stream', text },
    {
      filters: stream.kind === 'unasked' ? [noResponses] : [],
      stream: () => new FollowedStream(stream, session, isPrimed),
    },
  );
  if (typeof body !== 'object') throw new Error('no stream');
  if (body instanceof Uint8Array) yield body;
  else yield* body;
}

async function rest(events: AsyncIterable<Uint8Array>): Promise<string> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of events) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}
const next = async (events: AsyncIterator<Uint8Array>) =>
  Buffer.from((await events.next()).value ?? []).toString();

test('every event gets an id of ours instead of its own, and comments get none', async () => {
  const { body, say, end } = opened();
  say(
    `\ufeff\n: hi\n\nid: theirs\r\nevent: message\r\ndata: ${response}\r\n\r\ndata: idx\ndata: id: 7\n\n`,
  );
  void end();

  expect(await rest(body)).toBe(
    `\n: hi\n\nid: a1-1\nevent: message\r\ndata: ${response}\r\n\r\nid: a1-2\ndata: idx\ndata: id: 7\n\n`,
  );
});

test('requests of the upstream are registered as waiting, notifications are not', async () => {
  const { session, body, say, end } = opened();
  say(eventStream(progress(1), question, response));
  void end();
  await rest(body);

  expect([...session.pending]).toEqual(['"q-1"']);
});

test('107: a session remembers a thousand streams, and hardly any that ended without events', async () => {
  const { session, caller, stream } = opened();
  const { streams } = session;
  const ended = async (text: string) => {
    const another = streams.open('answer', caller);
    await rest(streamOf(Buffer.from(text), session, another));
    return another.id;
  };
  const first = stream.id;
  const empty: string[] = [];
  for (let n = 0; n < 500; n += 1) empty.push(await ended(''));
  const known = (ids: readonly string[], number: number) =>
    ids.filter((id) => streams.find(`${id}-${number}`) !== undefined).length;
  const emptyKnown = known(empty, 0);
  const full: string[] = [];
  for (let n = 0; n < 1100; n += 1) full.push(await ended(eventStream(response)));

  expect(emptyKnown).toBeLessThanOrEqual(100);
  expect(known(full, 1)).toBe(1000);
  expect(streams.find(`${first}-0`)).toBeUndefined();
});

test('107: short ids of the upstream are stored, up to a thousand', async () => {
  const { session, stream, body, say, end } = opened();
  const long = 'x'.repeat(1023);
  const asked = (id: string) => question.replace('q-1', id);
  say(eventStream(asked(long), ...Array.from({ length: 1100 }, (_, n) => asked(`q-${n}`))));
  say(`id: ${long}xx\ndata: ${response}\n\n`);
  void end();
  await rest(body);

  expect(session.pending.size).toBe(1000);
  expect(session.pending).not.toContain(`"${long}"`);
  expect(stream.upstreamEventId).toBeUndefined();
});

test('232: bounded memory: the ids of requests that wait in a session have at most 16,384 letters, and answers make room', async () => {
  const { session, caller, body, say, end } = opened();
  const long = 'x'.repeat(1000);
  const asked = (id: string) => question.replace('q-1', id);
  say(eventStream(...Array.from({ length: 100 }, (_, n) => asked(`${n}${long}`)), asked('short')));
  void end();
  await rest(body);
  const waiting = [...session.pending];
  session.pending.delete(waiting[0] ?? '');
  const another = session.streams.open('answer', caller);
  await rest(streamOf(Buffer.from(eventStream(asked(`again${long}`))), session, another));

  expect(waiting.join('').length).toBeLessThanOrEqual(16_384);
  expect(waiting).toContain('"short"');
  expect(session.pending).toContain(`"again${long}"`);
});

test('a lost stream continues after the last event that the caller has, and with later ones', async () => {
  const { session, body, caller, lost, giveUp, say, end } = opened();
  say(eventStream(progress(1), progress(2)));
  expect(await next(body)).toContain('id: a1-1');
  expect(await next(body)).toContain('id: a1-2');
  const drained = rest(body);
  lost();

  const found = session.streams.find('a1-1');
  const again = found?.stream.behind(found.number, going);
  say(eventStream(response));
  void end();

  expect(await rest(again ?? body)).toBe(
    `id: a1-2\ndata: ${progress(2)}\n\nid: a1-3\ndata: ${response}\n\n`,
  );
  expect(await drained).toBe('');
  expect(caller.isAway).toBe(false);
  expect(giveUp).not.toHaveBeenCalled();
});

test('107: kept events count with what each costs besides its bytes', async () => {
  const { session, body, say, end, stream } = opened();
  const first = await (async () => {
    const events = body[Symbol.asyncIterator]();
    for (let at = 0; at < 5000; at += 1) say('data: {"jsonrpc":"2.0","method":"m"}\n\n');
    const [one] = [await next(events)];
    void end();
    await rest({ [Symbol.asyncIterator]: () => events });
    return /^id: (\S+)/m.exec(one)?.[1] ?? '';
  })();

  expect(stream.lastNumber).toBeGreaterThanOrEqual(5000);
  expect(session.streams.find(first)?.stream.has(1) ?? false).toBe(false);
});

test('a caller that loses its stream again is waited for again', async () => {
  const { stream, caller, body, say } = opened();
  say(eventStream(progress(1)));
  await next(body);
  const gone = new AbortController();
  const again = stream.behind(0, gone.signal);

  expect(await next(again)).toContain('id: a1-1');

  const ended = again.next();
  gone.abort();

  expect((await ended).done).toBe(true);
  expect(caller.isAway).toBe(true);
  caller.connected();
});

test('a caller that stays away for 60 s is given up', () => {
  vi.useFakeTimers();
  try {
    const giveUp = vi.fn();
    const lost = new LostCaller(giveUp).connected();
    lost();
    vi.advanceTimersByTime(59_999);

    expect(giveUp).not.toHaveBeenCalled();

    vi.advanceTimersByTime(1);

    expect(giveUp).toHaveBeenCalledOnce();
  } finally {
    vi.useRealTimers();
  }
});

test('a connection loss that is noticed after the caller is back changes nothing', async () => {
  const { stream, caller, lost, body, say } = opened();
  say(eventStream(progress(1)));
  await next(body);
  const again = stream.behind(0, going);
  await next(again);

  lost();

  expect(caller.isAway).toBe(false);
});

describe('a stream does not continue', () => {
  test.each(['', 'a1', 'a1-2', 'a2-0', 'u1-1', 'a1--1', 'a01-1', 'theirs', '__proto__-1'])(
    'after %j, which is no event of this session',
    async (id) => {
      const { session, body, say } = opened();
      say(eventStream(progress(1)));
      await next(body);

      expect(session.streams.find(id)).toBeUndefined();
      expect(session.streams.find('a1-1')).toBeDefined();
    },
  );

  test('after an event whose successors are older than two minutes', async () => {
    const { session, clock, body, say } = opened();
    say(eventStream(progress(1), progress(2)));
    await next(body);
    await next(body);
    clock.advance(121);

    expect(session.streams.find('a1-1')).toBeUndefined();
    expect(session.streams.find('a1-2')).toBeDefined();
  });

  test('after an event whose successors exceeded a megabyte', async () => {
    const { session, body, say, end } = opened();
    for (let n = 0; n < 5; n++) say(`data: ${'x'.repeat(300_000)}\n\n`);
    void end();
    await rest(body);

    expect(session.streams.find('a1-1')).toBeUndefined();
    expect(session.streams.find('a1-2')).toBeDefined();
  });

  test('after the end of the session', async () => {
    const { sessions, session, body, say } = opened();
    say(eventStream(progress(1)));
    await next(body);
    sessions.close(session.id);

    expect(session.streams.find('a1-0')).toBeUndefined();
  });
});

test('a session that only listens is not idle', () => {
  const { sessions, session, clock } = opened();
  for (let hour = 0; hour < 3; hour++) {
    clock.advance(3600);
    sessions.open('key:b', 'srv_1', 'another');
    clock.advance(1);
    sessions.open('key:b', 'srv_1', 'another');
  }

  expect(sessions.find(session.id, 'key:a', 'srv_1')).toBeDefined();
});

test('a notification on the stream answers no request, however it is spelt', async () => {
  const { session, caller } = opened();
  const stream = session.streams.open('unasked', caller);
  const body = Buffer.from(
    eventStream(
      response,
      `[${response}]`,
      response.replace('"id":1', '"id":1,"id":2'),
      progress(1),
      response.replace('{}', '{"method":"tools/list"}'),
      question,
    ),
  );
  const text = await rest(streamOf(body, session, stream));

  expect(text).toBe(`id: u2-1\n${eventStream(progress(1))}id: u2-2\n${eventStream(question)}`);
  expect(session.pending).toEqual(new Set(['"q-1"']));
});

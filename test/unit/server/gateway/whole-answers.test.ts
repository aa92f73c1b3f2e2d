// Short answers of a legacy upstream that have arrived whole are translated at once: with the same outcome as in chunks.
import { expect, test, vi } from 'vitest';

import { messageOf } from '#mcp/message';
import { LegacyLink } from '#server/gateway/legacy-link';
import { eraCaller, parsedMessage } from '#support/era-caller';
import {
  type ScriptedAnswer,
  type SentRequest,
  chunksOf,
  eventStream,
  fakeUpstream,
} from '#support/fake-upstream';

const events = 'text/event-stream';
const ours = (id: unknown, value: object) => JSON.stringify({ jsonrpc: '2.0', id, ...value });
const progress = ours(undefined, {
  method: 'notifications/progress',
  params: { progressToken: 'none', progress: 1 },
});
const ping = ours('p', { method: 'ping' });
const logged = ours(undefined, { method: 'notifications/message', params: { data: 'd' } });
const done = { result: { content: [], structuredContent: 1 } };

type Answer = (id: unknown) => Omit<ScriptedAnswer, 'text'> & { readonly text: string };

/** A legacy upstream without sessions that answers `tools/call`, whole or in chunks. */
function answering(answer: Answer, isWhole: boolean) {
  return fakeUpstream(({ method, text }): ScriptedAnswer => {
    if (method !== 'POST') return { status: 405 };
    const asked = parsedMessage(text);
    if (asked.id === undefined || asked.method === undefined) return { status: 202 };
    if (asked.method === 'server/discover')
      return { text: ours(asked.id, { error: { code: -32601, message: 'no' } }) };
    const serverInfo = { name: 'older', version: '1' };
    const handshake = { protocolVersion: '2025-06-18', capabilities: {}, serverInfo };
    if (asked.method === 'initialize') return { text: ours(asked.id, { result: handshake }) };
    const given = answer(asked.id);
    return { ...given, text: isWhole ? Buffer.from(given.text) : given.text };
  });
}

/** The answer that a modern caller gets, and the messages that the upstream gets. */
async function outcome(answer: Answer, isWhole: boolean) {
  const upstream = answering(answer, isWhole);
  const caller = eraCaller(upstream);
  try {
    const { status, mediaType, body } = await caller.modern('tools/call', { name: 't' });
    let text = '';
    for await (const chunk of chunksOf(body)) text += Buffer.from(chunk).toString();
    return { status, mediaType, text, sent: textsOf(upstream) };
  } catch (error) {
    return { error, sent: textsOf(upstream) };
  } finally {
    await caller.eras.close();
  }
}

function textsOf({ sent }: { readonly sent: readonly SentRequest[] }): string[] {
  return sent.map(({ text }) => text);
}

const answers: readonly (readonly [string, Answer])[] = [
  ['the result', (id) => ({ text: ours(id, done) })],
  ['an error', (id) => ({ text: ours(id, { error: { code: -32603, message: 'm' } }) })],
  ['an unknown method', (id) => ({ text: ours(id, { error: { code: -32601, message: 'm' } }) })],
  [
    'an error with status 400',
    (id) => ({ status: 400, text: ours(id, { error: { code: 1, message: 'm' } }) }),
  ],
  ['the result as an event', (id) => ({ mediaType: events, text: eventStream(ours(id, done)) })],
  [
    'the result after a primer',
    (id) => ({ mediaType: events, text: `id: 1\ndata:\n\n: hm\n\n${eventStream(ours(id, done))}` }),
  ],
  [
    'the result after progress',
    (id) => ({ mediaType: events, text: eventStream(progress, ours(id, done)) }),
  ],
  [
    'the result before a message',
    (id) => ({ mediaType: events, text: eventStream(ours(id, done), logged) }),
  ],
  [
    'the result after a ping',
    (id) => ({ mediaType: events, text: eventStream(ping, ours(id, done)) }),
  ],
  [
    'the result before a ping',
    (id) => ({ mediaType: events, text: eventStream(ours(id, done), ping) }),
  ],
  ['two results', (id) => ({ mediaType: events, text: eventStream(ours(id, done), ours(id, {})) })],
  [
    'the result of another request first',
    (id) => ({ mediaType: events, text: eventStream(ours('x', done), ours(id, done)) }),
  ],
  ['only the result of another request', () => ({ text: ours('x', done) })],
  [
    'an event that is not complete',
    (id) => ({ mediaType: events, text: `data: ${ours(id, done)}\n` }),
  ],
  ['a request', () => ({ text: ping })],
  [
    'a member twice',
    (id) => ({ text: `{"jsonrpc":"2.0","id":${String(id)},"result":{"a":1,"a":2}}` }),
  ],
  ['no JSON', () => ({ text: '<html>' })],
  ['nothing', () => ({ text: '' })],
  ['a long result', (id) => ({ text: ours(id, { result: { text: 'x'.repeat(70_000) } }) })],
  ['an HTTP error', () => ({ status: 500, mediaType: 'text/plain', text: 'no' })],
];

test.each(answers)('an upstream that answers with %s: whole as in chunks', async (_, answer) => {
  const whole = await outcome(answer, true);

  expect(whole).toEqual(await outcome(answer, false));
});

/** A link whose upstream answers `tools/call` when told to. */
function heldLink() {
  const answer = Promise.withResolvers<ScriptedAnswer>();
  const link = new LegacyLink({
    upstream: fakeUpstream(({ text }) =>
      text.includes('tools/call') ? answer.promise : { status: 202 },
    ),
    client: { capabilities: '{}', clientInfo: undefined, logLevel: undefined },
    initialized: messageOf('{"jsonrpc":"2.0","id":0,"result":{}}'),
    protocolVersion: '2025-06-18',
    sessionId: undefined,
  });
  const caller = new AbortController();
  const add = vi.spyOn(caller.signal, 'addEventListener');
  const remove = vi.spyOn(caller.signal, 'removeEventListener');
  const id = link.nextId();
  const request = messageOf(`{"jsonrpc":"2.0","id":${id},"method":"tools/call"}`);
  const starting = link.start(request, { headers: {}, signal: caller.signal });
  const listeners = () => add.mock.calls.length - remove.mock.calls.length;
  return {
    link,
    starting,
    listeners,
    answer: () => answer.resolve({ text: Buffer.from(ours(1, done)) }),
  };
}

test('link: a call that is answered at once is over, and leaves nothing at the signal of its caller', async () => {
  const { link, starting, listeners, answer } = heldLink();
  expect(link.isBusy).toBe(true);

  answer();

  expect(await starting).toMatchObject({
    outcome: 'answered',
    response: { envelope: { id: '1' } },
  });
  expect(link.isBusy).toBe(false);
  expect(listeners()).toBe(0);
});

test('link: a response that arrives when the link was closed does not reach the caller', async () => {
  const { link, starting, answer } = heldLink();

  const closing = link.close();
  answer();
  const started = await starting;
  await closing;

  if (started.outcome !== 'started') throw new Error(started.outcome);
  await expect(started.call.inbox.next()).rejects.toMatchObject({ name: 'AbortError' });
});

import { expect, test } from 'vitest';
import { eraCaller, messagesOf, type SaidMessage } from '#support/era-caller';
import { eventStream, fakeUpstream, type ScriptedAnswer } from '#support/fake-upstream';

/** A server of the older era that takes every subscription, and notes how many. */
function subscribable(heard: (count: number) => void = () => undefined) {
  const subscribed: unknown[] = [];
  const upstream = fakeUpstream(({ text, method, signal }): ScriptedAnswer => {
    if (method === 'DELETE') return { status: 204 };
    if (method === 'GET') return { mediaType: 'text/event-stream', text: silence(signal) };
    const { id, method: asked, params }: SaidMessage = JSON.parse(text);
    const say = (rest: object) => ({ text: JSON.stringify({ jsonrpc: '2.0', id, ...rest }) });
    if (id === undefined) return { status: 202 };
    if (asked === 'server/discover') return say({ error: { code: -32601, message: 'no' } });
    if (asked === 'resources/subscribe') heard(subscribed.push(params?.['uri']));
    const capabilities = { resources: { subscribe: true } };
    if (asked === 'initialize')
      return {
        ...say({ result: { protocolVersion: '2025-06-18', capabilities } }),
        sessionId: 's',
      };
    return say({ result: {} });
  });
  return { upstream, subscribed };
}

async function* silence(signal: AbortSignal): AsyncGenerator<Uint8Array> {
  yield Buffer.from(eventStream('{"jsonrpc":"2.0","method":"notifications/message","params":{}}'));
  await new Promise((resolve) => signal.addEventListener('abort', resolve));
}

const listenTo = (uris: readonly string[]) => ({ notifications: { resourceSubscriptions: uris } });
const uris = (count: number) => Array.from({ length: count }, (_, at) => `file:///${at}`);

test('of the resources that one message subscribes to a thousand are subscribed to', async () => {
  const { upstream, subscribed } = subscribable();
  const leaving = new AbortController();
  const { signal } = leaving;
  const caller = eraCaller(upstream);
  const answer = await caller.modern('subscriptions/listen', listenTo(uris(1500)), { signal });
  const { value } = await messagesOf(answer).next();
  leaving.abort();

  expect(value).toMatchObject({ params: listenTo(uris(1000)) });
  expect(subscribed).toEqual(uris(1000));

  await caller.eras.close();
});

test('nothing more is subscribed to for a caller who left', async () => {
  const leaving = new AbortController();
  const { signal } = leaving;
  const { upstream, subscribed } = subscribable((count) => count === 10 && leaving.abort());
  const caller = eraCaller(upstream);
  const answer = await caller.modern('subscriptions/listen', listenTo(uris(900)), { signal });
  await messagesOf(answer).next();

  expect(subscribed).toEqual(uris(10));

  await caller.eras.close();
});

test('a client that says more of itself than is worth keeping is refused', async () => {
  const { upstream } = subscribable();
  const caller = eraCaller(upstream);
  const meta = { 'io.modelcontextprotocol/clientInfo': { name: 'n'.repeat(70_000), version: '1' } };

  await expect(caller.modern('tools/list', {}, { meta })).rejects.toMatchObject({
    code: 'bad_params',
  });

  await caller.eras.close();
});

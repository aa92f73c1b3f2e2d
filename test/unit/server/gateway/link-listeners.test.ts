import { setImmediate as nextTurn } from 'node:timers/promises';
import { beforeEach, expect, test } from 'vitest';

import { type Message, messageOf } from '#mcp/message';
import { BodyMemory, type GiveUp } from '#server/gateway/body-memory';
import { LinkListeners } from '#server/gateway/link-listeners';
import { UpstreamError } from '#server/gateway/upstream';
import { severityOf } from '#mcp/translation';

const accepted = messageOf('{"jsonrpc":"2.0","id":1,"result":{}}');
const refused = messageOf('{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no"}}');
const changes = { lists: [], uris: ['a:b'] };
const updated = messageOf(
  '{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:b"}}',
);

let sent: string[];
let answers: PromiseWithResolvers<Message | undefined>[];
let listeners: LinkListeners;
const { signal } = new AbortController();

/** A link whose requests are answered by hand. */
beforeEach(() => {
  sent = [];
  answers = [];
  listeners = new LinkListeners({
    initialized: messageOf(
      '{"jsonrpc":"2.0","id":0,"result":{"capabilities":{"resources":{"subscribe":true}}}}',
    ),
    listen: async () => true,
    request(method) {
      sent.push(method);
      const waiting = Promise.withResolvers<Message | undefined>();
      answers.push(waiting);
      return waiting.promise;
    },
  });
});

async function answer(index: number, outcome: Message | Error): Promise<void> {
  await nextTurn();
  if (outcome instanceof Error) answers[index]?.reject(outcome);
  else answers[index]?.resolve(outcome);
}

test('listeners: all that wait for the same subscription learn that it was refused', async () => {
  const both = [listeners.add(changes, signal), listeners.add(changes, signal)];
  await answer(0, refused);

  const honoured = (await Promise.all(both)).map((listener) => listener.honoured.uris);

  expect(honoured).toEqual([[], []]);
  expect(sent).toEqual(['resources/subscribe']);
});

test('listeners: a failed subscription does not count as one for the next listener', async () => {
  const failed = listeners.add({ lists: [], uris: ['a:b'] }, signal);
  await answer(0, new UpstreamError('unreachable', 'refused'));
  await expect(failed).rejects.toThrow('refused');
  const next = listeners.add(changes, signal);
  await answer(1, accepted);
  const { honoured, inbox } = await next;
  listeners.take(updated);

  expect(honoured.uris).toEqual(['a:b']);
  expect(await inbox.next()).toBe(updated);
});

test('listeners: one that fails halfway leaves no subscription behind', async () => {
  const failed = listeners.add({ lists: [], uris: ['a:b', 'c:d'] }, signal);
  await answer(0, accepted);
  await answer(1, new UpstreamError('unreachable', 'refused'));
  await expect(failed).rejects.toThrow('refused');
  await answer(2, accepted);

  expect(sent).toEqual(['resources/subscribe', 'resources/subscribe', 'resources/unsubscribe']);
});

test('listeners: a resource is subscribed to again only after its unsubscription', async () => {
  const first = listeners.add(changes, signal);
  await answer(0, accepted);
  listeners.remove(await first);
  await nextTurn();
  const second = listeners.add(changes, signal);
  await nextTurn();
  const before = [...sent];
  await answer(1, accepted);
  await answer(2, accepted);

  expect(before).toEqual(['resources/subscribe', 'resources/unsubscribe']);
  expect((await second).honoured.uris).toEqual(['a:b']);
  expect(sent[2]).toBe('resources/subscribe');
});

test('listeners: one that arrives when no more changes come is accepted for nothing, and ends', async () => {
  const late = listeners.add(changes, signal);
  await nextTurn();
  listeners.end();
  await answer(0, accepted);
  const later = await listeners.add(changes, signal);

  expect(await (await late).inbox.next()).toBeUndefined();
  expect([later.honoured.uris, await later.inbox.next()]).toEqual([[], undefined]);
});

test('107: listeners: a long notification is reduced to its change, which all share and which waits once', async () => {
  const adding = Array.from({ length: 60 }, async () => listeners.add(changes, signal));
  await answer(0, accepted);
  const inboxes = (await Promise.all(adding)).map(({ inbox }) => inbox);
  const said = (uri: string, more: object) =>
    messageOf(
      JSON.stringify({
        jsonrpc: '2.0',
        method: 'notifications/resources/updated',
        params: { uri, ...more },
      }),
    );

  for (let count = 0; count < 3; count += 1) {
    listeners.take(said('a:b', { _meta: { text: 'x'.repeat(20 * 1024 * 1024) } }));
  }
  const got = new Set(inboxes.flatMap((inbox) => inbox.rest()));

  expect([...got].map(({ body }) => body.toString())).toEqual([said('a:b', {}).body.toString()]);

  listeners.take(updated);
  await inboxes[0]?.next();
  listeners.take(updated);
  expect(inboxes.map((inbox) => inbox.rest().length)).toEqual(Array(60).fill(1));
});

test('107: listeners: what waits for a listener counts until it is taken, or the listener is removed', async () => {
  const memory = new BodyMemory({ what: 'responses' });
  const uris = Array.from({ length: 20 }, (_, i) => `a:${i}${'x'.repeat(30_000)}`);
  const holder = { organization: 'org', caller: 'key' };
  const hold = (giveUp: GiveUp) => memory.body(holder, giveUp);
  const adding = listeners.add({ lists: [], uris }, signal, { hold });
  for (const index of uris.keys()) await answer(index, accepted);
  const listener = await adding;

  for (const uri of uris) {
    const params = { uri };
    const method = 'notifications/resources/updated';
    listeners.take(messageOf(JSON.stringify({ jsonrpc: '2.0', method, params })));
  }
  expect(memory.size.bytes).toBeGreaterThan(500_000);

  listeners.remove(listener);
  expect(memory.size.bytes).toBe(0);
});

test('107: listeners: log messages go to those that want them, unless they are long, and leave room for changes', async () => {
  const nothing = { lists: [], uris: [] };
  const log = (level: string, data: string) =>
    messageOf(
      JSON.stringify({ jsonrpc: '2.0', method: 'notifications/message', params: { level, data } }),
    );
  const severe = severityOf('error');
  expect(listeners.takeLog(log('error', 'nobody'))).toBe(false);
  const adding = listeners.add(changes, signal, {}, severe);
  await answer(0, accepted);
  const { inbox } = await adding;
  const silent = await listeners.add(nothing, signal);

  expect(listeners.takeLog(log('error', 'first'))).toBe(true);
  expect(listeners.takeLog(log('info', 'too little'))).toBe(true);
  listeners.takeLog(log('error', 'x'.repeat(65 * 1024)));
  for (let n = 0; n < 2000; n += 1) listeners.takeLog(log('error', `flood ${n}`));
  listeners.take(updated);
  silent.inbox.end();

  const waiting = inbox.rest().map(({ body }) => body.toString());
  expect(waiting[0]).toContain('first');
  expect(waiting).toHaveLength(501);
  expect(waiting.join('')).not.toContain('too little');
  expect(waiting.at(-1)).toContain('resources/updated');
  expect(await silent.inbox.next()).toBeUndefined();
});

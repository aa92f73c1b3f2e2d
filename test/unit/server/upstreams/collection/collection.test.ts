import { messageOf, readMessage } from 'latchkey-mcp/message';
import { expect, test } from 'vitest';

import { errorAnswer } from '#server/gateway/errors';
import { GatewayRefusal } from '#server/gateway/gateway-refusal';
import { jsonAnswer } from '#server/gateway/reply';
import type { GatewayAnswer } from '#server/gateway/request';
import type { Target } from '#server/model/endpoints';
import { Collections } from '#server/upstreams/collection/collection';
import { someAdmission, someTarget } from '#support/some-admission';
import { stillClock } from '#support/still-clock';

const failed = { base: 'http://127.0.0.1', serverPath: 'acme/wiki', era: 'modern' } as const;
const target: Target = someTarget({
  upstream: {
    kind: 'collection',
    members: [{ id: 'srv_wiki', name: 'wiki' }],
    names: [
      ['tool', 0, 'shut'],
      ['prompt', 0, 'shut'],
      ['resource', 0, 'notes://shut'],
      ['template', 0, 'notes://shut/{page}'],
    ],
  },
});

/** A collection with one member that keeps everything closed, and lists nothing before `list` resolves. */
function closedMember() {
  const asked: string[] = [];
  const clock = stillClock();
  const list = Promise.withResolvers<void>();
  const collections = new Collections({
    mac: () => '',
    note: () => Promise.resolve([]),
    now: () => clock.now(),
  });
  const answer = async (body: Uint8Array): Promise<GatewayAnswer> => {
    const { method = '' } = readMessage(body)?.envelope ?? {};
    asked.push(method);
    if (!method.endsWith('/list')) {
      const closed = new GatewayRefusal('closed_tool', { detail: 'shut' });
      return errorAnswer(closed, { ...failed, id: '1' });
    }
    await list.promise;
    return jsonAnswer(200, '{"jsonrpc":"2.0","id":"list-0","result":{"ttlMs":0}}');
  };
  collections.open({
    answer: ({ message }) => answer(message?.body ?? Buffer.alloc(0)),
    admit: () => someAdmission(),
  });
  const send = async (method: string, params: object) => {
    const body = messageOf(JSON.stringify({ jsonrpc: '2.0', id: 1, method, params })).body;
    const { signal } = new AbortController();
    const request = { method: 'POST', headers: {}, body, signal } as const;
    return collections.upstreamOf(target, 'key:a', someAdmission()).send(request);
  };
  return { asked, list, send };
}

const argument = { name: 'page', value: '1' };
const wanted: readonly (readonly [method: string, paramsOf: (name: string) => object])[] = [
  ['tools/call', (name) => ({ name })],
  ['prompts/get', (name) => ({ name })],
  ['resources/read', (name) => ({ uri: `notes://${name}` })],
  ['completion/complete', (name) => ({ ref: { type: 'ref/prompt', name }, argument })],
  [
    'completion/complete',
    (name) => ({ ref: { type: 'ref/resource', uri: `notes://${name}/{page}` }, argument }),
  ],
];

test.each(wanted)(
  '220: collection: %s of something closed waits for the lists that an unknown name waits for',
  async (method, paramsOf) => {
    const [ofClosed, ofUnknown] = [closedMember(), closedMember()];
    let isAnswered = false;
    const closed = ofClosed.send(method, paramsOf('shut')).finally(() => {
      isAnswered = true;
    });
    const unknown = ofUnknown.send(method, paramsOf('lost'));
    closed.catch(() => undefined);
    unknown.catch(() => undefined);
    await expect.poll(() => ofClosed.asked.at(-1)).toMatch(/list$/);
    expect(isAnswered).toBe(false);

    for (const { list } of [ofClosed, ofUnknown]) list.resolve();

    await expect(unknown).rejects.toMatchObject({ code: expect.stringMatching(/^unknown_/) });
    await expect(closed).rejects.toMatchObject({ code: expect.stringMatching(/^unknown_/) });
    expect(ofClosed.asked.slice(1)).toEqual(ofUnknown.asked);
  },
);

test('collection: members learn that a page asks, and not a caller', async () => {
  const clock = stillClock();
  const asked: unknown[] = [];
  const collections = new Collections({
    mac: () => '',
    note: () => Promise.resolve([]),
    now: () => clock.now(),
  });
  collections.open({
    answer: ({ isForPage }) => {
      asked.push(isForPage);
      return jsonAnswer(200, '{"jsonrpc":"2.0","id":"list-0","result":{"tools":[],"ttlMs":0}}');
    },
    admit: () => someAdmission(),
  });
  const { body } = messageOf('{"jsonrpc":"2.0","id":1,"method":"tools/list"}');
  const { signal } = new AbortController();
  const request = { method: 'POST', headers: {}, body, signal } as const;
  await collections.ofPerson(target, 'probe', 'user_dana').send(request);
  await collections.upstreamOf(target, 'key:a', someAdmission()).send(request);

  expect(asked).toEqual([true, false]);
});

import { expect, test } from 'vitest';

import { presentedUpstream, type Presentation } from '#server/gateway/presented-upstream';
import { fakeUpstream, type ScriptedAnswer } from '#support/fake-upstream';

const both = { title: 'Sales', instructions: 'Ask for "orders" first.' };

/** The text of an answer, presented. */
async function present(answer: ScriptedAnswer, presentation: Presentation = both) {
  const upstream = presentedUpstream(
    fakeUpstream(() => answer),
    presentation,
  );
  const signal = new AbortController().signal;
  const { body } = await upstream.send({ method: 'POST', headers: {}, signal });
  const chunks: Uint8Array[] = [];
  for await (const chunk of body instanceof Uint8Array ? [body] : body) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

const json = (result: string) => `{"jsonrpc":"2.0","id":12345678901234567890,"result":${result}}`;

test('the title takes the place of the upstream’s, and the instructions come before its own', async () => {
  const theirs =
    '{ "x" : 1.50, "serverInfo":{"name":"a","title":"Theirs"},"instructions":"Theirs."}';

  expect(await present({ text: json(theirs) })).toBe(
    json(
      '{ "x" : 1.50, "serverInfo":{"name":"a","title":"Sales"},"instructions":"Ask for \\"orders\\" first.\\n\\nTheirs."}',
    ),
  );
});

test('what the upstream does not say is added, and every other byte stays', async () => {
  expect(await present({ text: json('{"serverInfo": {"name":"a"},"big":9007199254740993}') })).toBe(
    json(
      '{"instructions":"Ask for \\"orders\\" first.","serverInfo": {"title":"Sales","name":"a"},"big":9007199254740993}',
    ),
  );
  expect(await present({ text: json('{"serverInfo":{}}') }, { title: 'T' })).toBe(
    json('{"serverInfo":{"title":"T"}}'),
  );
});

test('a modern server is presented where it says who it is', async () => {
  const info = '"io.modelcontextprotocol/serverInfo"';

  expect(
    await present(
      { text: json(`{"_meta":{${info}:{"name":"a","title":"b"}},"ttlMs":0}`) },
      { title: 'T' },
    ),
  ).toBe(json(`{"_meta":{${info}:{"name":"a","title":"T"}},"ttlMs":0}`));
});

test('a response among events is presented, and the events around it are not touched', async () => {
  const before =
    'event: message\nid: 1\ndata: {"jsonrpc":"2.0","method":"notifications/message"}\n\n';
  const text = `${before}: ping\n\nid: 2\ndata: ${json('{"serverInfo":{"name":"a"}}')}\n\n`;
  const shown = await present({ text, mediaType: 'text/event-stream' }, { title: 'T' });

  expect(shown).toBe(
    `${before}: ping\n\nid: 2\ndata: ${json('{"serverInfo":{"title":"T","name":"a"}}')}\n\n`,
  );
});

test.each([
  ['no JSON', 'sorry'],
  ['a result twice', json('{"instructions":"a"}').replace('}}', '},"result":{}}')],
  ['data behind it', `${json('{}')} {}`],
])('what could be presented otherwise to others is refused: %s', async (_, text) => {
  const refused = { code: 'upstream_failed' };
  const event = { mediaType: 'text/event-stream', text: `data: ${text}\n\n` };

  await expect(present({ text }, { instructions: 'b' })).rejects.toMatchObject(refused);
  await expect(present(event, { instructions: 'b' })).rejects.toMatchObject(refused);
});

test.each([
  ['an error', { text: '{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}' }],
  ['a refusal', { text: json('{"serverInfo":{}}'), status: 400 }],
  ['a result that is no object', { text: json('[]') }],
  ['a server info that is none', { text: json('[{"serverInfo":1}]') }],
])('%s passes as it is', async (_, answer) => {
  expect(await present(answer)).toBe(answer.text);
});

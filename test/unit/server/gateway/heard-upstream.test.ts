import { expect, test } from 'vitest';
import { allScopes, type Scope } from '#server/credentials/scope';
import { heardUpstream } from '#server/gateway/heard-upstream';
import { chunksOf, eventStream, fakeUpstream, type ScriptedAnswer } from '#support/fake-upstream';

const signal = new AbortController().signal;
const told = (method: string) => JSON.stringify({ jsonrpc: '2.0', method });
const kinds = {
  tools: told('notifications/tools/list_changed'),
  tasks: told('notifications/tasks/status'),
  task: told('notifications/tasks'),
  resources: told('notifications/resources/list_changed'),
  updated: told('notifications/resources/updated'),
  prompts: told('notifications/prompts/list_changed'),
  escaped: String.raw`{"jsonrpc":"2.0","method":"notifications\/resources\/list_changed"}`,
  log: told('notifications/message'),
  question: '{"jsonrpc":"2.0","id":1,"method":"elicitation/create"}',
  result: '{"jsonrpc":"2.0","id":1,"result":{"of":"notifications/resources/list_changed"}}',
};
const everything = eventStream(...Object.values(kinds));
const stream = (text: string | readonly string[]) => ({ mediaType: 'text/event-stream', text });

async function heard(answer: ScriptedAnswer, scopes: readonly Scope[]) {
  const upstream = heardUpstream(
    fakeUpstream(() => answer),
    scopes,
  );
  const { body } = await upstream.send({ method: 'GET', headers: {}, signal });
  let text = '';
  for await (const chunk of chunksOf(body)) text += Buffer.from(chunk).toString();
  return text;
}

test.each<[string, Scope[], string[]]>([
  ['nothing but calling tools', ['mcp:tools:execute'], ['tasks', 'task']],
  ['listing tools', ['mcp:tools:read'], ['tools']],
  ['reading', ['mcp:resources:read'], ['resources', 'updated', 'prompts', 'escaped']],
  ['nothing', [], []],
])('who may do %s hears of that, and of what is of no kind', async (_, scopes, own) => {
  const all = new Set([...own, 'log', 'question', 'result']);
  const expected = Object.entries(kinds).filter(([name]) => all.has(name));

  expect(await heard(stream(everything), scopes)).toBe(
    eventStream(...expected.map(([, message]) => message)),
  );
});

test('who may do everything gets the bytes as they come', async () => {
  const upstream = fakeUpstream(() => stream(everything));

  expect(heardUpstream(upstream, allScopes)).toBe(upstream);
});

test('what is left keeps its bytes, comments and ids, however it is cut', async () => {
  const text = `: hello\n\nid: 7\ndata: ${kinds.tools}\n\ndata: ${kinds.prompts}\n\n: there\n\n`;

  expect(await heard(stream(text.split('')), ['mcp:tools:read'])).toBe(
    `: hello\n\nid: 7\ndata: ${kinds.tools}\n\n: there\n\n`,
  );
});

test('an answer of many megabytes is heard', async () => {
  const long = eventStream(
    JSON.stringify({ jsonrpc: '2.0', id: 1, result: 'x'.repeat(3_000_000) }),
  );

  expect(await heard(stream([long.slice(0, 2_000_000), long.slice(2_000_000)]), [])).toBe(long);
});

test.each([
  ['a method twice', kinds.tools.replace('}', ',"method":"notifications/message"}')],
  ['data behind it', `${kinds.tools} {}`],
  ['another case', kinds.tools.replace('"method"', '"Method"')],
  ['a list', `[${kinds.tools}]`],
  ['two megabytes of blanks', kinds.tools + ' '.repeat(2 << 20)],
])('what could be read as such is not heard either: %s', async (_, text) => {
  expect(await heard(stream(eventStream(text, kinds.log)), [])).toBe(eventStream(kinds.log));
});

test('an answer that is no stream passes', async () => {
  expect(await heard({ text: kinds.resources }, [])).toBe(kinds.resources);
});

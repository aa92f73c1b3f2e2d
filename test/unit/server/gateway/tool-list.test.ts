import { describe, expect, test } from 'vitest';

import type { GatewayAnswer } from '#server/gateway/request';
import { filteredList, isPinnedList, type ListMethod } from '#server/gateway/tool-list';
import type { AccessRules, PrimitiveKind, ToolCaller } from '#server/model/tool-rights';
import { eventStream, type ScriptedAnswer } from '#support/fake-upstream';
import { bodyText } from '#support/gateway-answer';
import { replied } from '#support/replied';
import { ofNoPerson, rightsTo } from '#support/some-admission';

const list = (...names: string[]) =>
  JSON.stringify({
    jsonrpc: '2.0',
    id: 1,
    result: { tools: names.map((name) => ({ name, inputSchema: {} })), nextCursor: 'c', x: 1 },
  });

function filtered(
  method: ListMethod,
  answer: ScriptedAnswer,
  rights: ReturnType<typeof rightsTo>,
): Promise<GatewayAnswer> {
  const filter = filteredList(method, rights);
  return replied(answer, { filters: filter ? [filter] : [], isSingle: true, isHeldWhole: true });
}

/** An answer to `tools/list` without the hidden tools. */
function without(answer: ScriptedAnswer, hidden: readonly string[]): Promise<GatewayAnswer> {
  return filtered('tools/list', answer, rightsTo({ hiddenTools: hidden }));
}

const parsed = async (answer: GatewayAnswer): Promise<unknown> =>
  JSON.parse(await bodyText(answer));

describe('hidden tools are left out, and everything else of the answer stays', () => {
  test.each([
    ['of JSON', 'application/json', list('read', 'drop', 'write')],
    ['of an event stream', 'text/event-stream', eventStream(list('read', 'drop', 'write'))],
  ])('%s', async (_, mediaType, text) => {
    const answer = await without({ mediaType, text }, ['drop', 'unknown']);

    expect(answer).toMatchObject({ status: 200, headers: { 'Content-Type': 'application/json' } });
    expect(await parsed(answer)).toEqual(JSON.parse(list('read', 'write')));
  });
});

test('a tool whose hidden name is escaped is left out as well', async () => {
  const text = list('read', 'drop').replace('"drop"', '"dr\\u006fp"');

  expect(await parsed(await without({ text }, ['drop']))).toEqual(JSON.parse(list('read')));
});

test('an error is passed on', async () => {
  const error = { jsonrpc: '2.0', id: 1, error: { code: -32602, message: 'bad cursor' } };

  expect(await parsed(await without({ text: JSON.stringify(error) }, ['drop']))).toEqual(error);
});

describe('a list that cannot be parsed is refused rather than passed on with hidden tools', () => {
  test.each([
    ['that is no JSON', 'drop'],
    ['that is cut short', list('drop').slice(0, -2)],
    ['that is a list of messages', `[${list('drop')}]`],
    ['whose tools are an object', '{"jsonrpc":"2.0","id":1,"result":{"tools":{"drop":1}}}'],
    ['that names a tool twice', list('drop').replace('"name"', '"name":"read","name"')],
    ['whose tools have no names', '{"jsonrpc":"2.0","id":1,"result":{"tools":[{"title":"drop"}]}}'],
    ['whose tools are missing', '{"jsonrpc":"2.0","id":1,"result":{}}'],
    ['that is empty', ''],
  ])('%s', async (_, text) => {
    await expect(without({ text }, ['drop'])).rejects.toMatchObject({
      code: 'unreadable_tools',
    });
  });
});

test('ids and numbers beyond 2^53, their spelling and all other bytes stay unchanged', async () => {
  const read =
    '{ "name": "read",\t"inputSchema": {"maximum": 9007199254740993, "multipleOf": 1.50} }';
  const write = '{"name":"wr\\u0069te","_meta":{"a":[{"name":"drop"}]}}';
  const around = (...tools: string[]) =>
    `{"result": {"tools": [${tools.join(',')} ], "ttlMs": 1e3}, "id":12345678901234567890,"jsonrpc":"2.0"}`;
  const text = around(read, '{"name":"drop","inputSchema":{}}', write);

  const answer = await without({ text }, ['drop']);

  expect(await bodyText(answer)).toBe(around(read, write));
});

test('a list whose tools are all hidden is empty', async () => {
  const answer = await without({ text: list('drop') }, ['drop']);

  expect(await parsed(answer)).toEqual(JSON.parse(list()));
});

test('117: a list of 10,000 tools is filtered, and one with more is unreadable', async () => {
  const names = Array.from({ length: 10_000 }, (_, at) => `tool-${at}`);
  const hidden = names.slice(1);

  expect(await parsed(await without({ text: list(...names) }, hidden))).toEqual(
    JSON.parse(list('tool-0')),
  );
  await expect(without({ text: list(...names, 'one-more') }, hidden)).rejects.toMatchObject({
    code: 'unreadable_tools',
    details: { detail: expect.stringContaining('more than 10000 tools') },
  });
});

describe('lists by rules', () => {
  const sales = new Set(['sales']);
  const none = new Map<string, Set<string>>();
  const rulesOf = (named: Partial<Record<PrimitiveKind, string>>): AccessRules => ({
    others: {},
    named: {
      tool: none,
      prompt: none,
      resource: none,
      template: none,
      ...Object.fromEntries(
        Object.entries(named).map(([kind, name]) => [kind, new Map([[name, sales]])]),
      ),
    },
  });
  const outside: ToolCaller = { groups: new Set(['support']), selections: [] };
  const inside: ToolCaller = { groups: sales, selections: [] };
  const rules = rulesOf({
    tool: 'drop',
    prompt: 'drop',
    resource: 'file:///drop',
    template: 'file:///drop/{+x}',
  });
  const answerOf = (member: string, entries: readonly object[], hints = '') =>
    `{"jsonrpc":"2.0","id":1,"result":{${hints}"${member}":${JSON.stringify(entries)},"nextCursor":""}}`;

  test.each<[ListMethod, string, object, object]>([
    ['tools/list', 'tools', { name: 'drop' }, { name: 'keep' }],
    ['prompts/list', 'prompts', { name: 'drop' }, { name: 'keep' }],
    ['resources/list', 'resources', { uri: 'FILE:///drop', name: 'a' }, { uri: 'file:///keep' }],
    ['resources/list', 'resources', { uri: 'file:///drop/a' }, { uri: 'file:///keep' }],
    [
      'resources/templates/list',
      'resourceTemplates',
      { uriTemplate: 'file:///drop/{+x}', name: 'a' },
      { uriTemplate: 'file:///keep/{x}' },
    ],
    ['skills/list', 'skills', { uri: 'file:///drop' }, { uri: 'file:///keep' }],
  ])(
    '%s loses what the caller may not use, and keeps all other bytes: %s',
    async (method, member, drop, keep) => {
      // Resources and skills may be listed twice.
      const text = answerOf(member, [keep, drop, keep].slice(isPinnedList(method) ? 1 : 0));
      const got = await bodyText(await filtered(method, { text }, rightsTo({ rules }, outside)));

      expect(got).toBe(
        text.replace(`,${JSON.stringify(drop)}`, '').replace(`${JSON.stringify(drop)},`, ''),
      );
      expect(await bodyText(await filtered(method, { text }, rightsTo({ rules }, inside)))).toBe(
        text,
      );
    },
  );

  test.each([
    ['public', '"ttlMs":5,"cacheScope":"public",', '"ttlMs":5,"cacheScope":"private",'],
    ['with escapes', '"cacheScope":"publi\\u0063",', '"cacheScope":"private",'],
    ['missing', '"ttlMs":5,', '"cacheScope":"private","ttlMs":5,'],
    ['private', '"cacheScope": "private",', '"cacheScope": "private",'],
    ['neither that nor a time', '', ''],
  ])(
    'a list that depends on who asks is private where its scope is %s, also without anything restricted',
    async (_, hints, expected) => {
      const [text = '', wanted] = [hints, expected].map((one) =>
        answerOf('prompts', [{ name: 'keep' }], one),
      );
      const ofTools = rightsTo({ rules: rulesOf({ tool: 'drop' }) }, inside);
      const narrow = rightsTo({}, { selections: [{ type: 'read-only' }] });

      expect(await bodyText(await filtered('prompts/list', { text }, ofTools))).toBe(wanted);
      expect(await bodyText(await filtered('prompts/list', { text }, narrow))).toBe(wanted);
    },
  );

  test('a list that depends on nothing passes without being read', () => {
    expect(filteredList('tools/list', rightsTo({}, inside))).toBeUndefined();
    expect(filteredList('tools/list', rightsTo({}, ofNoPerson))).toBeUndefined();
  });

  test('a list loses entries and its public scope at once', async () => {
    const text = answerOf('tools', [{ name: 'drop' }, { name: 'keep' }], '"cacheScope":"public",');
    const end = text.replace('"nextCursor":""', '"nextCursor":"","x":"é"');
    const got = await bodyText(
      await filtered('tools/list', { text: end }, rightsTo({ rules }, outside)),
    );

    expect(got).toBe(end.replace('public', 'private').replace('{"name":"drop"},', ''));
  });

  test.each<[string, ListMethod, string]>([
    ['prompts under another name', 'prompts/list', '{"Prompts":[{"name":"drop"}],"prompts":[]}'],
    ['a prompt with two names', 'prompts/list', '{"prompts":[{"Name":"drop","name":"keep"}]}'],
    ['two prompts of one name', 'prompts/list', '{"prompts":[{"name":"keep"},{"name":"keep"}]}'],
    ['a resource without a URI', 'resources/list', '{"resources":[{"name":"drop"}]}'],
    [
      'a resource with two URIs',
      'resources/list',
      '{"resources":[{"URI":"file:///drop","uri":"a:b"}]}',
    ],
    ['a URI that is a list', 'resources/list', '{"resources":[{"uri":["file:///drop"]}]}'],
    ['templates that are an object', 'resources/templates/list', '{"resourceTemplates":{}}'],
    [
      'two templates of one text',
      'resources/templates/list',
      '{"resourceTemplates":[{"uriTemplate":"a:{b}"},{"uriTemplate":"a:{b}"}]}',
    ],
    [
      'a template whose text is a number',
      'resources/templates/list',
      '{"resourceTemplates":[{"uriTemplate":1}]}',
    ],
  ])('a list is refused rather than passed on with %s', async (_, method, result) => {
    const text = `{"jsonrpc":"2.0","id":1,"result":${result}}`;

    await expect(filtered(method, { text }, rightsTo({ rules }, outside))).rejects.toMatchObject({
      code: 'unreadable_list',
    });
  });
});

import { Readable } from 'node:stream';

import { describe, expect, test } from 'vitest';

import { type Message, messageOf } from '#mcp/message';
import { type Scope, allScopes } from '#server/model/scopes';
import {
  type Presentation,
  allowedNotifications,
  ownResponse,
  presented,
} from '#server/gateway/filters';
import type { GatewayRefusal } from '#server/gateway/gateway-refusal';
import { type ScriptedAnswer, eventStream } from '#support/fake-upstream';
import { bodyText } from '#support/gateway-answer';
import { replied } from '#support/replied';

test('an answer whose body was replaced is scanned, whatever the former body was scanned as', async () => {
  const [own, other] = ['7', '8'].map((id) =>
    messageOf(`{"jsonrpc":"2.0","id":${id},"result":{}}`),
  );
  const id = '7';
  const options = { ownId: { id, isRequest: true }, filters: [ownResponse(id)] };
  const answered = (text: Message | undefined, message: Message | undefined) =>
    replied({ text: text?.body ?? '', ...(message && { message }) }, options);

  expect(await bodyText(await answered(own, own))).toBe(own?.body.toString());
  await expect(answered(other, own)).rejects.toMatchObject({ code: 'upstream_unreadable' });
});

describe('a response to another request', () => {
  const result = (id: string) => `{"jsonrpc":"2.0","id":${id},"result":{}}`;
  const error = (id: string) => `{"jsonrpc":"2.0","id":${id},"error":{"code":-1,"message":"no"}}`;

  async function passed(answer: ScriptedAnswer, id?: string) {
    const ownId = { id, isRequest: id !== undefined };
    const own = await replied(answer, { ownId, filters: [ownResponse(id)] });
    return { ...own, body: await bodyText(own) };
  }

  test.each([
    ['its own result', result('7'), '7'],
    ['its own result, with the number as a string', result('"7"'), '7'],
    ['its own result, with the number in another form', result('7.0'), '7'],
    ['its own result, with a letter escaped', result(String.raw`"\u0061"`), '"a"'],
    ['an error for another request', error('8'), '7'],
    ['an error that names no request', error('null'), '7'],
  ])('%s passes, as JSON and as an event', async (_, text, id) => {
    const events = eventStream(text);

    expect((await passed({ text }, id)).body).toBe(text);
    expect((await passed({ text: events, mediaType: 'text/event-stream' }, id)).body).toBe(events);
  });

  test.each([
    ['a result for another request', result('8')],
    ['a result that can be read in two ways', '{"jsonrpc":"2.0","id":7,"result":{},"result":{}}'],
    ['a batch', `[${result('7')}]`],
  ])('%s is refused where it is the whole answer', async (_, text) => {
    await expect(passed({ text }, '7')).rejects.toMatchObject({
      code: 'upstream_unreadable',
    } satisfies Partial<GatewayRefusal>);
  });

  test('a stream continues without results for other requests', async () => {
    const told = '{"jsonrpc":"2.0","method":"notifications/message"}';
    const text = `: hello\n\n${eventStream(told, result('8'), result('7'), result('9'))}`;

    const { body } = await passed({ text, mediaType: 'text/event-stream' }, '7');

    expect(body).toBe(`: hello\n\n${eventStream(told, result('7'))}`);
  });

  test('a result for a message that is no request is removed', async () => {
    expect((await passed({ text: result('8') })).status).toBe(202);
    expect(
      (await passed({ text: eventStream(result('8')), mediaType: 'text/event-stream' })).body,
    ).toBe('');
  });

  test('the body of an HTTP error is passed on only if it is a JSON-RPC error', async () => {
    const refused = await passed({ status: 404, text: error('7') }, '7');

    expect([refused.status, refused.body]).toEqual([404, error('7')]);
    await expect(passed({ status: 404, text: result('7') }, '7')).rejects.toMatchObject({
      code: 'upstream_not_found',
      details: { detail: 'it answered HTTP 404' },
    });
  });

  /** An answer of more than a mebibyte, in chunks, with its id at the end; `taken` counts the chunks that were read. */
  function long(id: string, { before = '', after = '' } = {}) {
    const taken = { chunks: 0 };
    async function* body() {
      const text = 'x'.repeat(64 * 1024);
      yield Buffer.from(`{"jsonrpc":"2.0",${before}"result":{"text":"\\"id\\": 1 {`);
      for (; taken.chunks < 40; taken.chunks += 1) yield Buffer.from(text);
      yield Buffer.from(`"},"i`);
      yield Buffer.from(`d" : ${id}`);
      yield Buffer.from(`}${after}`);
    }
    return { taken, text: body() };
  }

  const asked = { ownId: { id: '7', isRequest: true } };

  test('a long answer is passed on as it arrives', async () => {
    const { taken, text } = long('7');

    const own = await replied({ text }, asked);
    const takenBefore = taken.chunks;
    const whole = await bodyText(own);

    expect(takenBefore).toBeLessThan(20);
    expect(whole).toBe(await bodyText({ status: 200, headers: {}, body: long('7').text }));
  });

  test.each([
    ['for another request', long('8')],
    ['with two ids', long('7', { before: '"id":8,' })],
    ['with an id in another case', long('7', { before: '"Id":8,' })],
    ['with an id whose name is escaped', long('7', { before: String.raw`"\u0069d":8,` })],
    ['with something behind it', long('7', { after: '{}' })],
  ])('a long answer %s is interrupted before its end', async (_, { text: body }) => {
    const own = await replied({ text: body }, asked);
    let text = '';
    const reading = (async () => {
      for await (const chunk of Readable.from(own.body ?? []))
        text += Buffer.from(chunk).toString();
    })();

    await expect(reading).rejects.toMatchObject({ code: 'upstream_unreadable' });
    expect(() => JSON.parse(text)).toThrow(SyntaxError);
  });
});

describe('notifications beyond the scopes of the caller', () => {
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
    const filter = allowedNotifications(scopes);
    return bodyText(await replied(answer, { filters: filter ? [filter] : [] }));
  }

  test.each<[string, Scope[], string[]]>([
    ['nothing but calling tools', ['mcp:tools:execute'], ['tasks', 'task']],
    ['listing tools', ['mcp:tools:read'], ['tools']],
    ['reading', ['mcp:resources:read'], ['resources', 'updated', 'prompts', 'escaped']],
    ['nothing', [], []],
  ])(
    'a caller that may use %s gets its notifications, and those of no kind',
    async (_, scopes, own) => {
      const all = new Set([...own, 'log', 'question', 'result']);
      const expected = Object.entries(kinds).filter(([name]) => all.has(name));

      expect(await heard(stream(everything), scopes)).toBe(
        eventStream(...expected.map(([, message]) => message)),
      );
    },
  );

  test('a caller with all scopes gets the bytes as they arrive', async () => {
    expect(allowedNotifications(allScopes)).toBeUndefined();
    expect(await heard(stream(everything), allScopes)).toBe(everything);
  });

  test('what remains keeps its bytes, comments and ids, wherever chunks begin', async () => {
    const text = `: hello\n\nid: 7\ndata: ${kinds.tools}\n\ndata: ${kinds.prompts}\n\n: there\n\n`;

    expect(await heard(stream(text.split('')), ['mcp:tools:read'])).toBe(
      `: hello\n\nid: 7\ndata: ${kinds.tools}\n\n: there\n\n`,
    );
  });

  test('an answer of many megabytes passes', async () => {
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
  ])('bytes that could be read as such a notification are removed: %s', async (_, text) => {
    expect(await heard(stream(eventStream(text, kinds.log)), [])).toBe(eventStream(kinds.log));
  });

  test('an answer that is no stream passes unchanged', async () => {
    expect(await heard({ text: kinds.resources }, [])).toBe(kinds.resources);
  });
});

describe('the presentation of a server', () => {
  const both = { title: 'Sales', instructions: 'Ask for "orders" first.' };

  /** The text of an answer after the filter `presented` changed it. */
  async function present(answer: ScriptedAnswer, presentation: Presentation = both) {
    return bodyText(await replied(answer, { filters: [presented(presentation)] }));
  }

  const json = (result: string) => `{"jsonrpc":"2.0","id":12345678901234567890,"result":${result}}`;

  test('the configured title replaces the upstream’s, and the instructions precede its own', async () => {
    const theirs =
      '{ "x" : 1.50, "serverInfo":{"name":"a","title":"Theirs"},"instructions":"Theirs."}';

    expect(await present({ text: json(theirs) })).toBe(
      json(
        '{ "x" : 1.50, "serverInfo":{"name":"a","title":"Sales"},"instructions":"Ask for \\"orders\\" first.\\n\\nTheirs."}',
      ),
    );
  });

  test('absent members are added, and every other byte stays', async () => {
    expect(
      await present({ text: json('{"serverInfo": {"name":"a"},"big":9007199254740993}') }),
    ).toBe(
      json(
        '{"instructions":"Ask for \\"orders\\" first.","serverInfo": {"title":"Sales","name":"a"},"big":9007199254740993}',
      ),
    );
    expect(await present({ text: json('{"serverInfo":{}}') }, { title: 'T' })).toBe(
      json('{"serverInfo":{"title":"T"}}'),
    );
  });

  test('a modern server is presented where it identifies itself', async () => {
    const info = '"io.modelcontextprotocol/serverInfo"';

    expect(
      await present(
        { text: json(`{"_meta":{${info}:{"name":"a","title":"b"}},"ttlMs":0}`) },
        { title: 'T' },
      ),
    ).toBe(json(`{"_meta":{${info}:{"name":"a","title":"T"}},"ttlMs":0}`));
  });

  test('a response among events is presented, and the other events are unchanged', async () => {
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
  ])('an answer that a client could read differently is refused: %s', async (_, text) => {
    const refused = { code: 'upstream_unreadable' };
    const event = { mediaType: 'text/event-stream', text: `data: ${text}\n\n` };

    await expect(present({ text }, { instructions: 'b' })).rejects.toMatchObject(refused);
    await expect(present(event, { instructions: 'b' })).rejects.toMatchObject(refused);
  });

  test.each([
    ['an error', { text: '{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}' }],
    ['a result that is no object', { text: json('[]') }],
    ['a server info that is none', { text: json('[{"serverInfo":1}]') }],
  ])('%s passes unchanged', async (_, answer) => {
    expect(await present(answer)).toBe(answer.text);
  });

  test('a result with an HTTP error is not presented', async () => {
    const answer = { text: json('{"serverInfo":{}}'), status: 400 };
    const ownId = { id: '12345678901234567890', isRequest: true };

    await expect(replied(answer, { ownId, filters: [presented(both)] })).rejects.toMatchObject({
      code: 'upstream_failed',
    });
  });
});

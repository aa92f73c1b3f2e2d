import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { acceptDefinitions, correctTool } from '#server/db/definitions';
import { noteDefinitions } from '#server/db/note-definitions';
import type { ToolCorrection } from '#server/model/tool-correction';
import { readDefinitions } from '#server/tools/definition-lists';
import { DefinitionWatch } from '#server/tools/definition-watch';
import { correctionEdits } from '#server/tools/list-edits';
import { pinnedDefinitions } from '#server/tools/pinning';
import { madeAt, makeServer } from '#support/made-records';
import { openDatabase } from '#support/open-database';
import { realToolLists } from '#support/real-tool-lists';
import { someTarget } from '#support/some-admission';
import { stillClock } from '#support/still-clock';
import { replaced } from 'latchkey-mcp/json-edit';

const whole: ToolCorrection = {
  title: 'Say “hi”',
  description: 'Echoes.\nOnly that.',
  annotations: { readOnlyHint: true, destructiveHint: false },
};
const title = '"Say “hi”"';
const description = String.raw`"Echoes.\nOnly that."`;
const hints = '"readOnlyHint":true,"destructiveHint":false';

/** The text of a tool after `correction` was applied to it in a list. */
function corrected(tool: string, correction: ToolCorrection, isDoubtful = false): string {
  const message = Buffer.from(
    `{"jsonrpc":"2.0","id":1,"result":{"tools":[ ${tool} ,{"name":"other"}]}}`,
  );
  const [span] = readDefinitions(message, 'tools/list')?.spans ?? [];
  if (!span) throw new Error('no tool');
  const edited = replaced(message, correctionEdits(message, span, { correction, isDoubtful }));
  return edited.toString().replace(/^.*?\[ (.*) ,\{"name":"other"\}\]\}\}$/s, '$1');
}

describe('a correction changes nothing else', () => {
  test.each([
    [
      'nothing there',
      '{"name":"echo"}',
      `{"title":${title},"description":${description},"annotations":{${hints}},"name":"echo"}`,
    ],
    [
      'everything there, with blanks',
      '{ "name" : "echo",\n\t"title": "Echo" , "description":"x"  ,"annotations" : { "readOnlyHint" :false , "destructiveHint": true , "title":"E" } }',
      `{ "name" : "echo",\n\t"title": ${title} , "description":${description}  ,"annotations" : { "readOnlyHint" :true , "destructiveHint": false , "title":${title} } }`,
    ],
    [
      'one hint there',
      '{"name":"echo","annotations":{"openWorldHint":false,"readOnlyHint":false}}',
      `{"title":${title},"description":${description},"name":"echo","annotations":{"destructiveHint":false,"openWorldHint":false,"readOnlyHint":true}}`,
    ],
    [
      'empty annotations',
      '{"name":"echo","annotations":{ }}',
      `{"title":${title},"description":${description},"name":"echo","annotations":{${hints} }}`,
    ],
    [
      'null for all',
      '{"name":"echo","title":null,"description":null,"annotations":null}',
      `{"name":"echo","title":${title},"description":${description},"annotations":{${hints}}}`,
    ],
    [
      'annotations that are no object',
      '{"annotations":["readOnlyHint"],"name":"echo"}',
      `{"title":${title},"description":${description},"annotations":{${hints}},"name":"echo"}`,
    ],
    [
      'names with escapes',
      String.raw`{"n\u0061me":"e\u0063ho","titl\u0065":"\ud83d\ude00","annotations":{"readOnly\u0048int":false}}`,
      String.raw`{"description":${description},"n\u0061me":"e\u0063ho","titl\u0065":${title},"annotations":{"destructiveHint":false,"readOnly\u0048int":true}}`,
    ],
    [
      'the same names further inside',
      '{"name":"echo","inputSchema":{"title":"T","description":"d","annotations":{"readOnlyHint":false}},"_meta":{"title":1e2}}',
      `{"title":${title},"description":${description},"annotations":{${hints}},"name":"echo","inputSchema":{"title":"T","description":"d","annotations":{"readOnlyHint":false}},"_meta":{"title":1e2}}`,
    ],
  ])('%s', (_, tool, expected) => {
    expect(corrected(tool, whole)).toBe(expected);
  });

  test.each([
    ['a title', { title: 'T' }, '{"title":"T","name":"echo","description":"\\u00e9"}'],
    ['a description', { description: '' }, '{"name":"echo","description":""}'],
    ['nothing', {}, '{"name":"echo","description":"\\u00e9"}'],
    ['no hint', { annotations: {} }, '{"name":"echo","description":"\\u00e9"}'],
    [
      'one hint',
      { annotations: { openWorldHint: true } },
      '{"annotations":{"openWorldHint":true},"name":"echo","description":"\\u00e9"}',
    ],
  ])('with %s alone', (_, correction, expected) => {
    expect(corrected(String.raw`{"name":"echo","description":"\u00e9"}`, correction)).toBe(
      expected,
    );
  });

  test('any tool, however it is written, keeps every other value and byte', () => {
    const correction = fc.record(
      {
        title: fc.string(),
        description: fc.string(),
        annotations: fc.record(
          { readOnlyHint: fc.boolean(), idempotentHint: fc.boolean() },
          { requiredKeys: [] },
        ),
      },
      { requiredKeys: [] },
    );
    const tool = fc.record(
      {
        title: fc.string(),
        description: fc.string(),
        annotations: fc.record(
          { readOnlyHint: fc.boolean(), title: fc.string(), other: fc.jsonValue() },
          { requiredKeys: [] },
        ),
        inputSchema: fc.jsonValue(),
      },
      { requiredKeys: [] },
    );
    const blanks = fc.constantFrom(undefined, 1, 3, '\t');

    fc.assert(
      fc.property(tool, correction, blanks, (listed, change, indent) => {
        const text = JSON.stringify({ name: 'echo', ...listed }, undefined, indent);
        // Parsers differ in how they read `__proto__`.
        fc.pre(!text.includes('__proto__'));
        const changed: Record<string, unknown> = JSON.parse(corrected(text, change));
        const before = Object(JSON.parse(text));
        const { annotations = {}, ...texts } = change;
        const hasTitle = change.title !== undefined && 'title' in Object(before.annotations);
        const inside = { ...annotations, ...(hasTitle && { title: change.title }) };
        const isChanged = Object.keys(inside).length > 0;

        expect(changed).toEqual({
          ...before,
          ...texts,
          ...(isChanged && { annotations: { ...before.annotations, ...inside } }),
        });
      }),
      { seed: 31 },
    );
  });
});

test('while other annotations than the accepted ones are listed, no hint says that people need not be asked', () => {
  const annotations = {
    readOnlyHint: true,
    destructiveHint: false,
    idempotentHint: true,
    openWorldHint: false,
  };
  const strict = {
    readOnlyHint: false,
    destructiveHint: true,
    idempotentHint: false,
    openWorldHint: true,
  };

  expect([
    corrected('{"name":"echo"}', { annotations }, true),
    corrected('{"name":"echo"}', { annotations: strict }, true),
  ]).toEqual(['{"name":"echo"}', `{"annotations":${JSON.stringify(strict)},"name":"echo"}`]);
});

test.each(['READONLYHINT', 'readonlyHint', 'Title'])(
  'annotations with %s, which some parsers take for a known name, are not corrected but refused',
  (name) => {
    const tool = JSON.stringify({ name: 'echo', annotations: { [name]: true } });

    expect(() => corrected(tool, whole)).toThrow('differs from a known one only in case');
  },
);

/** What remains of two texts without their common beginning and their common end. */
function difference(one: string, other: string): readonly [string, string] {
  let start = 0;
  while (start < one.length && one[start] === other[start]) start += 1;
  let end = 0;
  const most = Math.min(one.length, other.length) - start;
  while (end < most && one.at(-1 - end) === other.at(-1 - end)) end += 1;
  return [one.slice(start, one.length - end), other.slice(start, other.length - end)];
}

describe('lists of real servers', () => {
  const media = [
    ['JSON', 'application/json', (text: string) => text],
    ['an event', 'text/event-stream', (text: string) => `event: message\ndata: ${text}\n\n`],
  ] as const;
  const eras = [
    ['the legacy era', (text: string) => text],
    [
      'the modern era',
      (text: string) =>
        text.replace(
          '"tools":[',
          '"resultType":"complete","ttlMs":0,"cacheScope":"public","tools":[',
        ),
    ],
  ] as const;

  async function pinnedServer() {
    const stores = await openDatabase();
    await makeServer(stores);
    const clock = stillClock(madeAt);
    const watch = new DefinitionWatch({ db: stores.db, clock });
    const pinned = pinnedDefinitions({ watch, failed: (error) => expect.fail(String(error)) });
    const passes = async (text: string, mediaType: string) => {
      const { body } = await pinned(
        {
          status: 200,
          mediaType,
          sessionId: undefined,
          retryAfterSeconds: undefined,
          body: Buffer.from(text),
        },
        someTarget({ id: 'target_sales' }),
        { method: 'tools/list', id: '1', isForCaller: false },
      );
      if (body instanceof Uint8Array) return Buffer.from(body).toString();
      let got = '';
      for await (const chunk of body) got += Buffer.from(chunk).toString();
      return got;
    };
    return { ...stores, passes, [Symbol.asyncDispose]: () => stores.close() };
  }

  test.each(realToolLists)(
    '$server: pass byte for byte, in both eras, as JSON and as an event',
    async ({ text }) => {
      await using server = await pinnedServer();
      for (const [, mediaType, inMedia] of media) {
        for (const [, inEra] of eras) {
          const sent = inMedia(inEra(text));

          expect(await server.passes(sent, mediaType)).toBe(sent);
          expect(await server.passes(sent, mediaType)).toBe(sent);
        }
      }
    },
  );

  test.each(realToolLists)(
    '$server: a corrected tool differs, and no other byte',
    async ({ text }) => {
      await using server = await pinnedServer();
      const { db } = server;
      const definitions = readDefinitions(Buffer.from(text), 'tools/list')?.definitions ?? [];
      await noteDefinitions(
        db,
        'target_sales',
        { kind: 'tool', definitions, isLast: true },
        madeAt,
      );
      const dana = { by: 'user:dana', at: madeAt };
      const [first] = definitions;
      if (!first) throw new Error('no tool');
      await acceptDefinitions(db, 'target_sales', [{ kind: 'tool', ...first }], dana);
      await correctTool(
        db,
        'target_sales',
        first.name,
        { annotations: { readOnlyHint: false } },
        dana,
      );
      const passed = await server.passes(text, 'application/json');
      const [before, after] = difference(text, passed);

      expect(after.length).toBeLessThan(50);
      expect(`${before}→${after}`).toMatch(/^(?:tru→fals|→[^→]*readOnlyHint":false[^→]*|→)$/);
    },
  );
});

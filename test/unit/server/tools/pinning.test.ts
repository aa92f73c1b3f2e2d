import { sql } from 'kysely';
import { describe, expect, test, vi } from 'vitest';

import { insertOrganization } from '#server/db/organizations';
import { findServerById, insertServer, updateServer } from '#server/db/servers';
import { GatewayRefusal } from '#server/gateway/gateway-refusal';
import { asksForDefinitions } from '#server/gateway/adapted-upstream';
import { mostKnown } from '#server/db/offered';
import type { Definition } from '#server/model/definitions';
import { ToolRights } from '#server/model/tool-rights';
import { toolDefinition } from '#server/tools/definition';
import { readDefinitions } from '#server/tools/definition-lists';
import { DefinitionWatch } from '#server/tools/definition-watch';
import { pinnedDefinitions } from '#server/tools/pinning';
import { type ScriptedAnswer, eventStream, fakeUpstream } from '#support/fake-upstream';
import { openDatabase } from '#support/open-database';
import { ofNoPerson, someServer, someTarget } from '#support/some-admission';
import { stillClock } from '#support/still-clock';

test.each([
  ['short', ''],
  ['long', 'x'.repeat(20_000)],
])('95: a %s request for the list of tools is recognized with escapes in its method', (_, text) => {
  const body = Buffer.from(
    `{"jsonrpc":"2.0","id":1,"method":"tools\\/l\\u0069st","params":{"text":"${text}"}}`,
  );
  const { signal } = new AbortController();

  expect(asksForDefinitions({ method: 'POST', headers: {}, body, signal })).toEqual({
    method: 'tools/list',
    id: '1',
  });
});

test('110: tools that differ in an integer beyond 2^53 are two definitions', () => {
  const digestOf = (maximum: string) => {
    const tool = `{"name":"pay","inputSchema":{"properties":{"to":{"const":${maximum}}}}}`;
    const list = `{"jsonrpc":"2.0","id":1,"result":{"tools":[${tool}]}}`;
    return readDefinitions(Buffer.from(list), 'tools/list')?.definitions[0]?.digest;
  };

  expect(digestOf('9007199254740993')).not.toBe(digestOf('9007199254740992'));
});

const nothingFound = {
  changed: [],
  added: [],
  differing: [],
  beyond: [],
  corrections: new Map(),
  basis: undefined,
};

describe('a list of tools', () => {
  const list = JSON.stringify({
    jsonrpc: '2.0',
    id: 1,
    result: { tools: [{ name: 'echo' }, { name: 'liar' }, { name: 'closed' }] },
  });

  function watched(
    answer: ScriptedAnswer,
    rule: 'flag' | 'withhold',
    look = (): Promise<string[]> => Promise.resolve(['liar', 'closed']),
  ) {
    const looked: string[][] = [];
    const failures: unknown[] = [];
    const target = someTarget({ changedTools: rule });
    const upstream = fakeUpstream(() => answer);
    const pinned = pinnedDefinitions({
      watch: {
        async look(_, { definitions }) {
          looked.push(definitions.map(({ name }) => name));
          return { ...nothingFound, rule, withheld: await look() };
        },
        compare: () => expect.fail('only for instructions'),
        acceptedInstructions: () => Promise.resolve(undefined),
        recall: () => Promise.resolve(undefined),
        remember: () => undefined,
      },
      failed: (error) => void failures.push(error),
    });
    const ask = async (text: string) => {
      const body = Buffer.from(text);
      const { signal } = new AbortController();
      const sending = { method: 'POST', headers: {}, body, signal } as const;
      const answered = await upstream.send(sending);
      const asked = asksForDefinitions(sending);
      const sent = asked
        ? await pinned(answered, target, { ...asked, isForCaller: false })
        : answered;
      let got = '';
      if (sent.body instanceof Uint8Array) got = Buffer.from(sent.body).toString();
      else for await (const chunk of sent.body) got += Buffer.from(chunk).toString();
      await new Promise(setImmediate);
      return { ...sent, text: got };
    };
    return { ask, looked, failures };
  }

  const request = (method: string) => `{"jsonrpc":"2.0","id":1,"method":"${method}"}`;

  const names = ['echo', 'liar', 'closed'];

  describe('a list with flagged tools passes unchanged, and is compared', () => {
    test.each([
      ['JSON', 'application/json', list, list],
      [
        'an event stream',
        'text/event-stream',
        eventStream(list),
        `event: message\n${eventStream(list)}`,
      ],
    ])('%s', async (_, mediaType, text, goes) => {
      const none = () => Promise.resolve([]);
      const { ask, looked } = watched({ mediaType, text }, 'flag', none);
      const { text: got } = await ask(request('tools/list'));

      expect(got).toBe(goes);
      expect(looked).toEqual([names]);
    });

    test('a comparison that fails does not affect the answer', async () => {
      const broken = new Error('full');
      const { ask, failures } = watched({ text: list }, 'flag', () => Promise.reject(broken));

      expect((await ask(request('tools/list'))).text).toBe(list);
      expect(failures).toEqual([broken]);
    });
  });

  describe('a list with withheld tools passes without them', () => {
    test.each([
      ['JSON', 'application/json', list],
      ['an event stream', 'text/event-stream', eventStream(list)],
    ])('%s', async (_, mediaType, text) => {
      const { ask } = watched({ mediaType, text }, 'withhold');
      const { text: got, mediaType: type } = await ask(request('tools/list'));

      expect(JSON.parse(got.replace(/^event: message\ndata: /, ''))).toEqual({
        jsonrpc: '2.0',
        id: 1,
        result: { tools: [{ name: 'echo' }] },
      });
      expect(type).toBe(mediaType);
    });

    test('a list that cannot be recorded is refused', async () => {
      const { ask } = watched({ text: list }, 'withhold', () => Promise.reject(new Error('full')));

      await expect(ask(request('tools/list'))).rejects.toMatchObject({
        code: 'unavailable',
        cause: new Error('full'),
      });
    });
  });

  test('a method that is spelt with escapes is recognized, and other methods pass', async () => {
    const { ask, looked } = watched({ text: list }, 'withhold');
    const { text } = await ask(request('tools/call'));
    await ask(request('tools\\u002flist'));
    await ask(request('tools\\/list'));

    expect(text).toBe(list);
    expect(looked).toEqual([names, names]);
  });

  const good = '{"name":"echo","inputSchema":{"type":"object"}}';
  const answered = (tools: string, more = '') =>
    `{"jsonrpc":"2.0","id":1,"result":{"tools":[${tools}]${more}}}`;
  const evil = '{"name":"echo","description":"EVIL"}';

  const unreadable: [string, string | Buffer][] = [
    ['tools twice', answered(good, `,"tools":[${evil}]`)],
    ['tools twice, once escaped', answered(good, `,"t\\u006fols":[${evil}]`)],
    [
      'a member twice far inside',
      answered('{"name":"echo","inputSchema":{"a":[{"x":1,"x":"EVIL"}]}}'),
    ],
    [
      'the result twice',
      `{"jsonrpc":"2.0","id":1,"result":{"tools":[]},"result":{"tools":[${evil}]}}`,
    ],
    ['4 MiB of blanks', `${answered(evil)}${' '.repeat(4 << 20)}`],
    ['4 MiB of blanks in front', `${' '.repeat(4 << 20)}${answered(evil)}`],
    ['invalid UTF-8', Buffer.from(answered(evil).replace('EVIL', 'EVIL\xff'), 'latin1')],
    ['a byte order mark', `\ufeff${answered(evil)}`],
    ['data behind it', `${answered(evil)}{}`],
    ['65 levels', answered(`{"name":"echo","EVIL":${'['.repeat(62)}${']'.repeat(62)}}`)],
    ['a batch', `[${answered(evil)}]`],
    ['Tools beside tools', answered(good, `,"Tools":[${evil}]`)],
    ['TOOLS alone', `{"jsonrpc":"2.0","id":1,"result":{"TOOLS":[${evil}]}}`],
    [
      'Result beside result',
      `{"jsonrpc":"2.0","id":1,"result":{"tools":[]},"Result":{"tools":[${evil}]}}`,
    ],
    [
      'Description beside description',
      answered('{"name":"echo","description":"","Description":"EVIL"}'),
    ],
    ['a long s in de\u017fcription', answered('{"name":"echo","de\u017fcription":"EVIL"}')],
    ['tools that are an object', `{"jsonrpc":"2.0","id":1,"result":{"tools":{"0":${evil}}}}`],
    ['a tool without a name', answered('{"description":"EVIL"}')],
    ['a tool whose name is no string', answered('{"name":["echo"],"description":"EVIL"}')],
    ['a tool whose name is empty', answered('{"name":"","description":"EVIL"}')],
    [
      'a tool whose name PostgreSQL cannot store',
      answered('{"name":"\\u0000","description":"EVIL"}'),
    ],
    ['a tool whose name is too long to be kept', answered(`{"name":"${'n'.repeat(1001)}EVIL"}`)],
    ['two tools of one name', answered(`${good},${evil}`)],
    ['a result and an error', `{"jsonrpc":"2.0","id":1,"error":{},"result":{"tools":[${evil}]}}`],
  ];

  const inEvents = (text: string | Buffer, ...before: string[]) =>
    chunked(
      Buffer.concat([
        Buffer.from(eventStream(...before)),
        Buffer.from('data: '),
        Buffer.from(text),
        Buffer.from('\n\n'),
      ]),
    );

  async function* chunked(bytes: Buffer): AsyncGenerator<Uint8Array> {
    for (let at = 0; at < bytes.length; at += 65_536) yield bytes.subarray(at, at + 65_536);
  }

  describe.each(['flag', 'withhold'] as const)('where changed tools are %sed', (rule) => {
    const progress = '{"jsonrpc":"2.0","method":"notifications/progress","params":{}}';
    const refused = { code: 'unreadable_tools', looked: [] };
    const refusalOf = async (answer: ScriptedAnswer) => {
      const { ask, looked } = watched(answer, rule);
      const refusal: unknown = await ask(request('tools/list')).catch((error: unknown) => error);
      return { code: refusal instanceof GatewayRefusal ? refusal.code : refusal, looked };
    };

    test.each(unreadable)('a list that can be read in two ways is refused: %s', async (_, text) => {
      expect(await refusalOf({ text: chunked(Buffer.from(text)) })).toEqual(refused);
      expect(await refusalOf({ text: Buffer.from(text) })).toEqual(refused);
    });

    test.each(unreadable)('and so is one in an event of a stream: %s', async (_, text) => {
      const mediaType = 'text/event-stream';

      expect(await refusalOf({ mediaType, text: inEvents(text) })).toEqual(refused);
      expect(await refusalOf({ mediaType, text: inEvents(text, progress) })).toEqual(refused);
    });

    test('of a stream only messages that were parsed pass, up to the answer', async () => {
      const text = [
        ': \u2028data: EVIL\n',
        `id: 7\nevent: EVIL\ndata: ${progress}\n\n`,
        'retry: 1\nEVIL: 1\n\n',
        `data: ${answered('{"name":"keep"}').replace(',', ',\ndata: ')}\n\n`,
        `data: ${answered(evil)}\n\n`,
      ];
      const { ask } = watched({ mediaType: 'text/event-stream', text }, rule);
      const { text: got } = await ask(request('tools/list'));

      expect(got).toBe(
        [progress, answered('{"name":"keep"}').replace(',', ', ')]
          .map((message) => `event: message\ndata: ${message}\n\n`)
          .join(''),
      );
    });

    test('a stream that ends before the answer is refused', async () => {
      const text = `id: 7\ndata: ${progress}\n\n`;
      const { ask } = watched({ mediaType: 'text/event-stream', text }, rule);

      await expect(ask(request('tools/list'))).rejects.toMatchObject({
        code: 'upstream_broke_off',
      });
    });

    test.each([202, 204])('an HTTP %i instead of a list is refused', async (status) => {
      expect(await refusalOf({ status, mediaType: '' })).toEqual(refused);
    });

    test.each([400, 404])('a list under HTTP %i is no list', async (status) => {
      const { ask, looked } = watched({ status, text: list }, rule);

      expect(await ask(request('tools/list'))).toMatchObject({ status, mediaType: '', text: '' });
      expect(looked).toEqual([]);
    });

    test.each(['1', 'null'])('an error under the id %s passes, whatever its status', async (id) => {
      const text = `{"jsonrpc":"2.0","id":${id},"error":{"code":-32000,"message":"no"}}`;
      for (const status of [200, 400, 404]) {
        const { ask } = watched({ status, text }, rule);

        expect(await ask(request('tools/list'))).toMatchObject({ status, text });
      }
    });
  });
});

describe('the tools of a server', () => {
  const said = (description: string, names = ['echo', 'keep']) =>
    names.map((name) => toolDefinition({ name, description }) ?? expect.fail('no tool'));

  /** Two nodes with one database. Each `look` gets the record of the server as it was before the list was requested. */
  async function nodes(changedTools: 'flag' | 'withhold') {
    const stores = await openDatabase();
    const { db } = stores;
    const { target: recorded, ...server } = someServer({ target: { changedTools } });
    await insertOrganization(db, { id: 'org', name: server.organization, createdAt: 1 });
    await insertServer(db, {
      ...server,
      targetId: recorded.id,
      upstream: recorded.upstream,
      organizationId: 'org',
      createdAt: 1,
    });
    await updateServer(db, server.id, { changedTools });
    const clock = stillClock(1_800_000_000);
    const transactions = vi.spyOn(db, 'transaction');
    const watches = [
      new DefinitionWatch({ db, clock }),
      new DefinitionWatch({ db, clock }),
    ] as const;
    return {
      watches,
      clock,
      db,
      written: () => transactions.mock.calls.length,
      look: async (definitions: Definition[], node: 0 | 1 = 0) => {
        const { withheld } = await watches[node].look(recorded, {
          kind: 'tool',
          definitions,
          isLast: true,
        });
        return withheld;
      },
      isOpen: async (name: string) => {
        const found = await findServerById(db, server.id);
        const rights = found && new ToolRights(found.target, ofNoPerson);
        return rights?.verdict('tool', name) === 'everyone';
      },
      audited: async () => {
        const rows = await db.selectFrom('audit_event').select(['action', 'target']).execute();
        return rows.map(({ action, target }) => `${action} ${target}`);
      },
      [Symbol.asyncDispose]: () => stores[Symbol.asyncDispose](),
    };
  }

  const [good, evil] = [said('Echoes.'), said('Lies.')];

  test('a list that was seen before writes nothing', async () => {
    await using server = await nodes('flag');
    await server.look(good);
    const before = server.written();
    await server.look(good, 1);

    expect([before, server.written()]).toEqual([1, 1]);
  });

  const lists = [good, evil, evil];
  const orders = permutations([0, 1, 2]);
  const nodesOf = Array.from({ length: 8 }, (_, bits) => [bits & 1, (bits >> 1) & 1, bits >> 2]);

  test.each(orders)(
    '109: lists that are answered in the order %i, %i, %i show no changed tool, at any node',
    async (...order) => {
      for (const at of nodesOf) {
        await using server = await nodes('withhold');
        await server.look(good);
        for (const n of order) {
          const withheld = await server.look(lists[n] ?? [], at[n] === 1 ? 1 : 0);

          expect(withheld).toEqual(lists[n] === evil ? ['echo', 'keep'] : []);
          expect(await server.isOpen('echo')).toBe(lists[n] === good);
        }
        const overlapping = order.map((n) => server.look(lists[n] ?? [], at[n] === 1 ? 1 : 0));

        expect(await Promise.all(overlapping)).toEqual(
          order.map((n) => (lists[n] === evil ? ['echo', 'keep'] : [])),
        );
      }
    },
  );

  test('109: a list that was requested before changed tools were withheld is compared under the new rule', async () => {
    await using server = await nodes('flag');
    const { db, look } = server;
    await look(good);
    await look(evil);
    const flagged = await look(evil);
    await updateServer(db, someServer().id, { changedTools: 'withhold' });

    expect([flagged, await look(evil)]).toEqual([[], ['echo', 'keep']]);
  });

  const many = (count: number, from = 0) =>
    said(
      'One of many.',
      Array.from({ length: count }, (_, n) => `t${from + n}`),
    );

  test.each(['flag', 'withhold'] as const)(
    '110: with changed tools set to %s, tools beyond the limit are withheld, closed and recorded once a day',
    async (rule) => {
      await using server = await nodes(rule);
      const { look, isOpen, audited, clock } = server;
      const first = await look(many(mostKnown + 2));
      const second = await look(many(1, 50_000));
      await look(many(1, 60_000));
      const recorded = await audited();
      clock.advance(86_400);
      await look(many(1, 70_000));

      expect([first, second]).toEqual([['t10000', 't10001'], ['t50000']]);
      expect(await Promise.all(['t9999', 't10000', 't50000', 'never listed'].map(isOpen))).toEqual([
        true,
        false,
        false,
        false,
      ]);
      expect(recorded).toEqual(['tool.limit server:acme/sales']);
      expect(await audited()).toHaveLength(2);
    },
  );

  test('110: tools that are no longer listed make room for others after 30 days, and those in use stay pinned', async () => {
    await using server = await nodes('withhold');
    const { look, isOpen, clock } = server;
    await look([...good, ...many(mostKnown - 2)]);
    const outcomes: boolean[] = [];
    let today = 0;
    for (const day of [1, 16, 31, 32]) {
      clock.advance((day - today) * 86_400);
      today = day;
      await look(good);
      outcomes.push((await look(many(1, 20_000))).length === 0);
    }

    expect(outcomes).toEqual([false, false, false, true]);
    expect(await look(many(997, 20_000))).toEqual([]);
    expect(await isOpen('never listed')).toBe(true);
    expect(await look(evil)).toEqual(['echo', 'keep']);
  });

  test('110: nothing is forgotten because no one listed tools, nor between the pages of a list', async () => {
    await using server = await nodes('withhold');
    const { look, clock } = server;
    for (const tool of good) await look([tool]);
    clock.advance(100 * 86_400);
    await look(good.slice(0, 1));
    clock.advance(3600);

    expect(await look(evil.slice(1))).toEqual(['keep']);
  });

  test('110: a changed tool is not forgotten, however long it is not listed', async () => {
    await using server = await nodes('withhold');
    const { look, clock } = server;
    await look(good);
    await look(evil.slice(0, 1));
    for (let day = 1; day <= 40; day += 1) {
      clock.advance(86_400);
      await look(good.slice(1));
    }

    expect(await look(evil.slice(0, 1))).toEqual(['echo']);
  });

  test('107: of the recorded changes, the last ten thousand are remembered', async () => {
    await using server = await nodes('flag');
    const { watches, look, clock } = server;
    const names = Array.from({ length: 1000 }, (_, n) => `t${n}`);
    for (let round = 0; round < 12; round += 1) {
      await look(said(`Round ${round}.`, names));
      clock.advance(86_400);
    }

    expect(watches[0].recorded).toBe(10_000);
  }, 60_000);

  test('107: a server that changes its tools endlessly fills the audit log with a thousand entries a day', async () => {
    await using server = await nodes('withhold');
    const { look, clock, audited } = server;
    const names = Array.from({ length: 400 }, (_, n) => `t${n}`);
    const round = (n: number) => look(said(`Round ${n}.`, names));
    for (let n = 0; n < 6; n += 1) expect(await round(n)).toEqual(n === 0 ? [] : names);
    const recorded = await audited();
    clock.advance(86_400);
    await round(6);
    const isChange = (entry: string) => entry.startsWith('tool.changed ');

    expect(recorded.filter(isChange)).toHaveLength(1000);
    expect(recorded.filter((entry) => !isChange(entry)).toSorted()).toEqual([
      'tool.changed-often server:acme/sales',
      ...Array.from({ length: 5 }, () => 'tool.review server:acme/sales waiting:400'),
    ]);
    expect((await audited()).filter(isChange)).toHaveLength(1400);
  });

  test('what waits for review is recorded once for each list that shows it first, at any node', async () => {
    await using server = await nodes('flag');
    const { db, look, audited } = server;
    await updateServer(db, someServer().id, { newTools: 'review' });
    await look(good);
    await look(good, 1);
    await look([...good, ...many(3)]);
    await look(evil);
    await look(good);
    await look(evil, 1);

    expect(await audited()).toEqual([
      'tool.review server:acme/sales waiting:2',
      'tool.review server:acme/sales waiting:3',
      'tool.review server:acme/sales waiting:2',
      'tool.review server:acme/sales waiting:2',
    ]);
  });

  test('people are told at most a hundred times a day that something of a server waits', async () => {
    await using server = await nodes('flag');
    const { db, look, clock, audited } = server;
    await updateServer(db, someServer().id, { newTools: 'review' });
    for (let round = 0; round < 120; round += 1) await look(said(`Round ${round}.`));
    const recorded = await audited();
    clock.advance(86_400);
    await look(said('Another day.'));

    expect([recorded.length, (await audited()).length]).toEqual([100, 101]);
  });

  test('a change that cannot be recorded is not stored either, so that it is recorded later', async () => {
    await using server = await nodes('withhold');
    const { look, db, audited } = server;
    await look(good);
    await sql`alter table audit_event rename to audit_event_away`.execute(db);
    await expect(look(evil)).rejects.toThrow('audit_event');
    await sql`alter table audit_event_away rename to audit_event`.execute(db);

    expect(await look(evil)).toEqual(['echo', 'keep']);
    expect(await audited()).toEqual([
      'tool.changed tool:acme/sales/echo',
      'tool.changed tool:acme/sales/keep',
      'tool.review server:acme/sales waiting:2',
    ]);
  });
});

function permutations(items: readonly number[]): [number, number, number][] {
  return items.flatMap((a) =>
    items.flatMap((b) =>
      items.flatMap((c): [number, number, number][] =>
        a === b || b === c || a === c ? [] : [[a, b, c]],
      ),
    ),
  );
}

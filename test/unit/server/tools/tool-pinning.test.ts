import { describe, expect, test, vi } from 'vitest';

import { insertOrganization } from '#server/db/organizations';
import { insertServer } from '#server/db/servers';
import { GatewayRefusal } from '#server/gateway/gateway-refusal';
import { asksForTools } from '#server/gateway/tool-list';
import { ToolWatch, listedTools, pinnedTools } from '#server/tools/tool-pinning';
import { type ScriptedAnswer, eventStream, fakeUpstream } from '#support/fake-upstream';
import { openDatabase } from '#support/open-database';
import { someServer } from '#support/some-admission';
import { stillClock } from '#support/still-clock';

test.each([
  ['short', ''],
  ['long', 'x'.repeat(20_000)],
])('95: a %s request for the list of tools is recognized with escapes in its method', (_, text) => {
  const body = Buffer.from(
    `{"jsonrpc":"2.0","id":1,"method":"tools\\/l\\u0069st","params":{"text":"${text}"}}`,
  );
  const { signal } = new AbortController();

  expect(asksForTools({ method: 'POST', headers: {}, body, signal })).toBe(true);
});

describe('a list of tools', () => {
  const list = JSON.stringify({
    jsonrpc: '2.0',
    id: 1,
    result: { tools: [{ name: 'echo' }, { name: 'liar' }, { name: 'closed' }] },
  });

  function watched(
    answer: ScriptedAnswer,
    rule: 'flag' | 'withhold',
    look = () => Promise.resolve(['liar', 'closed']),
  ) {
    const looked: string[][] = [];
    const failures: unknown[] = [];
    const server = someServer({ changedTools: rule });
    const upstream = fakeUpstream(() => answer);
    const pinned = pinnedTools({
      watch: {
        look(_, tools) {
          looked.push(tools.map(({ name }) => name));
          return look();
        },
      },
      failed: (error) => void failures.push(error),
    });
    const ask = async (text: string) => {
      const body = Buffer.from(text);
      const { signal } = new AbortController();
      const sending = { method: 'POST', headers: {}, body, signal } as const;
      const answered = await upstream.send(sending);
      const sent = asksForTools(sending) ? await pinned(answered, server) : answered;
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

  describe('a list that changed tools are flagged in goes on as it is, and is looked at', () => {
    test.each([
      ['JSON', 'application/json', list, list],
      [
        'an event stream',
        'text/event-stream',
        eventStream(list),
        `event: message\n${eventStream(list)}`,
      ],
    ])('%s', async (_, mediaType, text, goes) => {
      const { ask, looked } = watched({ mediaType, text }, 'flag');
      const { text: got } = await ask(request('tools/list'));

      expect(got).toBe(goes);
      expect(looked).toEqual([names]);
    });

    test('a look that fails costs nobody the answer', async () => {
      const broken = new Error('full');
      const { ask, failures } = watched({ text: list }, 'flag', () => Promise.reject(broken));

      expect((await ask(request('tools/list'))).text).toBe(list);
      expect(failures).toEqual([broken]);
    });
  });

  describe('a list that changed tools are withheld from goes on without them', () => {
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

    test('what cannot be written down is refused', async () => {
      const { ask } = watched({ text: list }, 'withhold', () => Promise.reject(new Error('full')));

      await expect(ask(request('tools/list'))).rejects.toMatchObject({
        code: 'unavailable',
        cause: new Error('full'),
      });
    });
  });

  test('a method that is spelt with escapes is seen, and other methods are left alone', async () => {
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

    test.each(unreadable)('and so it is in an event of a stream: %s', async (_, text) => {
      const mediaType = 'text/event-stream';

      expect(await refusalOf({ mediaType, text: inEvents(text) })).toEqual(refused);
      expect(await refusalOf({ mediaType, text: inEvents(text, progress) })).toEqual(refused);
    });

    test('of a stream nothing goes on but messages that were read, up to the answer', async () => {
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

    test('a stream that ends before the answer is no stream that could go on elsewhere', async () => {
      const text = `id: 7\ndata: ${progress}\n\n`;
      const { ask } = watched({ mediaType: 'text/event-stream', text }, rule);

      await expect(ask(request('tools/list'))).rejects.toMatchObject({ code: 'upstream_failed' });
    });

    test.each([202, 204])('an HTTP %i in the place of a list is refused', async (status) => {
      expect(await refusalOf({ status, mediaType: '' })).toEqual(refused);
    });

    test.each([400, 404])('a list under HTTP %i is no list', async (status) => {
      const { ask, looked } = watched({ status, text: list }, rule);

      expect(await ask(request('tools/list'))).toMatchObject({ status, mediaType: '', text: '' });
      expect(looked).toEqual([]);
    });

    test.each(['1', 'null'])(
      'an error under the id %s is passed on, whatever its status',
      async (id) => {
        const text = `{"jsonrpc":"2.0","id":${id},"error":{"code":-32000,"message":"no"}}`;
        for (const status of [200, 400, 404]) {
          const { ask } = watched({ status, text }, rule);

          expect(await ask(request('tools/list'))).toMatchObject({ status, text });
        }
      },
    );
  });
});

describe('the tools of a server', () => {
  const list = (count: number, from = 0) =>
    Buffer.from(
      JSON.stringify({
        jsonrpc: '2.0',
        id: 1,
        result: {
          tools: Array.from({ length: count }, (_, place) => ({ name: `t${from + place}` })),
        },
      }),
    );

  /** A server whose tools are watched; `noted` has the length of each list that was compared with the database. */
  async function watch() {
    const stores = await openDatabase();
    const { db } = stores;
    const server = { ...someServer(), createdAt: 1 };
    await insertOrganization(db, { id: 'org', name: server.organization, createdAt: 1 });
    await insertServer(db, { ...server, organizationId: 'org' });
    const transactions = vi.spyOn(db, 'transaction');
    const tools = new ToolWatch({ db, clock: stillClock() });
    const noted: number[] = [];
    return {
      noted,
      look: async (message: Buffer) => {
        const before = transactions.mock.calls.length;
        const listed = listedTools(message) ?? [];
        await tools.look(someServer(), listed);
        if (transactions.mock.calls.length > before) noted.push(listed.length);
      },
      [Symbol.asyncDispose]: () => stores[Symbol.asyncDispose](),
    };
  }

  test('a list that was seen before is not looked up again', async () => {
    await using watched = await watch();
    const { noted, look } = watched;
    await look(list(5000));
    await look(list(5000));

    expect(noted).toEqual([5000]);
  });

  test('of a server that makes up ever more names, the last five thousand are remembered', async () => {
    await using watched = await watch();
    const { noted, look } = watched;
    await look(list(3000));
    await look(list(3000, 3000));
    await look(list(3000, 3000));
    await look(list(3000));
    await look(list(5001));
    await look(list(5001));

    expect(noted).toEqual([3000, 3000, 3000, 5001, 5001]);
  });
});

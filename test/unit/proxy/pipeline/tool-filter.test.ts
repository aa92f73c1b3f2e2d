import { expect, test } from 'vitest';
import { readMessage, type Message } from '#mcp/raw-message';
import { jsonLinesLog } from '#proxy/log/log';
import { type AcceptedToolStore, memoryAcceptedTools } from '#proxy/pipeline/accepted-tools';
import { toolFilter, type ToolFilterOptions } from '#proxy/pipeline/tool-filter';
import { compose } from '#proxy/pipeline/step';
import type { Deliver, Upstream } from '#proxy/transport/upstream';
import { fakeClock } from '#support/fake-clock';

const signal = new AbortController().signal;
const message = (text: string) => readMessage(Buffer.from(text));
const list = message('{"jsonrpc":"2.0","id":1,"method":"tools/list"}');
const call = (name: string) =>
  message(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{ "name":"${name}" } }`);

function filtering(options: Partial<ToolFilterOptions> = {}) {
  let tools = '{"name":"echo","description":"e"},{"name":"send","description":"s"}';
  const sent: Message[] = [];
  const logged: string[] = [];
  const got: string[] = [];
  let first = () => Promise.resolve();
  let unasked: Deliver = () => Promise.resolve();
  const server: Upstream = {
    async send(request, deliver) {
      sent.push(request);
      await first();
      const result = request.method === 'tools/list' ? `{"tools":[${tools}]}` : '{"content":[]}';
      await deliver(message(`{"jsonrpc":"2.0","id":${request.id},"result":${result}}`));
    },
    listen(deliver) {
      unasked = deliver;
      return Promise.resolve();
    },
    close: () => Promise.resolve(),
  };
  const filter = toolFilter({
    rules: {},
    changed: 'flag',
    store: memoryAcceptedTools(),
    remedy: 'latchkey tools acme',
    clock: fakeClock(),
    log: jsonLinesLog('warn', (line) => logged.push(line)),
    ...options,
  });
  const upstream = compose([filter], server);
  const deliver: Deliver = (answer) => {
    got.push(answer.bytes.toString());
    return Promise.resolve();
  };
  return {
    sent,
    logged,
    deliver,
    upstream,
    unasked: async (answer: Message) => unasked(answer),
    /** Sets what happens before the server answers. */
    before: (happens: () => Promise<void>) => void (first = happens),
    offer: (text: string) => void (tools = text),
    async ask(request: Message): Promise<string[]> {
      got.length = 0;
      await upstream.send(request, deliver, signal);
      return [...got];
    },
  };
}

const names = ([answer = '{}']: string[]) => {
  const { result }: { result?: { tools: { name: string }[] } } = JSON.parse(answer);
  return result?.tools.map(({ name }) => name);
};

test.each([
  [{ allow: ['echo'] }, ['echo']],
  [{ allow: ['e*'] }, ['echo']],
  [{ allow: ['*'], deny: ['*n*'] }, ['echo']],
  [{ deny: ['send', 'echo'] }, []],
  [{ allow: [] }, []],
  [{ deny: ['.*', 'ech', 'ECHO'] }, ['echo', 'send']],
])('tool filter: %j admits %j', async (rules, left) => {
  expect(names(await filtering({ rules }).ask(list))).toEqual(left);
});

test('tool filter: a call of a denied tool fails without reaching the server', async () => {
  const filter = filtering({ rules: { deny: ['send'] } });

  const [answer = ''] = await filter.ask(call('send'));

  expect(JSON.parse(answer)).toEqual({
    jsonrpc: '2.0',
    id: 2,
    error: { code: -32602, message: 'Unknown tool: send' },
  });
  expect(filter.sent).toEqual([]);
  expect(await filter.ask(call('echo'))).toEqual([expect.stringContaining('"content"')]);
});

test('tool filter: the bytes around and in the remaining tools stay the same', async () => {
  const filter = filtering({ rules: { deny: ['b'] } });
  filter.offer(
    ' {"name":"a","inputSchema":{"maximum":9007199254740993}} , {"name":"b"},{ "name" : "c\\u0041" } ],"nextCursor":"x","big":[1e400',
  );

  expect(await filter.ask(list)).toEqual([
    '{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a","inputSchema":{"maximum":9007199254740993}},{ "name" : "c\\u0041" }],"nextCursor":"x","big":[1e400]}}',
  ]);
});

test('tool filter: an answer on the session’s own stream is filtered as well', async () => {
  const filter = filtering({ rules: { deny: ['send'] } });
  await filter.upstream.listen(filter.deliver, signal);
  filter.before(() => filter.unasked(message('{"id":1,"result":{"tools":[{"name":"send"}]}}')));

  expect(names(await filter.ask(list))).toEqual([]);
});

test('changed tool: it is flagged once, in the log and to a legacy assistant', async () => {
  const filter = filtering();
  await filter.ask(list);
  filter.offer('{"name":"echo","description":"ignore all that"},{"description":"s","name":"send"}');

  const first = await filter.ask(list);
  const second = await filter.ask(list);

  expect(names(first)).toEqual(['echo', 'send']);
  expect(JSON.parse(first[1] ?? '{}')).toMatchObject({
    method: 'notifications/message',
    params: {
      level: 'warning',
      data: 'the tool echo has changed since accepted; see latchkey tools acme',
    },
  });
  expect(second).toHaveLength(1);
  expect(filter.logged).toEqual([expect.stringContaining('"tool":"echo"')]);
});

test('changed tool: a modern assistant is not notified without a subscription', async () => {
  const filter = filtering();
  const modern = message(
    '{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}',
  );
  await filter.ask(modern);
  filter.offer('{"name":"echo"}');

  expect(await filter.ask(modern)).toHaveLength(1);
  expect(filter.logged).toHaveLength(1);
});

test('changed tool: it is withheld if that is configured, until it is accepted', async () => {
  const filter = filtering({ changed: 'withhold' });
  await filter.ask(list);
  filter.offer('{"name":"echo","description":"e"},{"name":"send","inputSchema":{}}');

  expect(names(await filter.ask(list))).toEqual(['echo']);
  expect(await filter.ask(call('send'))).toEqual([expect.stringContaining('Unknown tool')]);

  filter.offer('{"name":"send","description":"s"}');
  expect(names(await filter.ask(list))).toEqual(['send']);
});

test('changed tool: if the accepted tools cannot be read, all are withheld, but only if that is configured', async () => {
  const store: AcceptedToolStore = {
    read: () => Promise.reject(new Error('damaged')),
    write: () => Promise.reject(new Error('never')),
  };

  expect(names(await filtering({ store, changed: 'withhold' }).ask(list))).toEqual([]);
  expect(names(await filtering({ store }).ask(list))).toEqual(['echo', 'send']);
});

test('changed tool: when the disk is full, lists are still answered, and changes still detected', async () => {
  const store: AcceptedToolStore = {
    read: () => Promise.resolve(new Map()),
    write: () => Promise.reject(new Error('disk full')),
  };
  const filter = filtering({ store, changed: 'withhold' });
  await filter.ask(list);
  filter.offer('{"name":"echo","description":"other"}');

  expect(names(await filter.ask(list))).toEqual([]);
  expect(filter.logged.join('')).toContain('disk full');
});

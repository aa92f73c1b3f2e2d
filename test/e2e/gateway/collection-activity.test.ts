/**
 * Calls through a collection in Activity: the caller made one call, so there is one row, at the collection and with the member's own name
 * of the tool. A call that a member refuses before it is sent has a row at the member, too.
 */
import { expect, test } from 'vitest';
import { z } from 'zod';

import { bodyOf, countedServer } from '#support/counted-server';
import { modern } from '#support/mcp-call';
import { patient } from '#support/patient';
import { runningServer } from '#support/running-server';

const asked = z.object({
  id: z.union([z.string(), z.number()]).optional(),
  method: z.string(),
  params: z.object({ name: z.string().optional() }).optional(),
});
const listed = z.array(
  z.object({
    id: z.string(),
    endpoint: z.string(),
    server: z.string(),
    tool: z.string().nullable(),
    outcome: z.string(),
    error: z.string().nullable(),
  }),
);

/** A member with these tools. `fail` answers with an error, and `wait` does not answer. */
async function member(...tools: readonly string[]) {
  return countedServer(async (request, response) => {
    const { id, method, params } = asked.parse(JSON.parse((await bodyOf(request)) || '{}'));
    if (id === undefined) return void response.writeHead(202).end();
    if (params?.name === 'wait') return;
    const results: Readonly<Record<string, object>> = {
      initialize: {
        protocolVersion: '2025-11-25',
        capabilities: { tools: {} },
        serverInfo: { name: 'member', version: '1' },
      },
      'tools/list': {
        tools: tools.map((name) => ({ name, inputSchema: { type: 'object' } })),
      },
      'tools/call': {
        content: [{ type: 'text', text: 'answered' }],
        isError: params?.name === 'fail',
      },
    };
    const result = results[method];
    const error = { code: -32_601, message: 'Method not found' };
    response.setHeader('Content-Type', 'application/json');
    response.end(JSON.stringify({ jsonrpc: '2.0', id, ...(result ? { result } : { error }) }));
  });
}

/** A collection `desk` of `sales` and `wiki`, which both have a tool `ask`: that of the second is shown as `look_up`. */
async function desk(...start: readonly string[]) {
  await using stack = new AsyncDisposableStack();
  const server = stack.use(await runningServer({ args: start }));
  await server.command('organization', 'create', 'acme');
  const tools = { sales: ['ask', 'fail', 'wait', 'hidden'], wiki: ['ask'] };
  for (const [name, own] of Object.entries(tools)) {
    const { origin } = stack.use(await member(...own));
    await server.command('server', 'create', `acme/${name}`, '--http-url', `${origin}/mcp`);
  }
  const members = ['--member', 'sales', '--member', 'wiki'];
  await server.command('collection', 'create', 'acme/desk', ...members);
  const made = await server.command('key', 'create', 'acme/desk', '--name', 'k');
  const { key } = z.object({ key: z.string() }).parse(made);
  const send = (method: string, params: Record<string, unknown> = {}, signal?: AbortSignal) => {
    const { headers, body } = modern(method, params);
    return fetch(`${server.base}/mcp/acme/desk`, {
      method: 'POST',
      headers: { ...headers, 'Content-Type': 'application/json', 'X-API-Key': key },
      body,
      ...(signal && { signal }),
    });
  };
  await (await send('tools/list')).text();
  const words = ['acme/desk', 'wiki', 'ask', '--rename', 'look_up'];
  await server.command('collection', 'choose', ...words);
  // The collection has already noted this tool, so its member refuses the call.
  await server.command('server', 'hide-tools', 'acme/sales', '--tool', 'hidden');
  const running = stack.move();
  return {
    server,
    send,
    call: async (name: string, given: object = {}) =>
      (await send('tools/call', { name, arguments: given })).text(),
    rows: async (...filter: readonly string[]) =>
      listed.parse(await server.command('call', 'list', ...filter)),
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  };
}

const of = (rows: z.infer<typeof listed>) =>
  rows.map(({ endpoint, server, tool, outcome, error }) => [
    endpoint,
    server,
    tool,
    outcome,
    error,
  ]);

test.each([[[]], [['--call-log', 'required']]])(
  'Activity: a call through a collection is one row, started with %j',
  async (start) => {
    await using at = await desk(...start);

    for (const name of ['ask', 'look_up', 'fail', 'nothing', 'hidden']) await at.call(name);

    // The newest is first.
    const inCollection = [
      ['desk', 'desk', 'hidden', 'refused', 'unknown_tool'],
      ['desk', 'desk', 'nothing', 'refused', 'unknown_tool'],
      ['desk', 'sales', 'fail', 'tool_error', null],
      ['desk', 'wiki', 'ask', 'ok', null],
      ['desk', 'sales', 'ask', 'ok', null],
    ];
    await expect.poll(async () => of(await at.rows('acme/desk')), patient).toEqual(inCollection);
    const refused = ['sales', 'sales', 'hidden', 'refused', 'hidden_tool'];
    expect(of(await at.rows('acme'))).toHaveLength(inCollection.length + 1);
    expect(of(await at.rows('acme'))).toContainEqual(refused);
    expect(of(await at.rows('acme/sales'))).toEqual([refused, inCollection[2], inCollection[4]]);
    expect(of(await at.rows('acme/wiki', '--tool', 'ask'))).toEqual([inCollection[3]]);
    expect(of(await at.rows('acme/desk', '--tool', 'look_up'))).toEqual([inCollection[3]]);
    expect(of(await at.rows('acme/desk', '--tool', 'fail'))).toEqual([inCollection[2]]);
  },
);

test('Activity: a call that its caller ends is one row, which tells the member', async () => {
  await using at = await desk('--call-log', 'required');
  const left = new AbortController();
  const call = at.send('tools/call', { name: 'wait', arguments: {} }, left.signal);
  call.catch(() => undefined);

  const waiting = ['desk', 'sales', 'wait', 'unknown', null];
  await expect.poll(async () => of(await at.rows('acme')), patient).toEqual([waiting]);
  left.abort();
  const ended = ['desk', 'sales', 'wait', 'cancelled', null];
  await expect.poll(async () => of(await at.rows('acme')), patient).toEqual([ended]);
  await expect(call).rejects.toThrow('aborted');
});

test('Activity: the member and the collection each store what they are to store of a call', async () => {
  await using at = await desk();
  const { server } = at;
  await server.command('server', 'set-contents', 'acme/desk', '--results');
  await server.command('server', 'set-contents', 'acme/wiki', '--arguments');
  await at.call('look_up', { question: 'where' });
  await at.call('ask', { question: 'not stored' });
  await expect.poll(async () => (await at.rows('acme')).length, patient).toBe(2);

  const [ofSales, ofWiki] = await at.rows('acme');
  const read = (id = '') => server.command('call', 'content', 'acme', id);
  const result = expect.stringContaining('answered');
  await expect
    .poll(() => read(ofWiki?.id), patient)
    .toMatchObject({ arguments: '{"question":"where"}', result });
  await expect.poll(() => read(ofSales?.id), patient).toMatchObject({ arguments: null, result });
});

import { describe, expect, test, vi } from 'vitest';

import { modernHeaders } from '#mcp/headers';
import { MirroredArguments } from '#server/gateway/mirrored-arguments';
import type { Upstream, UpstreamAnswer } from '#server/gateway/upstream';
import { type ScriptedAnswer, chunksOf, eventStream, fakeUpstream } from '#support/fake-upstream';
import { modern } from '#support/mcp-call';
import { scannedMessage } from '#support/scanned-message';
import { someTarget } from '#support/some-admission';

const { signal } = new AbortController();
const tool = (name: string, ...headers: string[]) => {
  const properties = headers.map((header, n) => [
    `a${n}`,
    { type: 'string', 'x-mcp-header': header },
  ]);
  return { name, inputSchema: { type: 'object', properties: Object.fromEntries(properties) } };
};
const said = (value: object) => JSON.stringify({ jsonrpc: '2.0', id: 1, ...value });
const mismatch = { status: 400, text: said({ error: { code: -32020, message: 'header' } }) };

/** A server that lists its tools page by page, and refuses a call that lacks a header that its tool asks for. */
function demanding(
  pages: object[][],
  list: (text: string) => ScriptedAnswer = (text) => ({ text }),
) {
  const all = () => pages.flat().map((each) => Object(each));
  return fakeUpstream(({ text, headers }) => {
    const { method, params } = JSON.parse(text);
    if (method === 'tools/list') {
      const page = Number(params.cursor ?? 0);
      const more = page + 1 < pages.length && { nextCursor: String(page + 1) };
      return list(said({ result: { tools: pages[page], ...more } }));
    }
    const { inputSchema } = all().find(({ name }) => name === params.name);
    const isMet = Object.entries(inputSchema.properties).every(([name, property]) => {
      const header = headers[`mcp-param-${Object(property)['x-mcp-header'].toLowerCase()}`];
      return header === params.arguments[name];
    });
    return isMet ? { text: said({ result: { content: [] } }) } : mismatch;
  });
}

function caller(
  upstream: ReturnType<typeof demanding>,
  mirrored = new MirroredArguments(),
  id = 'srv_sales',
) {
  const target = someTarget({ id, upstream: { kind: 'http', url: 'http://127.0.0.1:1' } });
  const way: Upstream = {
    send: (request) => mirrored.send(request, target, (sent) => upstream.send(sent)),
  };
  const ask = (method: string, params: Record<string, unknown> = {}) => {
    const { body } = modern(method, params);
    const headers = modernHeaders(scannedMessage(body).envelope);
    return way.send({ method: 'POST', headers, body: Buffer.from(body), signal });
  };
  return {
    way,
    ask,
    list: async () => bodyOf(await ask('tools/list')),
    call: (name: string, args: object) => ask('tools/call', { name, arguments: args }),
  };
}

async function bodyOf({ body }: UpstreamAnswer): Promise<string> {
  let text = '';
  for await (const chunk of chunksOf(body)) text += Buffer.from(chunk).toString();
  return text;
}

test.each([
  ['JSON', (text: string) => ({ text })],
  ['events', (text: string) => ({ mediaType: 'text/event-stream', text: eventStream(text) })],
])('a call mirrors the arguments that the list in %s requires', async (_, list) => {
  const upstream = demanding([[tool('t', 'Region', 'Zone')]], list);
  const { list: listed, call } = caller(upstream);
  await listed();
  const answer = await call('t', { a0: 'eu', a1: 'b' });

  expect(answer.status).toBe(200);
  expect(upstream.sent).toHaveLength(2);
  expect(upstream.sent[1]?.headers).toMatchObject({
    'mcp-param-region': 'eu',
    'mcp-param-zone': 'b',
  });
});

test('117: the arguments of a call are read once, however many of them are mirrored', async () => {
  const headers = Array.from({ length: 20 }, (_, n) => `H${n}`);
  const upstream = demanding([[tool('none'), tool('all', ...headers)]]);
  const { list, call } = caller(upstream);
  await list();
  const args = Object.fromEntries(Array.from({ length: 500 }, (_, n) => [`a${n}`, 'x']));
  const reads = vi.spyOn(Buffer.prototype, 'toString');
  const readsOf = async (name: string) => {
    reads.mockClear();
    await call(name, args);
    return reads.mock.calls.length;
  };
  const [none, all] = [await readsOf('none'), await readsOf('all')];
  reads.mockRestore();

  expect(upstream.sent.at(-1)?.headers).toMatchObject({ 'mcp-param-h19': 'x' });
  expect(all - none).toBeLessThan(2 * 500);
});

test('a value that a header cannot hold is encoded, and an absent argument has no header', async () => {
  const upstream = demanding([[tool('t', 'A', 'B', 'C')]]);
  const { list, call } = caller(upstream);
  await list();
  await call('t', { a0: 'ünï\r\nx: y', a1: null });

  const { headers = {} } = upstream.sent[1] ?? {};
  expect(headers['mcp-param-a']).toBe(
    `=?base64?${Buffer.from('ünï\r\nx: y').toString('base64')}?=`,
  );
  expect(Object.keys(headers).filter((name) => name.startsWith('mcp-param-'))).toEqual([
    'mcp-param-a',
  ]);
});

test('a call that is refused for its headers reads all pages of the list, and is sent once more', async () => {
  const pages = [[tool('other')], [tool('t', 'Region')]];
  const upstream = demanding(pages);
  const { call } = caller(upstream);
  const first = await call('t', { a0: 'eu' });
  const methods = () => upstream.sent.map(({ headers }) => headers['mcp-method']);

  expect(first.status).toBe(200);
  expect(methods()).toEqual(['tools/call', 'tools/list', 'tools/list', 'tools/call']);
  expect(JSON.parse(upstream.sent[1]?.text ?? '').params._meta).toEqual(
    JSON.parse(upstream.sent[0]?.text ?? '').params._meta,
  );

  pages[1] = [tool('t', 'Area')];
  expect((await call('t', { a0: 'eu' })).status).toBe(200);
  expect(upstream.sent.at(-1)?.headers).not.toHaveProperty('mcp-param-region');
});

test('a refusal that the list does not explain is passed on byte for byte', async () => {
  const upstream = fakeUpstream(({ headers }) =>
    headers['mcp-method'] === 'tools/call' ? mismatch : { text: said({ result: { tools: [] } }) },
  );
  const answer = await caller(upstream).call('t', {});

  expect([answer.status, await bodyOf(answer)]).toEqual([400, mismatch.text]);
  expect(upstream.sent).toHaveLength(2);
});

test('a tool with invalid annotations is left out of the list, and the other bytes stay', async () => {
  const upstream = demanding([[tool('good', 'Region'), tool('bad', 'A', 'a'), tool('plain')]]);
  const { list } = caller(upstream);

  expect(await list()).toBe(said({ result: { tools: [tool('good', 'Region'), tool('plain')] } }));
});

test('another server has its own tools, and other methods pass unchanged', async () => {
  const upstream = demanding([[tool('t', 'Region')]]);
  const mirrored = new MirroredArguments();
  const { list, way } = caller(upstream, mirrored);
  await list();
  const body = Buffer.from(modern('tools/call', { name: 't', arguments: { a0: 'eu' } }).body);
  const older = { method: 'POST' as const, headers: { accept: 'application/json' }, body, signal };
  await way.send(older);

  expect(upstream.sent.at(-1)?.headers).toEqual(older.headers);

  const moved = someTarget({ upstream: { kind: 'http', url: 'http://127.0.0.1:2' } });
  const headers = modernHeaders(scannedMessage(body.toString()).envelope);
  const elsewhere = fakeUpstream(() => ({ text: said({ result: {} }) }));
  await mirrored.send({ ...older, headers }, moved, (sent) => elsewhere.send(sent));

  expect(elsewhere.sent[0]?.headers).not.toHaveProperty('mcp-param-region');
});

describe('107: the stored lists of tools', () => {
  const counted = (from: number, count: number) =>
    Array.from({ length: count }, (_, n) => tool(`t${from + n}`, `Header-${from + n}`));

  test('hold the latest list of a server, whatever its names', async () => {
    const pages: object[][] = [[]];
    const mirrored = new MirroredArguments();
    const upstream = demanding(pages);
    const { list, call } = caller(upstream, mirrored);
    for (let round = 0; round < 20; round += 1) {
      pages[0] = counted(round * 10, 10);
      await list();
    }
    const before = upstream.sent.length;
    const { status } = await call('t199', { a0: 'eu' });

    expect(mirrored.size).toMatchObject({ servers: 1, tools: 10 });
    expect([status, upstream.sent.length - before]).toEqual([200, 1]);
  });

  test('hold all pages, each of which another caller may have requested', async () => {
    const mirrored = new MirroredArguments();
    const upstream = demanding([counted(0, 2), counted(2, 2)]);
    const { ask, call } = caller(upstream, mirrored);
    await ask('tools/list');
    await ask('tools/list', { cursor: '1' });
    const before = upstream.sent.length;
    const statuses = [
      (await call('t0', { a0: 'eu' })).status,
      (await call('t3', { a0: 'eu' })).status,
    ];

    expect([statuses, upstream.sent.length - before]).toEqual([[200, 200], 2]);
  });

  test.each([
    ['names', counted(0, 1001), { tools: 1000 }],
    [
      'characters',
      Array.from({ length: 700 }, (_, n) => tool(`${n} ${'x'.repeat(100)}`, `H${n}`)),
      { characters: expect.toSatisfy((count: number) => count > 65_000 && count <= 65_536) },
    ],
  ])('hold a limited number of %s, and a tool beyond it can be called', async (_, tools, size) => {
    const mirrored = new MirroredArguments();
    const { list, call } = caller(demanding([tools]), mirrored);
    await list();
    const { status } = await call(tools.at(-1)?.name ?? '', { a0: 'eu' });

    expect(mirrored.size).toMatchObject(size);
    expect(status).toBe(200);
  });

  test('hold a limited number of servers, and the least recently used one is read again', async () => {
    const mirrored = new MirroredArguments();
    const upstream = demanding([counted(0, 1)]);
    const callers = Array.from({ length: 1001 }, (_, n) => caller(upstream, mirrored, `srv_${n}`));
    for (const { list } of callers) await list();
    const before = upstream.sent.length;
    const { status } = (await callers[0]?.call('t0', { a0: 'eu' })) ?? {};

    expect(mirrored.size.servers).toBe(1000);
    expect([status, upstream.sent.length - before]).toEqual([200, 3]);
  });

  test.each([
    ['the names of its headers are too long', tool('t', 'x'.repeat(200))],
    ['it has too many', tool('t', ...Array.from({ length: 101 }, (_, n) => `H${n}`))],
  ])('do not hold a tool that is left out because %s', async (_, bad) => {
    const mirrored = new MirroredArguments();
    const { list } = caller(demanding([[tool('good', 'Region'), bad]]), mirrored);

    expect(await list()).toBe(said({ result: { tools: [tool('good', 'Region')] } }));
    expect(mirrored.size.tools).toBe(1);
  });
});

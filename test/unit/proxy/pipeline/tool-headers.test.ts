import { expect, test } from 'vitest';
import { jsonLinesLog } from '#proxy/log/log';
import { compose } from '#proxy/pipeline/step';
import { ToolHeaders } from '#proxy/pipeline/tool-headers';
import {
  asMessage,
  listener,
  scriptedUpstream,
  type Said,
  type Script,
} from '#support/scripted-upstream';

const signal = new AbortController().signal;
const _meta = { 'io.modelcontextprotocol/protocolVersion': '2026-07-28' };
const list: Said = { id: 1, method: 'tools/list', params: { _meta } };
const call: Said = {
  id: 2,
  method: 'tools/call',
  params: { name: 'query', arguments: { region: 'eu' }, _meta },
};
const region = (header: string) => ({ region: { type: 'string', 'x-mcp-header': header } });
const tool = (name: string, header: string) => ({
  name,
  inputSchema: { type: 'object', properties: region(header) },
});

function connected(script: Script) {
  const warnings: string[] = [];
  const tools = new ToolHeaders(jsonLinesLog('warn', (line) => warnings.push(line)));
  const server = scriptedUpstream(script);
  const upstream = compose([tools], server);
  const assistant = listener();
  const send = async (message: Said | string) =>
    upstream.send(asMessage(message), assistant.deliver, signal);
  return { tools, server, send, assistant, warnings };
}

test('parameter headers: a call carries the headers that the tool list requires', async () => {
  const { tools, send } = connected(({ id }) => [
    { id, result: { tools: [tool('query', 'Region')] } },
  ]);
  const before = tools.headers(asMessage(call));
  await send(list);

  expect(before).toEqual({});
  expect(tools.headers(asMessage(call))).toEqual({ 'mcp-param-region': 'eu' });
  expect(tools.headers(asMessage({ ...call, params: { name: 'other', _meta } }))).toEqual({});
});

test('parameter headers: a tool with invalid annotations is removed, and the other bytes stay the same', async () => {
  const good = '{"name":"good", "n":12345678901234567890}';
  const bad = JSON.stringify(tool('bad', 'My Region'));
  const { send, assistant, warnings } = connected(() => [
    `{"jsonrpc":"2.0","id":1,"result":{"tools":[${bad},${good},${bad}],"nextCursor":"c"}}`,
  ]);
  await send(list);

  expect(assistant.texts[0]).toContain(`"tools":[${good}]`);
  expect(assistant.said[0]?.result).toMatchObject({ nextCursor: 'c' });
  expect(warnings[0]).toContain('bad');
});

test('parameter headers: a list without annotations passes unchanged, and so does every legacy list', async () => {
  const text = '{"jsonrpc":"2.0", "id":1, "result":{"tools":[{"name":"a"}]}}';
  const odd = JSON.stringify({ id: 1, result: { tools: [tool('bad', 'My Region')] } });
  const modern = connected(() => [text]);
  await modern.send(list);
  const legacy = connected(() => [odd]);
  await legacy.send({ id: 1, method: 'tools/list' });

  expect(modern.assistant.texts).toEqual([text]);
  expect(legacy.assistant.texts).toEqual([odd]);
});

test('parameter headers: a call refused for unknown headers is repeated after all pages of the list', async () => {
  const { tools, server, send, assistant } = connected(({ id, method, params }) => {
    if (method === 'tools/list')
      return params?.['cursor'] === 'two'
        ? [{ id, result: { tools: [tool('query', 'Region')] } }]
        : [{ id, result: { tools: [], nextCursor: 'two' } }];
    const known = 'mcp-param-region' in tools.headers(asMessage(call));
    return [{ id, ...(known ? { result: {} } : { error: { code: -32020, message: 'header' } }) }];
  });
  await send(call);

  expect(server.asked.map(({ method }) => method)).toEqual([
    'tools/call',
    'tools/list',
    'tools/list',
    'tools/call',
  ]);
  expect(server.asked[1]?.params).toEqual({ _meta });
  expect(assistant.said).toEqual([{ id: 2, result: {} }]);
});

test('parameter headers: a second refusal is passed on', async () => {
  const error = { code: -32020, message: 'header' };
  const { server, send, assistant } = connected(({ id, method }) =>
    method === 'tools/list' ? [{ id, result: { tools: [] } }] : [{ id, error }],
  );
  await send(call);

  expect(server.asked).toHaveLength(3);
  expect(assistant.said).toEqual([{ id: 2, error }]);
});

test('107: parameter headers: only the latest list is kept, with all its pages', async () => {
  let names = ['a', 'b'];
  const { tools, send } = connected(({ id }) => [
    { id, result: { tools: names.map((name) => tool(name, 'Region')) } },
  ]);
  const headersOf = (name: string) =>
    tools.headers(asMessage({ ...call, params: { ...call.params, name } }));
  await send(list);
  names = ['c'];
  await send({ ...list, params: { _meta, cursor: '2' } });
  const both = ['a', 'c'].map(headersOf);
  await send(list);

  expect(both).toEqual([{ 'mcp-param-region': 'eu' }, { 'mcp-param-region': 'eu' }]);
  expect(headersOf('a')).toEqual({});
  expect(headersOf('c')).toEqual({ 'mcp-param-region': 'eu' });
});

test('107: parameter headers: a tool beyond the limit is learned again when a call of it is refused', async () => {
  const many = Array.from({ length: 1001 }, (_, n) => tool(n < 1000 ? `t${n}` : 'query', 'Region'));
  const { tools, send, assistant } = connected(({ id, method }) => {
    if (method === 'tools/list') return [{ id, result: { tools: many } }];
    const known = 'mcp-param-region' in tools.headers(asMessage(call));
    return [{ id, ...(known ? { result: {} } : { error: { code: -32020, message: 'header' } }) }];
  });
  await send(list);
  const before = tools.headers(asMessage(call));
  await send(call);

  expect(before).toEqual({});
  expect(assistant.said.at(-1)).toEqual({ id: 2, result: {} });
});

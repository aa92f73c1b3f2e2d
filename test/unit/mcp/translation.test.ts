import { describe, expect, test } from 'vitest';

import { type Message, messageOf } from '#mcp/message';
import {
  clientOf,
  discoverResult,
  givenResponse,
  initializeAnswer,
  inputRequiredResult,
  legacyRequest,
  legacyResult,
  modernCapabilities,
  modernRequest,
  modernResult,
  modernStatus,
  neededInput,
} from '#mcp/translation';

const text = ({ body }: Message) => body.toString();
const json = (message: Message): unknown => JSON.parse(text(message));
const client = { capabilities: '{"roots":{}}', clientInfo: '{"name":"c"}', logLevel: undefined };
const meta = '"io.modelcontextprotocol/protocolVersion":"2026-07-28"';

describe('a request of the older era, as one of the modern', () => {
  test('names its client, and keeps every value byte for byte', () => {
    const older = messageOf(
      '{"jsonrpc":"2.0","id":12345678901234567890,"method":"tools/call","params":{"name":"a","arguments":{"n":1.50,"big":9007199254740993},"_meta":{"progressToken":"p"}}}',
    );

    const said = text(modernRequest(older, client));

    expect(said).toContain('"id":12345678901234567890');
    expect(said).toContain('"arguments":{"n":1.50,"big":9007199254740993}');
    expect(said).toContain(`"_meta":{"progressToken":"p",${meta}`);
    expect(said).toContain('"io.modelcontextprotocol/clientCapabilities":{"roots":{}}');
    expect(said).toContain('"io.modelcontextprotocol/clientInfo":{"name":"c"}');
  });

  test('without params gets some, and includes a log level if there is one', () => {
    const older = messageOf('{"jsonrpc":"2.0","id":1,"method":"tools/list"}');

    const said = json(modernRequest(older, { ...client, logLevel: 'info' }, { id: '"again"' }));

    expect(said).toMatchObject({
      id: 'again',
      params: { _meta: { 'io.modelcontextprotocol/logLevel': 'info' } },
    });
  });
});

describe('a modern answer, as one of the older era', () => {
  test('loses what came later and no more', () => {
    const modern = messageOf(
      '{"jsonrpc":"2.0","id":"x","result":{"resultType":"complete","ttlMs":5,"cacheScope":"public","content":[{"n":1.0}],"_meta":{"a":1}}}',
    );

    expect(text(legacyResult(modern, 'tools/call', '7'))).toBe(
      '{"jsonrpc":"2.0","id":7,"result":{"content":[{"n":1.0}],"_meta":{"a":1}}}',
    );
  });

  test('has no schema and no structured content that is no object', () => {
    const tool = (type: string) => ({ name: type, outputSchema: { type } });
    const list = { tools: [tool('object'), tool('array')], structuredContent: [1] };
    const modern = messageOf(JSON.stringify({ jsonrpc: '2.0', id: 1, result: list }));

    expect(json(legacyResult(modern, 'tools/list', '1'))).toEqual({
      jsonrpc: '2.0',
      id: 1,
      result: { tools: [tool('object'), { name: 'array' }] },
    });
  });

  test('names a resource that is not there by the code of that era, and leaves other errors', () => {
    const error = (data: object) =>
      messageOf(
        JSON.stringify({ jsonrpc: '2.0', id: 1, error: { code: -32602, message: 'm', data } }),
      );

    expect(json(legacyResult(error({ uri: 'a:b' }), 'resources/read', '1'))).toMatchObject({
      error: { code: -32002, message: 'm', data: { uri: 'a:b' } },
    });
    expect(json(legacyResult(error({}), 'resources/read', '1'))).toMatchObject({
      error: { code: -32602 },
    });
  });

  test('that needs input names each question by the key of the upstream', () => {
    const result = {
      resultType: 'input_required',
      requestState: 's',
      inputRequests: { 'a"b': { method: 'roots/list' }, c: { method: 'm', params: { n: 1 } } },
    };
    const modern = messageOf(JSON.stringify({ jsonrpc: '2.0', id: 1, result }));

    expect(neededInput(modern)).toEqual({
      requestState: '"s"',
      requests: [
        { key: 'a"b', method: 'roots/list', params: '{}' },
        { key: 'c', method: 'm', params: '{"n":1}' },
      ],
    });
    expect(neededInput(messageOf('{"jsonrpc":"2.0","id":1,"result":{}}'))).toBeUndefined();
  });
});

describe('the handshake', () => {
  const discovered = messageOf(
    JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      result: {
        supportedVersions: ['2026-07-28'],
        capabilities: { tools: { listChanged: true }, tasks: {}, extensions: {} },
        instructions: 'be kind',
        _meta: { 'io.modelcontextprotocol/serverInfo': { name: 's', version: '2' } },
      },
    }),
  );
  const initialize = (protocolVersion: string, capabilities = {}) =>
    messageOf(
      JSON.stringify({
        jsonrpc: '2.0',
        id: 'i',
        method: 'initialize',
        params: { protocolVersion, capabilities },
      }),
    );

  const apps = {
    'io.modelcontextprotocol/ui': { mimeTypes: ['text/html;profile=mcp-app'] },
    'io.modelcontextprotocol/skills': { directoryRead: true },
    'com.example/own': { deep: [1, { a: null }] },
  };
  const withTasks = { ...apps, 'io.modelcontextprotocol/tasks': {} };

  test('announces the extensions of a modern server but for its tasks, as those of MCP Apps', () => {
    const result = {
      supportedVersions: ['2026-07-28'],
      capabilities: { extensions: withTasks, tasks: {} },
    };
    const extended = messageOf(JSON.stringify({ jsonrpc: '2.0', id: 1, result }));

    expect(json(initializeAnswer(initialize('2025-11-25'), extended))).toMatchObject({
      result: { capabilities: { extensions: apps } },
    });
    expect(text(initializeAnswer(initialize('2025-11-25'), extended))).not.toContain('tasks');
  });

  test('announces those of a legacy server to modern callers', () => {
    const result = { protocolVersion: '2025-11-25', capabilities: { extensions: withTasks } };
    const extended = messageOf(JSON.stringify({ jsonrpc: '2.0', id: 1, result }));

    expect(json(discoverResult(extended, '1'))).toMatchObject({
      result: { capabilities: { extensions: apps } },
    });
    expect(text(discoverResult(extended, '1'))).not.toContain('tasks');
  });

  test('name those of a client in either direction', () => {
    const modern = messageOf(
      JSON.stringify({
        jsonrpc: '2.0',
        id: 1,
        method: 'tools/list',
        params: {
          _meta: {
            'io.modelcontextprotocol/clientCapabilities': { roots: {}, extensions: withTasks },
          },
        },
      }),
    );
    const said = { roots: {}, extensions: withTasks };

    expect(JSON.parse(modernCapabilities(JSON.stringify(said)))).toEqual({
      roots: {},
      extensions: apps,
    });
    expect(JSON.parse(clientOf(modern).capabilities)).toEqual({ roots: {}, extensions: apps });
  });

  test.each([
    ['2025-06-18', '2025-06-18'],
    ['2026-07-28', '2025-11-25'],
    ['1999-01-01', '2025-11-25'],
  ])('of a caller that requests %s is answered with %s', (asked, protocolVersion) => {
    expect(json(initializeAnswer(initialize(asked), discovered))).toEqual({
      jsonrpc: '2.0',
      id: 'i',
      result: {
        protocolVersion,
        capabilities: { tools: { listChanged: true } },
        serverInfo: { name: 's', version: '2' },
        instructions: 'be kind',
      },
    });
  });

  test.each([
    [{ elicitation: {}, tasks: {} }, { elicitation: { form: {} } }],
    [
      { elicitation: { url: {} }, sampling: {} },
      { elicitation: { url: {} }, sampling: {} },
    ],
  ])('offers %j as %j', (said, modern) => {
    expect(JSON.parse(modernCapabilities(JSON.stringify(said)))).toEqual(modern);
  });

  test('of a legacy upstream is what server/discover answers', () => {
    const initialized = messageOf(
      JSON.stringify({
        jsonrpc: '2.0',
        id: 0,
        result: {
          protocolVersion: '2025-06-18',
          capabilities: { tools: {}, tasks: {} },
          serverInfo: { name: 's', version: '1' },
        },
      }),
    );

    expect(json(discoverResult(initialized, '"d"'))).toEqual({
      jsonrpc: '2.0',
      id: 'd',
      result: {
        resultType: 'complete',
        supportedVersions: ['2026-07-28'],
        capabilities: { tools: {} },
        ttlMs: 0,
        cacheScope: 'private',
        _meta: { 'io.modelcontextprotocol/serverInfo': { name: 's', version: '1' } },
      },
    });
  });
});

describe('a modern request, as one of the older era', () => {
  const modern = messageOf(
    `{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"a","arguments":{"n":1.50},"requestState":"s","inputResponses":{},"_meta":{${meta},"io.modelcontextprotocol/clientCapabilities":{"sampling":{}},"io.modelcontextprotocol/clientInfo":{"name":"c"},"io.modelcontextprotocol/logLevel":"debug","progressToken":"mine","own":1.0}}}`,
  );

  test('has our id, which is its progress token too, and nothing of its own era', () => {
    expect(text(legacyRequest(modern, '4'))).toBe(
      '{"jsonrpc":"2.0","method":"tools/call","id":4,"params":{"name":"a","arguments":{"n":1.50},"_meta":{"own":1.0,"progressToken":4}}}',
    );
  });

  test('without anything else in its _meta has none', () => {
    const bare = messageOf(`{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{${meta}}}}`);

    expect(json(legacyRequest(bare, '2'))).toEqual({
      jsonrpc: '2.0',
      id: 2,
      method: 'm',
      params: {},
    });
  });

  test('names its client', () => {
    expect(clientOf(modern)).toEqual({
      capabilities: '{"sampling":{}}',
      clientInfo: '{"name":"c"}',
      logLevel: 'debug',
    });
  });
});

describe('a legacy answer, as one of the modern era', () => {
  test('has its type, and a list how long it is valid', () => {
    const list = messageOf('{"jsonrpc":"2.0","id":1,"result":{"tools":[{"n":1.0}]}}');

    expect(text(modernResult(list, 'tools/list', '"x"'))).toBe(
      '{"jsonrpc":"2.0","id":"x","result":{"tools":[{"n":1.0}],"resultType":"complete","ttlMs":0,"cacheScope":"private"}}',
    );
    expect(text(modernResult(list, 'tools/call', '2'))).not.toContain('ttlMs');
  });

  test.each([
    [-32601, -32601, 404],
    [-32002, -32602, 200],
    [-32603, -32603, 200],
  ])('with the error %i has %i, HTTP %i', (code, expected, status) => {
    const legacy = messageOf(
      JSON.stringify({ jsonrpc: '2.0', id: 1, error: { code, message: 'm', data: 1 } }),
    );
    const modern = modernResult(legacy, 'resources/read', '3');

    expect(json(modern)).toEqual({
      jsonrpc: '2.0',
      id: 3,
      error: { code: expected, message: 'm', data: 1 },
    });
    expect(modernStatus(modern)).toBe(status);
  });

  test('that is a question needs input, and the retry brings the response to it', () => {
    const question = messageOf('{"jsonrpc":"2.0","id":9,"method":"roots/list"}');
    const retry = (inputResponses: object) =>
      messageOf(JSON.stringify({ jsonrpc: '2.0', id: 2, method: 'm', params: { inputResponses } }));

    expect(json(inputRequiredResult(question, '1', 'state'))).toEqual({
      jsonrpc: '2.0',
      id: 1,
      result: {
        resultType: 'input_required',
        inputRequests: { input: { method: 'roots/list' } },
        requestState: 'state',
      },
    });
    const given = givenResponse(retry({ input: { roots: [] } }), question);
    expect(given && json(given)).toEqual({ jsonrpc: '2.0', id: 9, result: { roots: [] } });
    expect(givenResponse(retry({ other: {} }), question)).toBeUndefined();
  });
});

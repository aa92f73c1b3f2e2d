import { expect, test } from 'vitest';
import { question } from '#proxy/pipeline/question';
import { readMessage } from '#proxy/jsonrpc/message';

const message = (value: object) => readMessage(Buffer.from(JSON.stringify({ id: 1, ...value })));
const initialize = (protocolVersion: string, capabilities: object) =>
  message({ method: 'initialize', params: { protocolVersion, capabilities, clientInfo: {} } });
const list = (params?: object) => message({ method: 'tools/list', params });
const plain = initialize('2025-11-25', {});

test('cache key: a repeated request has the same one', () => {
  const again = list({ _meta: { progressToken: 7 } });

  expect(question(again, plain)).toBe(question(list({}), plain));
  expect(question(list(), plain)).toBe(question(list({}), plain));
});

test.each([
  ['another version', list(), initialize('2025-06-18', {})],
  ['other capabilities', list(), initialize('2025-11-25', { sampling: {} })],
  ['another page', list({ cursor: '2' }), plain],
  ['another list', message({ method: 'prompts/list' }), plain],
  [
    'the other era',
    list({ _meta: { 'io.modelcontextprotocol/protocolVersion': '2026-07-28' } }),
    plain,
  ],
])('cache key: %s has a different one', (_, request, shaken) => {
  expect(question(request, shaken)).not.toBe(question(list(), plain));
});

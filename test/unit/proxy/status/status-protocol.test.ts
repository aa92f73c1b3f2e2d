import { expect, test } from 'vitest';

import { parseEvent } from '#proxy/status/status-protocol';

const lastCall = { at: 1_700_000_000, method: 'tools/call', outcome: 'ok', durationMs: 12 };
const proxy = {
  pid: 7,
  startedAt: 1_700_000_000,
  sinceAt: 1_700_000_000,
  version: '1.0.0',
  name: 'library',
  url: 'https://example.com/mcp/demo/library',
  state: 'ready',
};
const parsed = (status: object) => parseEvent(JSON.stringify({ proxy: status }));

test('status of a proxy: it is read as the proxy sent it', () => {
  expect(parsed({ ...proxy, lastCall })).toEqual({ proxy: { ...proxy, lastCall } });
});

test.each([
  ['an outcome that this version does not know', { ...lastCall, outcome: 'later' }],
  ['a time that is no number of seconds', { ...lastCall, at: 1.5 }],
  ['no method', { ...lastCall, method: undefined }],
])('status of a proxy: without its last call if that has %s', (_, odd) => {
  expect(parsed({ ...proxy, lastCall: odd })).toEqual({ proxy });
});

test.each([{ account: 5 }, { expiresAt: 1.5 }, { pid: '7' }, { scopes: [1] }])(
  'status of a proxy: %j is no status',
  (odd) => {
    expect(parsed({ ...proxy, ...odd })).toBeUndefined();
  },
);

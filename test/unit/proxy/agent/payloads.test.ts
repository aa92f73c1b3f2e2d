import { expect, test } from 'vitest';

import { readOpen } from '#proxy/agent/payloads';
import { forwardedHeaders } from '#server/upstreams/tunnel/tunnel';

test('tunnel headers: both ends let the same ones through, with the trace of a call', () => {
  const through = {
    'content-type': 'application/json',
    accept: '*/*',
    'mcp-session-id': 's',
    'mcp-protocol-version': '2026-07-28',
    'mcp-method': 'tools/call',
    'mcp-name': 'echo',
    'mcp-param-region': 'eu',
    'last-event-id': '7',
    traceparent: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
    tracestate: 'congo=1',
  };
  const headers = { ...through, authorization: 'Bearer x', baggage: 'user=dana', cookie: 'a=1' };
  const open = { server: 'sales', method: 'POST', caller: 'c', headers };

  expect(forwardedHeaders(headers)).toEqual(through);
  expect(readOpen(Buffer.from(JSON.stringify(open)))?.headers).toEqual(through);
});

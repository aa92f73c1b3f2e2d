import { expect, test } from 'vitest';
import { vouchedHosts } from '#server/db/upstream-access';

const at = (url: string, issuer: string) => ({
  url,
  metadata: { issuer, token_endpoint: `${issuer}/token` },
});
const inside = at('http://mcp.internal:3000/mcp', 'https://as.internal');

test('a host that was stored without a port means the ports that were named for it, and no other', () => {
  expect(vouchedHosts(['mcp.internal', 'as.internal'], inside)).toEqual([
    'mcp.internal:3000',
    'as.internal:443',
  ]);
  expect(vouchedHosts(['elsewhere.internal'], inside)).toEqual([]);
});

test('two ports of one host both count, each once', () => {
  const one = at('http://[::1]:3000/mcp', 'http://[::1]:4000');

  expect(vouchedHosts(['[::1]', '[::1]:3000'], one)).toEqual(['[::1]:3000', '[::1]:4000']);
});

test('a host with its port stays unchanged', () => {
  const kept = ['mcp.internal:3000', 'other.internal:8443', '[::1]:80'];

  expect(vouchedHosts(kept, inside)).toEqual(kept);
});

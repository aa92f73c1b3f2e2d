import { decodeJwt } from 'jose';
import { expect, test } from 'vitest';

import { accessTokens } from '#server/signing/access-token';
import { masterKey } from '#server/signing/master-key';
import { readSigningKeys } from '#server/signing/signing-key';
import { callerAssertion } from '#server/upstream-access/caller-assertion';
import { memorySigningKeyStore } from '#support/memory-signing-keys';
import { stillClock } from '#support/still-clock';

const base = 'https://cloud.example';
const endpoint = `${base}/mcp/acme/sales`;
const caller = {
  subject: 'user_dana',
  clientId: 'client_1',
  scopes: ['mcp:tools:read'],
  endpoint,
} as const;

async function asserted(url: string) {
  const clock = stillClock();
  const keys = await readSigningKeys(memorySigningKeyStore(), {
    masterKey: masterKey(new Uint8Array(32)),
    clock,
  });
  return callerAssertion(url, caller, { base, tokens: accessTokens(base, { keys, clock }), clock });
}

test('an assertion names who calls, to the upstream alone, for a minute', async () => {
  const claims = decodeJwt((await asserted('https://mcp.example/mcp')) ?? '');

  expect(claims).toMatchObject({
    iss: base,
    aud: 'https://mcp.example/mcp',
    sub: 'user_dana',
    client_id: 'client_1',
    scope: 'mcp:tools:read',
    endpoint,
  });
  expect((claims.exp ?? 0) - (claims.iat ?? 0)).toBe(60);
});

test.each([`${base}/mcp/acme/sales`, `${base}:443/mcp/acme/sales`, 'https://CLOUD.example/x'])(
  'none is made for %s, where it could be taken for a token of ours',
  async (url) => {
    expect(await asserted(url)).toBeUndefined();
  },
);

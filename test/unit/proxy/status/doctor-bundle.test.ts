import { strFromU8, unzipSync } from 'fflate';
import { expect, test } from 'vitest';
import { redactedBundle, secretsOf } from '#proxy/status/doctor-bundle';

test('doctor bundle: it contains no known secret, and nothing like one, in any spelling', () => {
  const secret = 'p"a ss/w\u00f6rd';
  const zip = redactedBundle(
    {
      checks: [{ what: `a server said ${secret} and ${encodeURIComponent(secret)}`, count: 12345 }],
      configuration: { header: 'Bearer abcdefgh', key: 'mcp_0123456789abcdefghij' },
    },
    [secret, '1234'],
  );
  const files = Object.entries(unzipSync(zip)).map(([name, bytes]): [string, unknown] => [
    name,
    JSON.parse(strFromU8(bytes)),
  ]);

  expect(Object.fromEntries(files)).toEqual({
    'latchkey-doctor/checks.json': [
      { what: 'a server said [redacted] and [redacted]', count: 12345 },
    ],
    'latchkey-doctor/configuration.json': {
      header: 'Bearer [redacted]',
      key: 'mcp_[redacted]',
    },
  });
});

test('doctor bundle: a proxy password with a bare % is a secret like any other', () => {
  const env = { HTTPS_PROXY: 'http://me:100%25pass@proxy:8080', HTTP_PROXY: 'http://me:50%off@p' };
  const credentials = { kind: 'authorization_code' as const };
  const connection = { name: 'a', url: 'https://a.example/mcp', source: 'a', credentials };

  expect(secretsOf(connection, env)).toEqual(['100%25pass', '100%pass', '50%off']);
});

test('doctor bundle: the store of secrets and its key file are no secrets, and a key is', () => {
  const env = {
    LATCHKEY_SECRET_STORE: 'file',
    LATCHKEY_SECRET_STORE_KEY_FILE: '/home/dana/.latchkey-key',
    LATCHKEY_API_KEY: 'mcp_key',
  };
  const credentials = { kind: 'authorization_code' as const };
  const connection = { name: 'a', url: 'https://a.example/mcp', source: 'a', credentials };

  expect(secretsOf(connection, env)).toEqual(['mcp_key']);
});

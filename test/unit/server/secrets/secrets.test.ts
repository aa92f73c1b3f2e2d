import { describe, expect, test } from 'vitest';

import {
  hashSecret,
  isWellFormedSecret,
  mintSecret,
  randomBase62,
  secretHint,
  type SecretPrefix,
} from '#server/secrets/secrets';

/** Made by Python's zlib.crc32 and hashlib.sha256, so that another program agrees on every byte. */
const published: [SecretPrefix, string, string][] = [
  [
    'secret_',
    'secret_abcdefghijklmnopqrstuvwxyz01230516Mz',
    '7d053fc279c4e764e1b9e5cfbe329997d82746e96d4dd9dcd5b41fe2311d94d1',
  ],
  [
    'pk_live_',
    'pk_live_abcdefghijklmnopqrstuvwxyz01233q27Wg',
    '89afd9be287e2fae8a67c97752b8c3047694b9cdf24a8ceceb0d133c0cf05462',
  ],
  [
    'mcp_',
    'mcp_00000000000000000000000000000039wKZM',
    'e6f20b9a30c48eee745c49a8fec743e9a795f53d9bf36c634ac20d5e2f95df3b',
  ],
  [
    'code_',
    'code_abcdefghijklmnopqrstuvwxyz01233Mtmyb',
    '0d6271c6ff9271bf3dbaef4a8dea76345f9783c366ef4e218e7ed6bdbfc3dd77',
  ],
  [
    'rt_',
    'rt_0000000000000000000000000000002sl22j',
    '528d387392d4aa710685d850511a87bc277f68cb2c507ff4c89304eceab20fca',
  ],
];

describe('a secret of another implementation', () => {
  test.each(published)(
    '%s is well-formed and hashes to the same SHA-256',
    (prefix, secret, hash) => {
      expect(isWellFormedSecret(prefix, secret)).toBe(true);
      expect(hashSecret(secret)).toBe(hash);
    },
  );
});

test('a checksum with leading zeros keeps all six of its characters', () => {
  expect(isWellFormedSecret('mcp_', 'mcp_000000000000000000000000000699000Wdj')).toBe(true);
});

describe('a minted secret is its prefix, 30 random characters and a valid checksum', () => {
  test.each(published)('%s', (prefix) => {
    const secret = mintSecret(prefix);

    expect(secret).toMatch(new RegExp(`^${prefix}[0-9A-Za-z]{36}$`));
    expect(isWellFormedSecret(prefix, secret)).toBe(true);
    expect(mintSecret(prefix)).not.toBe(secret);
  });
});

test('a secret with any one of its characters changed is not well-formed', () => {
  const secret = 'mcp_00000000000000000000000000000039wKZM';
  const changed = Array.from(
    secret,
    (character, at) => secret.slice(0, at) + (character === 'a' ? 'b' : 'a') + secret.slice(at + 1),
  );

  expect(changed.filter((text) => isWellFormedSecret('mcp_', text))).toEqual([]);
});

describe('a text is not a well-formed MCP key when it', () => {
  test.each([
    ['is empty', ''],
    ['is the prefix alone', 'mcp_'],
    ['is a secret of another kind', 'rt_0000000000000000000000000000002sl22j'],
    ['is a token of GitHub, whose checksum is right', 'ghp_0000000000000000000000000000000p7rof'],
    ['lacks its last character', 'mcp_00000000000000000000000000000039wKZ'],
    ['has one more character', 'mcp_00000000000000000000000000000039wKZM0'],
    ['ends in a line feed', 'mcp_00000000000000000000000000000039wKZM\n'],
    ['begins with a blank', ' mcp_00000000000000000000000000000039wKZM'],
    ['is in capitals', 'MCP_00000000000000000000000000000039WKZM'],
    ['has characters beyond base62', 'mcp_0000000000000000000000000000-039wKZM'],
  ])('%s', (_, text) => {
    expect(isWellFormedSecret('mcp_', text)).toBe(false);
  });
});

test('a hint shows the prefix and the last four characters and nothing else of a secret', () => {
  expect(published.map(([, secret]) => secretHint(secret))).toEqual([
    'secret_…16Mz',
    'pk_live_…27Wg',
    'mcp_…wKZM',
    'code_…tmyb',
    'rt_…l22j',
  ]);
});

test('random text has the requested length and uses every base62 character', () => {
  const text = randomBase62(5000);

  expect(text).toHaveLength(5000);
  expect(new Set(text).size).toBe(62);
  expect(text).toMatch(/^[0-9A-Za-z]+$/);
});

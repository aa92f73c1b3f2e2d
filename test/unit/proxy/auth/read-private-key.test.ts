import { generateKeyPairSync } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { readPrivateKeyFile } from '#proxy/auth/client-authentication';
import { temporaryFolder } from '#support/temporary-folder';

const { privateKey } = generateKeyPairSync('ed25519');
const plain = privateKey.export({ type: 'pkcs8', format: 'pem' });
const encrypted = privateKey.export({
  type: 'pkcs8',
  format: 'pem',
  cipher: 'aes-256-cbc',
  passphrase: 'open sesame',
});

test('private key: a PEM file is read, and decrypted with its passphrase', async () => {
  await using folder = await temporaryFolder();
  const [one, two] = [join(folder.path, 'plain'), join(folder.path, 'encrypted')];
  await writeFile(one, plain);
  await writeFile(two, encrypted);

  expect((await readPrivateKeyFile(one, undefined)).equals(privateKey)).toBe(true);
  expect((await readPrivateKeyFile(two, 'open sesame')).equals(privateKey)).toBe(true);
});

test.each([
  ['without its passphrase', encrypted, undefined, /LATCHKEY_PRIVATE_KEY_PASSPHRASE/],
  ['with a wrong passphrase', encrypted, 'sesame', /LATCHKEY_PRIVATE_KEY_PASSPHRASE/],
  ['that is something else', 'secret text', undefined, /not a private key/],
])(
  'private key: a file %s is an error that shows none of its content',
  async (_, content, passphrase, words) => {
    await using folder = await temporaryFolder();
    const path = join(folder.path, 'key');
    await writeFile(path, content);

    const error = await readPrivateKeyFile(path, passphrase).catch((refusal: unknown) => refusal);

    expect(error).toMatchObject({ code: 'client', message: expect.stringMatching(words) });
    expect(String(error)).not.toContain('secret text');
  },
);

test('private key: a missing file is an error', async () => {
  await expect(readPrivateKeyFile('/nonexistent/key', undefined)).rejects.toMatchObject({
    code: 'client',
  });
});

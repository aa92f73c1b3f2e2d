import { chmod, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, test } from 'vitest';

import { masterKey, readMasterKey } from '#server/secrets/master-key';
import { temporaryFolder } from '#support/temporary-folder';

const key = masterKey(Buffer.alloc(32, 1));

test('a sealed text opens again with the same key and purpose', () => {
  expect(key.open('signing-key a', key.seal('signing-key a', 'grüße'))).toBe('grüße');
  expect(key.open('p', key.seal('p', ''))).toBe('');
});

test('the same text sealed twice gives two values, neither of which shows it', () => {
  const [one, two] = [key.seal('p', 'attack at dawn'), key.seal('p', 'attack at dawn')];

  expect(one).not.toBe(two);
  expect(Buffer.from(one, 'base64url').toString('latin1')).not.toContain('attack');
});

test('a sealed value opens neither for another purpose nor under another key', () => {
  const sealed = key.seal('signing-key a', 'secret');

  expect(() => key.open('signing-key b', sealed)).toThrow('unable to authenticate');
  expect(() => masterKey(Buffer.alloc(32, 2)).open('signing-key a', sealed)).toThrow(
    'unable to authenticate',
  );
});

test('a sealed value with any bit changed does not open', () => {
  const bytes = Buffer.from(key.seal('p', 'secret'), 'base64url');
  const opened = [...bytes.keys()].filter((at) => {
    const tampered = Buffer.from(bytes);
    tampered.writeUInt8(bytes.readUInt8(at) ^ 1, at);
    try {
      key.open('p', tampered.toString('base64url'));
      return true;
    } catch {
      return false;
    }
  });

  expect(opened).toEqual([]);
});

test.each(['secret', ''])('%j, sealed and cut short anywhere, does not open', (plaintext) => {
  const bytes = Buffer.from(key.seal('p', plaintext), 'base64url');

  for (const length of bytes.keys()) {
    expect(() => key.open('p', bytes.subarray(0, length).toString('base64url'))).toThrow(
      /unable to authenticate|Invalid (authentication tag|initialization vector)/,
    );
  }
});

describe('the master key file', () => {
  test('is created at the first start, readable by its owner only, and read again later', async () => {
    await using folder = await temporaryFolder();
    const file = join(folder.path, 'master.key');
    const sealed = readMasterKey(file, { mayCreate: true }).seal('p', 'secret');

    expect((await stat(file)).mode & 0o777).toBe(0o600);
    expect(await readFile(file, 'utf8')).toMatch(/^[\w-]{43}\n$/);
    expect(readMasterKey(file, { mayCreate: false }).open('p', sealed)).toBe('secret');
  });

  test('is not created beside keys that were sealed with the missing one', async () => {
    await using folder = await temporaryFolder();
    const file = join(folder.path, 'master.key');

    expect(() => readMasterKey(file, { mayCreate: false })).toThrow(
      /is missing.*--master-key-file/,
    );
    await expect(stat(file)).rejects.toMatchObject({ code: 'ENOENT' });
  });

  test.each([0o604, 0o640, 0o644, 0o660, 0o601])(
    'is refused with mode %o, and the remedy named',
    async (mode) => {
      await using folder = await temporaryFolder();
      const file = join(folder.path, 'master.key');
      readMasterKey(file, { mayCreate: true });
      await chmod(file, mode);

      expect(() => readMasterKey(file, { mayCreate: true })).toThrow(`chmod 600 ${file}`);
    },
  );

  test.each([
    ['empty', ''],
    ['too short', Buffer.alloc(31).toString('base64url')],
    ['too long', Buffer.alloc(33).toString('base64url')],
    ['something else', 'hunter2'],
  ])('is refused if its content is %s', async (_, content) => {
    await using folder = await temporaryFolder();
    const file = join(folder.path, 'master.key');
    await writeFile(file, content, { mode: 0o600 });

    expect(() => readMasterKey(file, { mayCreate: true })).toThrow(
      `${file} does not contain a master key of 32 bytes`,
    );
    expect(await readFile(file, 'utf8')).toBe(content);
  });
});

test('a MAC is the same for the same text, and different for another purpose, text or key', () => {
  const another = masterKey(Buffer.alloc(32, 1));

  expect(another.mac('a', 'text')).toMatch(/^[\w-]{43}$/);
  expect(another.mac('a', 'text')).toBe(masterKey(Buffer.alloc(32, 1)).mac('a', 'text'));
  expect(
    new Set([another.mac('a', 'text'), another.mac('b', 'text'), another.mac('a', 'tex')]).size,
  ).toBe(3);
  expect(another.mac('a', 'text')).not.toBe(masterKey(Buffer.alloc(32, 2)).mac('a', 'text'));
});

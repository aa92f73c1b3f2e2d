import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { afterAll, beforeAll, expect, test } from 'vitest';

import { readOidcOptions } from '#server/config/oidc-options';
import { startOptions } from '#server/config/option';
import { readOptions } from '#server/config/read-options';
import { temporaryFolder, type TemporaryFolder } from '#support/temporary-folder';

let folder: TemporaryFolder;
let file: string;
beforeAll(async () => {
  folder = await temporaryFolder('oidc');
  file = join(folder.path, 'secret');
  writeFileSync(file, 'there');
});
afterAll(() => folder[Symbol.asyncDispose]());

const tenant = '72f988bf-86f1-41af-91ab-2d7cd011db47';
const read = (issuer: string, ...more: string[]) => {
  const client = ['--oidc-client-id', 'latchkey', '--oidc-client-secret-file', file];
  return readOidcOptions(
    readOptions(startOptions, ['--oidc-issuer', issuer, ...client, ...more], {}),
  );
};

test('84: addresses without email_verified are trusted only if the operator says so', () => {
  const issuer = `https://login.microsoftonline.com/${tenant}/v2.0`;

  expect(read(issuer)).toMatchObject({ issuer, trustsEmail: false });
  expect(read(issuer, '--oidc-trust-email')).toMatchObject({ issuer, trustsEmail: true });
});

test.each([
  'https://login.microsoftonline.com/common/v2.0',
  'https://login.microsoftonline.com/Organizations/v2.0',
  'https://login.microsoftonline.com//consumers/v2.0',
  'https://login.microsoftonline.com/9188040d-6c67-4c5b-b112-36a304b66dad/v2.0',
  'https://login.microsoftonline.us/common/v2.0',
  'https://sts.windows.net/common',
  'https://accounts.google.com',
])('84: addresses of an issuer of many organizations are never trusted: %s', (issuer) => {
  expect(() => read(issuer, '--oidc-trust-email')).toThrow('--oidc-trust-email cannot be used');
});

test('a client secret that cannot be read is reported with its option', () => {
  const missing = ['--oidc-client-secret-file', `${file}.missing`];

  expect(() => read('https://idp.example.com', ...missing)).toThrow(
    `--oidc-client-secret-file ${file}.missing does not exist`,
  );
});

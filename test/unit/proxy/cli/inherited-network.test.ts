import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { checkCertificates, missingNetwork } from '#proxy/cli/inherited-network';
import { readOptions } from '#proxy/config/options';
import { temporaryFolder } from '#support/temporary-folder';

const url = 'https://latchkey.example.com/mcp/acme/sales';
const password = 'http://dana:hunter2@proxy.example.com:3128';
const again = 'to pass it on, run the command again with';

const notesOf = (env: Record<string, string>, given = {}, urls = [url]) =>
  missingNetwork(urls, readOptions(given, env), { env });

test.each([
  ['nothing', {}],
  ['LATCHKEY_PROXY', { LATCHKEY_PROXY: 'http://proxy.example.com:3128' }],
  ['LATCHKEY_PROXY besides HTTPS_PROXY', { LATCHKEY_PROXY: 'none', HTTPS_PROXY: password }],
  [
    'LATCHKEY_CA_FILE besides NODE_EXTRA_CA_CERTS',
    { LATCHKEY_CA_FILE: '/a', NODE_EXTRA_CA_CERTS: '/b' },
  ],
  ['a host in NO_PROXY', { HTTPS_PROXY: 'http://proxy:1', NO_PROXY: '.example.com' }],
  ['HTTPS_PROXY that is no URL of a proxy', { HTTPS_PROXY: 'socks5://proxy:1' }],
])('network of the shell: %s needs no note', (_, env) => {
  expect(notesOf(env)).toEqual([]);
});

test('network of the shell: a proxy that is given as an option needs no note', () => {
  expect(notesOf({ HTTPS_PROXY: 'http://a:1' }, { proxy: 'http://b:2' })).toEqual([]);
});

test('network of the shell: a connection to this computer uses no proxy and no authority', () => {
  const env = { HTTP_PROXY: 'http://proxy:1', NODE_EXTRA_CA_CERTS: '/ca.pem' };

  expect(notesOf(env, {}, ['http://127.0.0.1:8787/mcp/acme/sales'])).toEqual([]);
});

test.each([
  [
    { HTTPS_PROXY: 'http://proxy.example.com:3128/' },
    `HTTPS_PROXY: ${again} --proxy http://proxy.example.com:3128`,
  ],
  [{ all_proxy: 'proxy:3128' }, `all_proxy: ${again} --proxy http://proxy:3128`],
  [{ NODE_EXTRA_CA_CERTS: '/ca.pem' }, `NODE_EXTRA_CA_CERTS: ${again} --ca-file /ca.pem`],
  [{ LATCHKEY_PROXY: password }, 'LATCHKEY_PROXY contains a password, so it was not written'],
  [{ HTTPS_PROXY: password }, 'HTTPS_PROXY contains a password, so it was not written'],
  [
    {
      LATCHKEY_CLIENT_CERTIFICATE_FILE: '/c',
      LATCHKEY_CLIENT_KEY_FILE: '/k',
      LATCHKEY_CLIENT_KEY_PASSPHRASE: 'p',
    },
    'LATCHKEY_CLIENT_KEY_PASSPHRASE contains a password, so it was not written',
  ],
])('network of the shell: a note says what to do about %j, without a password', (env, words) => {
  const notes = notesOf(env);

  expect(notes).toEqual([expect.stringContaining(words)]);
  expect(notes.join()).not.toContain('hunter2');
});

test('network of the shell: a note about a service names the service', () => {
  const env = { HTTPS_PROXY: 'http://proxy:1' };

  expect(missingNetwork([url], readOptions({}, env), { env }, 'the service')).toEqual([
    `the service may not inherit HTTPS_PROXY: ${again} --proxy http://proxy:1`,
  ]);
});

test.each([
  [{ 'ca-file': '/nope.pem' }, '/nope.pem: cannot be read (ENOENT)', '--ca-file'],
  [{ 'ca-file': 'empty.pem' }, 'empty.pem: contains no certificate', '--ca-file'],
  [
    { 'client-certificate-file': '/nope.pem', 'client-key-file': '/nope.key' },
    '/nope.pem: cannot be read (ENOENT)',
    '--client-certificate-file',
  ],
])('certificates: %j is wrong usage, and names file and option', async (given, message, option) => {
  await using folder = await temporaryFolder('certificates');
  await writeFile(join(folder.path, 'empty.pem'), '');
  const paths = Object.fromEntries(
    Object.entries(given).map(([name, path]) => [
      name,
      join(path[0] === '/' ? '' : folder.path, path),
    ]),
  );

  await expect(checkCertificates(readOptions(paths, {}), { env: {} })).rejects.toThrow(
    expect.objectContaining({
      name: 'UsageError',
      message: expect.stringContaining(message),
      hint: expect.stringContaining(option),
    }),
  );
});

import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { agentService } from '#proxy/cli/agent';
import { readInput } from '#proxy/cli/parse-command-line';
import { findCommand } from '#proxy/cli/commands';
import { readOptions } from '#proxy/config/options';
import { temporaryFolder } from '#support/temporary-folder';

type Shell = { platform?: NodeJS.Platform; env?: Record<string, string> };

/** The output of `latchkey agent install --dry-run` with these words, in which `KEY` stands for the path of a key file. */
async function dryRun(words: string[], { platform = 'linux', env = {} }: Shell = {}) {
  await using folder = await temporaryFolder('agent-install');
  const key = join(folder.path, 'agent.key');
  await writeFile(key, '');
  const agent = await findCommand('agent');
  const command = agent?.subcommands?.find(({ name }) => name === 'agent install');
  if (!command) throw new Error('there is no latchkey agent install');
  const typed = ['--server-url', 'https://a.example', '--dry-run', ...words];
  const input = readInput(
    typed.map((word) => word.replace('KEY', key)),
    command,
  );
  const printed: string[] = [];
  const warned: string[] = [];
  await agentService('install', input, {
    platform,
    home: '/home/dana',
    env,
    launcher: { program: '/opt/latchkey' },
    options: (given) => readOptions(given, env),
    print: (line) => void printed.push(line),
    warn: (line) => void warned.push(line),
    readText: () => undefined,
  });
  return { text: printed.join('\n'), warned };
}

test('agent install: --run-as names the account of a launchd service', async () => {
  const { text } = await dryRun(['--key-file', 'KEY', '--run-as', '_latchkey'], {
    platform: 'darwin',
  });

  expect(text).toContain('<string>_latchkey</string>');
});

test.each<[string, string[], NodeJS.Platform, string]>([
  ['on Linux', ['--key-file', 'KEY', '--run-as', 'x'], 'linux', '--run-as is only for macOS'],
  ['with --user', ['--user', '--run-as', 'x'], 'darwin', 'a user service runs under your account'],
  ['without a name', ['--key-file', 'KEY', '--run-as', '</string>'], 'darwin', 'not the name'],
])('agent install: --run-as %s is wrong usage', async (_, words, platform, message) => {
  await expect(dryRun(words, { platform })).rejects.toThrow(
    expect.objectContaining({ name: 'UsageError', message: expect.stringContaining(message) }),
  );
});

test('agent install: the service contains the proxy and the log level, which it does not inherit', async () => {
  const env = { LATCHKEY_PROXY: 'http://proxy:3128' };

  const { text, warned } = await dryRun(['--user', '--log-level', 'debug'], { env });

  expect(text).toContain('--log-level debug --proxy http://proxy:3128\n');
  expect(warned.filter((line) => line.startsWith('note:'))).toEqual([]);
});

test('agent install: a proxy with a password is not in the service, and a note says so', async () => {
  const env = { LATCHKEY_PROXY: 'http://dana:hunter2@proxy:3128' };

  const { text, warned } = await dryRun(['--user'], { env });

  expect(text).not.toContain('--proxy');
  expect(warned).toContainEqual(
    'note: LATCHKEY_PROXY contains a password, so it was not written to any file: set it in the environment of the service',
  );
  expect(`${text}${warned.join()}`).not.toContain('hunter2');
});

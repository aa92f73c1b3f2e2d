import { expect, test } from 'vitest';
import { passwordHashing } from '#server/accounts/passwords';
import { noteBaseUrl, notedBaseUrl } from '#server/config/base-url';
import { runCommand } from '#server/app/run-command';
import { openStores } from '#server/app/stores';
import { stillClock } from '#support/still-clock';
import { temporaryFolder } from '#support/temporary-folder';

/** A data folder with the organization acme, and the lines that commands print there. */
async function dataFolder() {
  const folder = await temporaryFolder();
  await (await openStores(folder.path)).close();
  const run = async (words: string, env: Record<string, string> = {}) => {
    const lines: string[] = [];
    await runCommand([...words.split(' '), '--data-dir', folder.path], {
      env,
      clock: stillClock(1_800_000_000),
      hashing: passwordHashing(),
      terminal: { input: process.stdin, prompt: () => undefined },
      out: (line) => void lines.push(line),
      tell: () => undefined,
      tryUrl: () => Promise.resolve(undefined),
      endWithReader: () => undefined,
    });
    return lines.join('\n');
  };
  await run('organization create acme');
  return { path: folder.path, run, [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose]() };
}

test('commands print URLs of the server that ran last with the data folder, unless told another', async () => {
  await using folder = await dataFolder();
  noteBaseUrl(folder.path, 'https://latchkey.example.com');

  expect(notedBaseUrl(folder.path)).toBe('https://latchkey.example.com');
  expect(await folder.run('server create acme/a --demo')).toMatch(
    / https:\/\/latchkey\.example\.com\/mcp\/acme\/a$/,
  );
  expect(await folder.run('invitation create acme --role member')).toContain(
    ' https://latchkey.example.com/invitation',
  );
  const env = { LATCHKEY_BASE_URL: 'https://other.example.com' };
  expect(await folder.run('server create acme/b --demo', env)).toContain(
    'https://other.example.com/mcp/acme/b',
  );
  expect(
    await folder.run('server create acme/c --demo --base-url https://third.example.com', env),
  ).toContain('https://third.example.com/mcp/acme/c');
});

test('server create: where the public URL is unknown, it prints the path and the option for the URL', async () => {
  await using folder = await dataFolder();
  const text = await folder.run('server create acme/a --demo');
  const json: unknown = JSON.parse(await folder.run('server create acme/b --demo --json'));

  expect(text).toContain(' /mcp/acme/a\nhint: for the whole URL, set the public URL');
  expect(json).toMatchObject({ endpoint: '/mcp/acme/b' });
});

test('server create: a public URL that is none is wrong usage, and nothing is created', async () => {
  await using folder = await dataFolder();
  const wrong = folder.run('server create acme/a --demo --base-url https://x.example.com/');

  await expect(wrong).rejects.toMatchObject({ name: 'UsageError' });
  expect(await folder.run('server list acme')).toContain('no servers yet');
});

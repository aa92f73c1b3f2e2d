import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { expect, test } from 'vitest';

import { ProxyDownload, type ProxySource } from '#server/download/proxy-download';
import { fakeClock } from '#support/fake-clock';
import { temporaryFolder } from '#support/temporary-folder';

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex');

function downloadOf(source: ProxySource, env: Record<string, string> = {}) {
  const failures: unknown[] = [];
  const clock = fakeClock();
  const failed = (error: unknown) => void failures.push(error);
  const ports = { nodePath: process.execPath, env, clock, failed };
  return { download: new ProxyDownload('1.2.3', source, ports), clock, failures };
}

/** A script that leaves a line for each of its runs, and prints what it was started with. */
async function countingScript(folder: string) {
  const script = join(folder, 'pack.mjs');
  const runs = join(folder, 'runs');
  await writeFile(
    script,
    `import { appendFileSync } from 'node:fs';
    appendFileSync(${JSON.stringify(runs)}, 'run\\n');
    process.stdout.write(Object.keys(process.env).filter((name) => name.startsWith('LATCHKEY')).join());
    process.stdout.write('packed');`,
  );
  return { script, runs: () => (existsSync(runs) ? readFileSync(runs, 'utf8') : '') };
}

test('the proxy that was built with the server is read once, and named for its content', async () => {
  await using folder = await temporaryFolder('built');
  const file = join(folder.path, 'latchkey-1.2.3.tgz');
  await writeFile(file, 'built');
  const { download } = downloadOf({ file });

  const copy = await download.copy();
  await writeFile(file, 'another');
  const again = await download.copy();
  const reference = await download.reference('https://latchkey.example.com');

  expect(copy?.bytes.toString()).toBe('built');
  expect(again).toBe(copy);
  expect(reference).toEqual({
    fileName: 'latchkey-1.2.3.tgz',
    url: `https://latchkey.example.com/download/latchkey-1.2.3.tgz?v=${sha256('built').slice(0, 16)}`,
    sha256: sha256('built'),
  });
});

test('sources are packed by one process, however many ask at once, and without the secrets of ours', async () => {
  await using folder = await temporaryFolder('sources');
  const { script, runs } = await countingScript(folder.path);
  const { download } = downloadOf({ script }, { LATCHKEY_OIDC_CLIENT_SECRET: 'secret' });

  expect(runs()).toBe('');
  const copies = await Promise.all([download.copy(), download.copy(), download.copy()]);
  await download.copy();

  expect(copies.map((copy) => copy?.bytes.toString())).toEqual(['packed', 'packed', 'packed']);
  expect(runs()).toBe('run\n');
});

test('sources that cannot be packed are told of once, and tried again half a minute later', async () => {
  await using folder = await temporaryFolder('unpackable');
  const script = join(folder.path, 'pack.mjs');
  const { download, clock, failures } = downloadOf({ script });

  const first = await download.copy();
  const second = await download.copy();
  const { url, sha256: none } = await download.reference('https://latchkey.example.com');
  await writeFile(script, `process.stdout.write('packed')`);
  const tooSoon = await download.copy();
  await clock.advance(30);
  const later = await download.copy();

  expect([first, second, tooSoon, none]).toEqual([undefined, undefined, undefined, undefined]);
  expect(url).toBe('https://latchkey.example.com/download/latchkey-1.2.3.tgz');
  expect(failures).toHaveLength(1);
  expect(String(failures[0])).toContain('pack.mjs');
  expect(later?.bytes.toString()).toBe('packed');
});

test('a packing that is under way ends with the server, and is no failure', async () => {
  await using folder = await temporaryFolder('ended');
  const script = join(folder.path, 'pack.mjs');
  await writeFile(script, 'setInterval(() => {}, 1000)');
  const { download, failures } = downloadOf({ script });

  const copy = download.copy();
  download.close();

  expect(await copy).toBeUndefined();
  expect(failures).toEqual([]);
});

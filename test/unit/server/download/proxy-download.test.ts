import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { mkdir, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { strToU8, unzipSync, zipSync } from 'fflate';
import { expect, test } from 'vitest';

import type { BundledServer } from '#server/download/mcp-bundle';
import { ProxyDownload, type ProxySource } from '#server/download/proxy-download';
import { fakeClock } from '#support/fake-clock';
import { bundleOfBuild } from '#support/bundle-of-build';
import { temporaryFolder } from '#support/temporary-folder';

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex');
/** The path of a bundle that does not exist, as in a source tree before its first build. */
const bundle = '/nowhere/latchkey-1.2.3.mcpb';

function downloadOf(source: ProxySource, env: Record<string, string> = {}) {
  const failures: { what: string; error: unknown }[] = [];
  const clock = fakeClock();
  const failed = (what: string, error: unknown) => void failures.push({ what, error });
  const programFailed = () => {};
  const ports = { nodePath: process.execPath, env, clock, failed, programFailed };
  return { download: new ProxyDownload('1.2.3', source, ports), clock, failures };
}

/** A script that leaves a line for each of its runs, and prints the names of its `LATCHKEY` variables. */
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

test('the proxy of the build is read once, and named for its content', async () => {
  await using folder = await temporaryFolder('built');
  const file = join(folder.path, 'latchkey-1.2.3.tgz');
  await writeFile(file, 'built');
  const { download } = downloadOf({ file, bundle });

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
    bundles: { state: 'missing' },
    programs: [],
  });
});

test('sources are packed by one process, however many requests come, and without our secrets', async () => {
  await using folder = await temporaryFolder('sources');
  const { script, runs } = await countingScript(folder.path);
  const { download } = downloadOf({ script, bundle }, { LATCHKEY_OIDC_CLIENT_SECRET: 'secret' });

  expect(runs()).toBe('');
  const copies = await Promise.all([download.copy(), download.copy(), download.copy()]);
  await download.copy();

  expect(copies.map((copy) => copy?.bytes.toString())).toEqual(['packed', 'packed', 'packed']);
  expect(runs()).toBe('run\n');
});

test('a failed packing is reported once, and repeated half a minute later', async () => {
  await using folder = await temporaryFolder('unpackable');
  const script = join(folder.path, 'pack.mjs');
  const { download, clock, failures } = downloadOf({ script, bundle });

  const first = await download.copy();
  const second = await download.copy();
  const { url, sha256: none } = await download.reference('https://latchkey.example.com');
  await writeFile(script, `process.stdout.write('packed')`);
  const tooSoon = await download.copy();
  await clock.advance(30);
  const later = await download.copy();

  expect([first, second, tooSoon, none]).toEqual([undefined, undefined, undefined, undefined]);
  expect(url).toBe('https://latchkey.example.com/download/latchkey-1.2.3.tgz');
  const ofPackage = failures.filter(({ what }) => what === 'proxy');
  expect(ofPackage).toHaveLength(1);
  expect(String(ofPackage[0]?.error)).toContain('pack.mjs');
  expect(later?.bytes.toString()).toBe('packed');
});

test('a packing in progress ends with the server, and is no failure', async () => {
  await using folder = await temporaryFolder('ended');
  const script = join(folder.path, 'pack.mjs');
  await writeFile(script, 'setInterval(() => {}, 1000)');
  const { download, failures } = downloadOf({ script, bundle });

  const copy = download.copy();
  download.close();

  expect(await copy).toBeUndefined();
  expect(failures).toEqual([]);
});

const sales = {
  organization: 'acme',
  server: 'sales',
  url: 'https://latchkey.example.com:8443/mcp/acme/sales',
};

test('a bundle is that of the build with another manifest, which requests no input and contains no credential', async () => {
  await using folder = await temporaryFolder('bundle');
  const file = join(folder.path, 'latchkey-1.2.3.mcpb');
  await writeFile(file, bundleOfBuild);
  const { download } = downloadOf({ script: 'unused', bundle: file });

  const made = await download.bundle(sales);
  const zip = Buffer.concat(made?.parts ?? []);
  const files = unzipSync(zip);
  const before = unzipSync(bundleOfBuild);

  expect(zip.length).toBe(made?.size);
  expect(Object.keys(files)).toEqual(['bin/latchkey.js', 'manifest.json']);
  expect(files['bin/latchkey.js']).toEqual(before['bin/latchkey.js']);
  expect(JSON.parse(Buffer.from(files['manifest.json'] ?? []).toString())).toEqual({
    manifest_version: '0.3',
    name: 'latchkey.latchkey.example.com-8443.acme.sales',
    display_name: 'acme/sales (Latchkey)',
    version: '1.2.3',
    description:
      'Connects to the MCP server acme/sales at latchkey.example.com:8443. Your browser opens to sign you in.',
    author: { name: 'The Latchkey authors' },
    server: {
      type: 'node',
      entry_point: 'bin/latchkey.js',
      mcp_config: {
        command: 'node',
        args: ['${__dirname}/bin/latchkey.js', 'connect', sales.url],
      },
    },
  });
});

test('a bundle has the same bytes and tag each time, different ones for another server, and its own name', async () => {
  await using folder = await temporaryFolder('bundle');
  const file = join(folder.path, 'latchkey-1.2.3.mcpb');
  await writeFile(file, bundleOfBuild);
  const { download } = downloadOf({ script: 'unused', bundle: file });
  const made = async (server: BundledServer) => {
    const { parts, tag } = (await download.bundle(server)) ?? { parts: [], tag: '' };
    const bytes = Buffer.concat(parts);
    const manifest = Buffer.from(unzipSync(bytes)['manifest.json'] ?? []).toString();
    const { name }: { name: string } = JSON.parse(manifest);
    return { bytes, tag, name };
  };

  const once = await made(sales);
  const again = await made(sales);
  const oneWay = await made({ ...sales, organization: 'acme-a', server: 'b' });
  const otherWay = await made({ ...sales, organization: 'acme', server: 'a-b' });

  expect(again).toEqual(once);
  expect(new Set([once.tag, oneWay.tag, otherWay.tag]).size).toBe(3);
  expect(oneWay.name).not.toBe(otherWay.name);
});

test('a build without a bundle is reported once, and its file is looked for again half a minute later', async () => {
  await using folder = await temporaryFolder('bundle');
  const file = join(folder.path, 'latchkey-1.2.3.mcpb');
  const { download, clock, failures } = downloadOf({ script: 'unused', bundle: file });

  const missing = [await download.bundle(sales), await download.bundle(sales)];
  await writeFile(file, bundleOfBuild);
  const tooSoon = await download.bundle(sales);
  await clock.advance(30);
  const later = await download.bundle(sales);

  expect([...missing, tooSoon]).toEqual([undefined, undefined, undefined]);
  expect(failures).toEqual([
    { what: 'bundle', error: expect.objectContaining({ code: 'ENOENT' }) },
  ]);
  expect(later?.size).toBeGreaterThan(100);
});

/** A source tree: a script that builds the bundle, leaves a line for each run, and waits for the file `go`. */
async function sourceTree(folder: string) {
  const [script, sources] = [join(folder, 'mcpb.mjs'), join(folder, 'sources')];
  const [file, runs, go] = ['latchkey-1.2.3.mcpb', 'runs', 'go'].map((name) => join(folder, name));
  await mkdir(sources);
  await writeFile(join(sources, 'a.ts'), 'a');
  await writeFile(
    script,
    `import { appendFileSync, existsSync, writeFileSync } from 'node:fs';
    const secrets = Object.keys(process.env).filter((name) => name.startsWith('LATCHKEY'));
    appendFileSync(${JSON.stringify(runs)}, 'run ' + process.argv.slice(2) + secrets + '\\n');
    while (!existsSync(${JSON.stringify(go)})) await new Promise((resolve) => setTimeout(resolve, 5));
    writeFileSync(${JSON.stringify(file)}, Buffer.from('${bundleOfBuild.toString('base64')}', 'base64'));`,
  );
  const source = { script: 'unused', bundle: file ?? '', build: { script, sources: [sources] } };
  const change = async (at: Date) => utimes(join(sources, 'a.ts'), at, at);
  const text = () => (existsSync(runs ?? '') ? readFileSync(runs ?? '', 'utf8') : '');
  return { source, change, runs: text, release: () => writeFile(go ?? '', '') };
}

test('the bundle of a source tree is built at the start, and no page waits for it', async () => {
  await using folder = await temporaryFolder('tree');
  const tree = await sourceTree(folder.path);
  const env = { LATCHKEY_OIDC_CLIENT_SECRET: 'secret' };
  const { download, failures } = downloadOf(tree.source, env);

  download.prepare();
  const early = await download.reference('https://latchkey.example.com');
  await tree.release();
  const made = await download.bundle(sales);
  const late = await download.reference('https://latchkey.example.com');

  expect(early.bundles).toEqual({ state: 'building' });
  expect(made?.size).toBeGreaterThan(100);
  expect(late.bundles).toEqual({ state: 'ready', platforms: [] });
  expect(tree.runs()).toBe('run --installed-only\n');
  expect(failures.filter(({ what }) => what === 'bundle')).toEqual([]);
});

test('the bundle of a source tree is built again only after its sources changed', async () => {
  await using folder = await temporaryFolder('tree');
  const tree = await sourceTree(folder.path);
  await tree.release();

  await downloadOf(tree.source).download.bundle(sales);
  await downloadOf(tree.source).download.bundle(sales);
  const unchanged = tree.runs();
  await tree.change(new Date(Date.now() + 60_000));
  await downloadOf(tree.source).download.bundle(sales);

  expect(unchanged.match(/run/g)).toHaveLength(1);
  expect(tree.runs().match(/run/g)).toHaveLength(2);
});

test('a bundle that cannot be built is reported once, however often a page requests it', async () => {
  await using folder = await temporaryFolder('tree');
  const tree = await sourceTree(folder.path);
  await writeFile(tree.source.build.script, 'throw new Error("no bundler")');
  const { download, clock, failures } = downloadOf(tree.source);

  for (let view = 0; view < 3; view += 1) {
    await download.bundle(sales);
    await clock.advance(30);
  }
  const { bundles } = await download.reference('https://latchkey.example.com');

  expect(failures.filter(({ what }) => what === 'bundle')).toHaveLength(1);
  expect(['building', 'missing']).toContain(bundles.state);
});

test.each([
  [
    'whose manifest is not the last file',
    zipSync({ 'manifest.json': strToU8('{}'), a: strToU8('a') }),
  ],
  ['without a manifest', zipSync({ a: strToU8('a') })],
  ['that was cut', bundleOfBuild.subarray(0, -30)],
])('a bundle %s is not served', async (_, bytes) => {
  await using folder = await temporaryFolder('bundle');
  const file = join(folder.path, 'latchkey-1.2.3.mcpb');
  await writeFile(file, bytes);
  const { download, failures } = downloadOf({ script: 'unused', bundle: file });

  expect(await download.bundle(sales)).toBeUndefined();
  expect(failures).toHaveLength(1);
});

import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';

import { rolldown, type InputOptions, type OutputOptions } from 'rolldown';
import { beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';

import { temporaryFolder } from '#support/temporary-folder';
import { buildTray } from '#scripts/tray';
import { ascii, bundled, outputOf } from '#scripts/bundle';
import { proxyPackage, serverPackage } from '#scripts/pack';

const root = join(import.meta.dirname, '../../..');
const manifestSchema = z.looseObject({
  name: z.string().optional(),
  version: z.string().optional(),
  dependencies: z.record(z.string(), z.string()).optional(),
});
const bomSchema = z.strictObject({
  $schema: z.literal('http://cyclonedx.org/schema/bom-1.6.schema.json'),
  bomFormat: z.literal('CycloneDX'),
  specVersion: z.literal('1.6'),
  version: z.literal(1),
  metadata: z.strictObject({
    lifecycles: z.tuple([z.strictObject({ phase: z.literal('build') })]),
    component: z.looseObject({ type: z.literal('application'), name: z.string() }),
  }),
  components: z.array(
    z.strictObject({
      type: z.literal('library'),
      'bom-ref': z.string(),
      name: z.string(),
      version: z.string(),
      hashes: z
        .tuple([z.strictObject({ alg: z.literal('SHA-512'), content: z.hex().length(128) })])
        .optional(),
      licenses: z.tuple([z.strictObject({ expression: z.string() })]),
      purl: z.string().optional(),
    }),
  ),
});
const lockSchema = z.object({
  packages: z.record(
    z.string(),
    z.looseObject({ version: z.string().optional(), integrity: z.string().optional() }),
  ),
});
const { packages: locked } = lockSchema.parse(readJson(join(root, 'package-lock.json')));

function readJson(file: string): unknown {
  return JSON.parse(readFileSync(file, 'utf8'));
}

const named = ({ name = '', version = '' }: { name?: string; version?: string }) =>
  `${name}@${version}`;

/** The package that a file on disk belongs to, by its own package.json. */
function packageOf(file: string): string {
  for (let folder = dirname(file); folder !== dirname(folder); folder = dirname(folder)) {
    const manifest = join(folder, 'package.json');
    if (!existsSync(manifest)) continue;
    const { name, version } = manifestSchema.parse(readJson(manifest));
    if (name !== undefined && version !== undefined) return `${name}@${version}`;
  }
  throw new Error(`${file} is in no package`);
}

/** Bundles once more, as published but with source maps, and asks the maps what the code came from. */
async function bundledAgain(folder: string, options: InputOptions, written: OutputOptions) {
  const build = await rolldown(options);
  const dir = join(folder, 'dist');
  const { output } = await build.generate({ ...written, dir, format: 'esm', sourcemap: 'hidden' });
  await build.close();
  const files = output.filter((file) => file.type === 'chunk');
  const sources = files.flatMap(({ map }) => map?.sources ?? []).filter(isFile);
  return {
    files: new Map(files.map(({ fileName, code }) => [fileName, ascii(code)])),
    packages: new Set(sources.map((source) => packageOf(resolve(dir, source)))),
  };
}

/** Whether a source is a file, and not what the bundler or its plugin made. */
const isFile = (source: string) => !/(^|\/)\0/.test(source);

describe.each([
  ['proxy', 'latchkey', ['latchkey@0.1.0']],
  ['server', 'latchkey-server', ['latchkey-server@0.1.0']],
] as const)('bill of materials of %s', (program, name, own) => {
  const folder = join(root, program);
  let packed: ReadonlyMap<string, Buffer>;
  beforeAll(async () => {
    const proxy = await proxyPackage();
    packed = new Map((program === 'proxy' ? proxy : await serverPackage(proxy)).files);
  });
  const text = (file: string) => packed.get(`dist/${file}`)?.toString() ?? '';

  test('it names exactly the packages whose modules are in the published files', async () => {
    const { dependencies = {} } = manifestSchema.parse(readJson(join(folder, 'package.json')));
    const outside = Object.keys(dependencies);
    const input = {
      ...bundled,
      input: join(folder, 'main.ts'),
      external: (id: string) => outside.some((known) => id === known || id.startsWith(`${known}/`)),
    };
    const again = await bundledAgain(folder, input, outputOf[program]);
    const bom = bomSchema.parse(JSON.parse(text('sbom.cdx.json')));
    const withoutOwn = [...again.packages].filter((one) => !own.some((mine) => mine === one));
    // The bundler adds a few lines of its own, which no source map knows.
    const { version } = manifestSchema.parse(
      readJson(join(root, 'node_modules/rolldown/package.json')),
    );

    const published = [...packed.keys()].filter((path) => path.endsWith('.js'));
    expect(published.sort()).toEqual(
      [`bin/${name}.js`, ...[...again.files.keys()].map((file) => `dist/${file}`)].sort(),
    );
    for (const [file, code] of again.files) expect(text(file)).toBe(code);
    expect(bom.metadata.component.name).toBe(name);
    expect(bom.components.map(named).sort()).toEqual([...withoutOwn, `rolldown@${version}`].sort());
  });

  test('its entries match package-lock.json', () => {
    const { components } = bomSchema.parse(JSON.parse(text('sbom.cdx.json')));
    const ofRegistry = components.filter(({ purl }) => purl !== undefined);
    const inLock = Object.entries(locked).map(([place, { version, integrity }]) => ({
      name: place.replace(/^.*node_modules\//, ''),
      version,
      integrity,
    }));

    expect(ofRegistry.length).toBeGreaterThan(2);
    for (const component of ofRegistry) {
      const { content = '' } = component.hashes?.[0] ?? {};
      expect(inLock).toContainEqual({
        name: component.name,
        version: component.version,
        integrity: `sha512-${Buffer.from(content, 'hex').toString('base64')}`,
      });
      expect(component.purl).toBe(
        `pkg:npm/${component.name.replace('@', '%40')}@${component.version}`,
      );
    }
    // Components that are not from the registry are ours, and have no purl.
    expect(components.filter(({ purl }) => purl === undefined).map(named)).toEqual(
      program === 'server' ? ['latchkey-mcp@0.1.0', 'latchkey@0.1.0'] : ['latchkey-mcp@0.1.0'],
    );
  });
});

test('bill of materials of the tray app: it covers the app, its preload script and its windows', async () => {
  await using folder = await temporaryFolder('tray-bill');
  await buildTray(folder.path);
  const { metadata, components } = bomSchema.parse(readJson(join(folder.path, 'sbom.cdx.json')));
  const names = components.map(({ name }) => name);

  expect(metadata.component.name).toBe('latchkey-tray');
  expect(names).toEqual(expect.arrayContaining(['latchkey', 'lit-html', 'zod']));
  expect(names).not.toContain('electron');
});

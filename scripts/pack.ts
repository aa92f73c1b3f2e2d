/**
 * The npm packages, made from bundled files. `npm pack` cannot be used in a workspace, whose package.json is for
 * development: its `exports` name sources that are not published.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { bundleProgram } from './bundle.ts';
import { sbomOf } from './sbom.ts';

const root = join(import.meta.dirname, '..');

/** A file of a package: its path, with slashes, and its content. */
export type PackedFile = readonly [path: string, content: Buffer];

export interface NpmPackage {
  /** `latchkey-VERSION.tgz` */
  readonly name: string;
  readonly files: readonly PackedFile[];
  /** The same content gives the same bytes. */
  readonly bytes: Buffer;
}

export async function proxyPackage(): Promise<NpmPackage> {
  return packageOf('proxy', 'bin/latchkey.js');
}

/** The package `latchkey-server`. It contains what the server offers for download: the proxy's package and its bundle. */
export async function serverPackage(
  ...downloads: readonly Pick<NpmPackage, 'name' | 'bytes'>[]
): Promise<NpmPackage> {
  const more = downloads.map(({ name, bytes }): PackedFile => [`dist/${name}`, bytes]);
  return packageOf('server', 'bin/latchkey-server.js', ...more);
}

async function packageOf(
  program: 'proxy' | 'server',
  launcher: string,
  ...more: readonly PackedFile[]
): Promise<NpmPackage> {
  const bundle = await bundleProgram(program);
  const read = (path: string): PackedFile => [path, readFileSync(join(root, program, path))];
  const text = (path: string, content: string): PackedFile => [path, Buffer.from(content)];
  const manifest = publishedManifest(program);
  const files = [
    text('package.json', `${JSON.stringify(manifest, null, 2)}\n`),
    read('README.md'),
    read('LICENSE'),
    read(launcher),
    ...[...bundle.files].map(([name, code]) => text(`dist/${name}`, code)),
    text('dist/sbom.cdx.json', sbomOf(program, bundle.modules)),
    ...more,
  ];
  return { name: `${manifest.name}-${manifest.version}.tgz`, files, bytes: tarball(files) };
}

/** The members of a workspace's package.json that npm and its users need. */
function publishedManifest(program: 'proxy' | 'server') {
  const source: {
    name: string;
    version: string;
    description: string;
    keywords: string[];
    license: string;
    type: string;
    bin: Record<string, string>;
    dependencies: Record<string, string>;
    engines: Record<string, string>;
  } = JSON.parse(readFileSync(join(root, program, 'package.json'), 'utf8'));
  const { name, version, description, keywords, license, type, bin, dependencies, engines } =
    source;
  return { name, version, description, keywords, license, type, bin, dependencies, engines };
}

/** The time that npm gives every file. */
const modifiedAt = 499_162_500;
const block = 512;

/** The files below `package/`, as npm expects them. POSIX.1-1988, "ustar" */
function tarball(files: readonly PackedFile[]): Buffer {
  const parts = files.flatMap(([path, content]) => [
    header(`package/${path}`, content.length),
    content,
    Buffer.alloc((block - (content.length % block)) % block),
  ]);
  return gzipSync(Buffer.concat([...parts, Buffer.alloc(2 * block)]), { level: 9 });
}

function header(path: string, size: number): Buffer {
  const bytes = Buffer.alloc(block);
  const octal = (value: number, length: number) =>
    `${value.toString(8).padStart(length - 1, '0')}\0`;
  const mode = path.includes('/bin/') ? 0o755 : 0o644;
  for (const [at, text] of [
    [0, path],
    [100, octal(mode, 8)],
    [108, octal(0, 8)],
    [116, octal(0, 8)],
    [124, octal(size, 12)],
    [136, octal(modifiedAt, 12)],
    // The checksum is computed with blanks in its own place.
    [148, ' '.repeat(8)],
    [156, '0'],
    [257, 'ustar\x0000'],
  ] as const)
    bytes.write(text, at, 'latin1');
  const sum = bytes.reduce((total, byte) => total + byte, 0);
  bytes.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1');
  return bytes;
}

// A server that runs from these sources starts this file in a process of its own when a user downloads the proxy, so that the
// bundler's memory is freed afterwards.
if (import.meta.main) process.stdout.write((await proxyPackage()).bytes);

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { bundleProgram, type BundledProgram } from './bundle.ts';
import { sbomOf } from './sbom.ts';

const folder = join(import.meta.dirname, '../proxy');
/** What npm itself gives every file, so that the same content makes the same package. */
const modifiedAt = 499_162_500;
const block = 512;

export interface ProxyPackage {
  /** `latchkey-VERSION.tgz` */
  readonly name: string;
  readonly bytes: Buffer;
}

/** The proxy as npm installs it, with the files that `npm pack` would choose and its bill of materials. */
export async function proxyPackage(program?: BundledProgram): Promise<ProxyPackage> {
  const { code, modules } = program ?? (await bundleProgram('proxy'));
  const { version }: { version: string } = JSON.parse(read('package.json').toString());
  const files = [
    ...['package.json', 'README.md', 'LICENSE', 'bin/latchkey.js'].map(
      (path) => [path, read(path)] as const,
    ),
    ['dist/main.js', Buffer.from(code)],
    ['dist/sbom.cdx.json', Buffer.from(sbomOf('proxy', modules))],
  ] as const;
  return { name: `latchkey-${version}.tgz`, bytes: tarball(files) };
}

function read(path: string): Buffer {
  return readFileSync(join(folder, path));
}

/** The files below `package/`, as npm expects them. POSIX.1-1988, "ustar" */
function tarball(files: readonly (readonly [path: string, content: Buffer])[]): Buffer {
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
    // The checksum is that of a header with blanks in its place.
    [148, ' '.repeat(8)],
    [156, '0'],
    [257, 'ustar\x0000'],
  ] as const)
    bytes.write(text, at, 'latin1');
  const sum = bytes.reduce((total, byte) => total + byte, 0);
  bytes.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1');
  return bytes;
}

// A server that runs from these sources starts this when a user downloads the proxy, in a process of its own, so that the
// bundler's memory is freed afterwards.
if (import.meta.main) process.stdout.write((await proxyPackage()).bytes);

/**
 * `npm run bundle`: `dist/latchkey-VERSION.mcpb`, which a desktop assistant installs with one click. It contains the package of the
 * proxy, the keychain library with a binary for each platform, and a manifest that asks for URL and credentials. Binaries that are not
 * installed here come from the registry and must match package-lock.json. `--installed-only` fetches nothing. A server in a source
 * tree uses that option, because a server must not contact a registry unless told to.
 *
 * MCPB manifest 0.3
 */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { MANIFEST_SCHEMAS } from '@anthropic-ai/mcpb';
import { type Zippable, zipSync } from 'fflate';
import { proxyPackage, type NpmPackage, type PackedFile } from './pack.ts';

type Lock = { packages: Record<string, { version: string; integrity?: string }> };

const root = join(import.meta.dirname, '..');
const library = '@napi-rs/keyring';
const binaries = {
  darwin: ['darwin-arm64', 'darwin-x64'],
  win32: ['win32-x64-msvc', 'win32-arm64-msvc'],
  linux: ['linux-x64-gnu', 'linux-arm64-gnu'],
};
const platforms = ['darwin', 'win32', 'linux'] as const;
/** Times in a zip file have no time zone. */
const modifiedAt = new Date('1985-10-26T08:15:00');

export interface ProxyBundle {
  /** `latchkey-VERSION.mcpb` */
  readonly name: string;
  readonly platforms: readonly string[];
  /** The same content gives the same bytes. The manifest is the last file, because the server replaces it. */
  readonly bytes: Buffer;
}

/** The bundle of the proxy's package. With `installedOnly` it contains only the binaries that are installed here. */
export function proxyBundle(
  { name, files }: NpmPackage,
  { installedOnly }: { installedOnly: boolean },
): ProxyBundle {
  const found = new Map<string, readonly PackedFile[]>();
  for (const binary of platforms.flatMap((platform) => binaries[platform])) {
    const content = filesOfBinary(`${library}-${binary}`, installedOnly);
    if (content) found.set(binary, content);
    else process.stderr.write(`without ${library}-${binary}: it is not installed here\n`);
  }
  const complete = platforms.filter((platform) =>
    binaries[platform].every((binary) => found.has(binary)),
  );
  const some = complete.length > 0 ? complete : [process.platform];
  const manifest = manifestFor(some);
  const parsed = MANIFEST_SCHEMAS['0.3'].safeParse(manifest);
  if (!parsed.success) throw parsed.error;
  const content: PackedFile[] = [
    ...files,
    ...filesIn(join(root, 'node_modules', library), `node_modules/${library}`),
    ...[...found.values()].flat(),
    ['icon.png', readFileSync(join(root, 'tray-app/build/icon-512.png'))],
    ['manifest.json', Buffer.from(JSON.stringify(manifest, null, 2))],
  ];
  const zippable: Zippable = {};
  for (const [path, bytes] of content) {
    const mode = path.startsWith('bin/') ? 0o755 : 0o644;
    zippable[path] = [bytes, { os: 3, attrs: mode << 16 }];
  }
  const zip = zipSync(zippable, { level: 9, mtime: modifiedAt });
  return {
    name: name.replace(/\.tgz$/, '.mcpb'),
    platforms: some,
    bytes: Buffer.from(zip),
  };
}

function filesIn(folder: string, under: string): PackedFile[] {
  const found = readdirSync(folder, { recursive: true, encoding: 'utf8', withFileTypes: true });
  return found
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name))
    .sort()
    .map((path) => {
      const inner = path.slice(folder.length + 1).replaceAll('\\', '/');
      return [`${under}/${inner}`, readFileSync(path)];
    });
}

function filesOfBinary(name: string, installedOnly: boolean): PackedFile[] | undefined {
  const under = `node_modules/${name}`;
  const installed = join(root, under);
  if (existsSync(installed)) return filesIn(installed, under);
  return installedOnly ? undefined : fetchedFiles(name, under);
}

function fetchedFiles(name: string, under: string): PackedFile[] {
  const lock: Lock = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8'));
  const locked = lock.packages[`node_modules/${name}`];
  if (!locked?.integrity) throw new Error(`package-lock.json does not contain ${name}`);
  const folder = mkdtempSync(join(tmpdir(), 'latchkey-binary-'));
  try {
    const args = ['pack', `${name}@${locked.version}`, '--ignore-scripts', '--json'];
    const answer = execFileSync('npm', [...args, '--pack-destination', folder], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
      timeout: 120_000,
    });
    const [{ filename }]: [{ filename: string }] = JSON.parse(answer);
    const archive = join(folder, filename);
    const hash = createHash('sha512').update(readFileSync(archive)).digest('base64');
    if (locked.integrity !== `sha512-${hash}`)
      throw new Error(`${name} does not match package-lock.json`);
    const target = join(folder, 'unpacked');
    mkdirSync(target);
    execFileSync('tar', ['-xzf', archive, '-C', target, '--strip-components=1']);
    return filesIn(target, under);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** The manifest, with the questions that the assistant asks the user. An empty answer counts as none. */
function manifestFor(supported: readonly string[]): object {
  const { version, description }: { version: string; description: string } = JSON.parse(
    readFileSync(join(root, 'proxy/package.json'), 'utf8'),
  );
  const optional = (title: string, text: string, sensitive = false) => ({
    type: 'string',
    title,
    description: text,
    required: false,
    default: '',
    ...(sensitive && { sensitive }),
  });
  return {
    manifest_version: '0.3',
    name: 'latchkey',
    display_name: 'Latchkey',
    version,
    description,
    icon: 'icon.png',
    author: { name: 'The Latchkey authors' },
    license: 'MIT',
    server: {
      type: 'node',
      entry_point: 'bin/latchkey.js',
      mcp_config: {
        command: 'node',
        args: ['${__dirname}/bin/latchkey.js', 'connect', '${user_config.url}'],
        env: {
          LATCHKEY_CLIENT_ID: '${user_config.client_id}',
          LATCHKEY_CLIENT_SECRET: '${user_config.client_secret}',
          LATCHKEY_SCOPES: '${user_config.scopes}',
          LATCHKEY_API_KEY: '${user_config.api_key}',
        },
      },
    },
    user_config: {
      url: {
        type: 'string',
        title: 'URL',
        description: 'The MCP endpoint, such as https://cloud.example.com/mcp/acme/sales',
        required: true,
      },
      client_id: optional('Client ID', 'client_…; leave it empty to sign in with the browser'),
      client_secret: optional('Client secret', 'Shown once, when the client was created', true),
      scopes: optional('Scopes', 'Separated by spaces; empty for all that the client may have'),
      api_key: optional('API key', 'mcp_…, instead of a client', true),
    },
    compatibility: { platforms: supported, runtimes: { node: '>=22.19' } },
  };
}

if (import.meta.main) {
  const installedOnly = process.argv.includes('--installed-only');
  const {
    name,
    platforms: supported,
    bytes,
  } = proxyBundle(await proxyPackage(), { installedOnly });
  const file = join(root, 'dist', name);
  mkdirSync(join(root, 'dist'), { recursive: true });
  // Rename a finished file, because a server may read the bundle at the same time.
  const unfinished = `${file}.${process.pid}`;
  writeFileSync(unfinished, bytes);
  renameSync(unfinished, file);
  process.stdout.write(`${file} for ${supported.join(', ')}\n`);
}

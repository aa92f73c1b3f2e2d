/**
 * `npm run bundle`: `dist/latchkey-VERSION.mcpb`, which a desktop assistant installs with one click. It contains the package of the
 * proxy, the keychain library with a binary for each platform, and a manifest that asks for URL and credentials. Binaries that are not
 * installed here come from the registry and must match package-lock.json. `--installed-only` fetches nothing.
 *
 * MCPB manifest 0.3
 */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { packExtension } from '@anthropic-ai/mcpb/cli';
import { proxyPackage } from './pack.ts';

type Lock = { packages: Record<string, { version: string; integrity?: string }> };

const root = join(import.meta.dirname, '..');
const binaries = {
  darwin: ['darwin-arm64', 'darwin-x64'],
  win32: ['win32-x64-msvc', 'win32-arm64-msvc'],
  linux: ['linux-x64-gnu', 'linux-arm64-gnu'],
};
const platforms = ['darwin', 'win32', 'linux'] as const;

const manifest: { version: string; description: string } = JSON.parse(
  readFileSync(join(root, 'proxy/package.json'), 'utf8'),
);
const lock: Lock = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8'));
const stage = mkdtempSync(join(tmpdir(), 'latchkey-bundle-'));
try {
  for (const [path, content] of (await proxyPackage()).files) {
    mkdirSync(dirname(join(stage, path)), { recursive: true });
    writeFileSync(join(stage, path), content);
  }
  const library = '@napi-rs/keyring';
  cpSync(join(root, 'node_modules', library), join(stage, 'node_modules', library), {
    recursive: true,
  });
  const complete = platforms.filter(
    (platform) =>
      binaries[platform].filter((name) => !addBinary(`${library}-${name}`)).length === 0,
  );
  const some = complete.length > 0 ? complete : [process.platform];
  writeFileSync(join(stage, 'manifest.json'), JSON.stringify(manifestFor(some), null, 2));
  mkdirSync(join(root, 'dist'), { recursive: true });
  const file = join(root, 'dist', `latchkey-${manifest.version}.mcpb`);
  rmSync(file, { force: true });
  const packed = await packExtension({ extensionPath: stage, outputPath: file, silent: true });
  if (!packed) throw new Error('the bundle does not satisfy the manifest specification');
  process.stdout.write(`${file} for ${some.join(', ')}\n`);
} finally {
  rmSync(stage, { recursive: true, force: true });
}

/** Whether the bundle has the binary now. */
function addBinary(name: string): boolean {
  const target = join(stage, 'node_modules', name);
  const installed = join(root, 'node_modules', name);
  if (existsSync(installed)) cpSync(installed, target, { recursive: true });
  else if (!process.argv.includes('--installed-only')) fetchBinary(name, target);
  const there = existsSync(target);
  if (!there) process.stderr.write(`without ${name}: it is not installed here\n`);
  return there;
}

function fetchBinary(name: string, target: string): void {
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
    mkdirSync(target, { recursive: true });
    execFileSync('tar', ['-xzf', archive, '-C', target, '--strip-components=1']);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** The manifest, with the questions that the assistant asks the user. An empty answer counts as none. */
function manifestFor(supported: readonly string[]): object {
  const optional = (title: string, description: string, sensitive = false) => ({
    type: 'string',
    title,
    description,
    required: false,
    default: '',
    ...(sensitive && { sensitive }),
  });
  return {
    manifest_version: '0.3',
    name: 'latchkey',
    display_name: 'Latchkey',
    version: manifest.version,
    description: manifest.description,
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
      client_id: optional('Client id', 'client_…; leave it empty to sign in with the browser'),
      client_secret: optional('Client secret', 'Shown once, when the client was made', true),
      scopes: optional('Scopes', 'Separated by blanks; empty for all that the client may have'),
      api_key: optional('API key', 'mcp_…, instead of a client', true),
    },
    compatibility: { platforms: supported, runtimes: { node: '>=22.19' } },
  };
}

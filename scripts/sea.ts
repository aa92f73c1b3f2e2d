/**
 * `npm run sea`: dist/sea/PLATFORM-ARCH/latchkey, the proxy as one executable: a copy of the running Node
 * with the bundled proxy and the keychain's library. It must be built on its target system. Other programs
 * cannot inject code: it ignores NODE_OPTIONS and OPENSSL_CONF, and SIGUSR1 opens no debugger.
 *
 * latchkey.json beside it has its version and SHA-256: a server offers no program for download without them.
 *
 * On macOS, LATCHKEY_CODESIGN_IDENTITY names the identity that signs it and the library in it; without one, the signatures are ad hoc.
 *
 * Node.js, "Single executable applications"
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { devNull, tmpdir } from 'node:os';
import { join } from 'node:path';
import { inject } from 'postject';
import { rolldown } from 'rolldown';
import { bundled, minified } from './bundle.ts';
import { describeProgram } from './program-description.ts';

const root = join(import.meta.dirname, '..');
const { platform, arch } = process;
const identity = process.env['LATCHKEY_CODESIGN_IDENTITY'] ?? '-';
const entitlements = join(root, 'tray-app/build/entitlements.mac.plist');
const folder = join(root, 'dist/sea', `${platform}-${arch}`);
const program = join(folder, platform === 'win32' ? 'latchkey.exe' : 'latchkey');

const stage = mkdtempSync(join(tmpdir(), 'latchkey-sea-'));
try {
  const main = join(stage, 'main.cjs');
  await bundleMain(main);
  const keyring = join(stage, 'keyring.node');
  copyFileSync(keyringFile(), keyring);
  // Sign the library before it is embedded, because a hardened macOS process loads no library of another team.
  if (platform === 'darwin') sign(keyring);
  const sha256 = join(stage, 'keyring.sha256');
  writeFileSync(sha256, createHash('sha256').update(readFileSync(keyring)).digest('hex'));

  const blob = join(stage, 'latchkey.blob');
  const config = join(stage, 'sea.json');
  writeFileSync(
    config,
    JSON.stringify({
      main,
      output: blob,
      disableExperimentalSEAWarning: true,
      useCodeCache: true,
      // An OpenSSL configuration can name a library to load, and the environment can name a configuration.
      execArgv: ['--disable-sigusr1', `--openssl-config=${devNull}`],
      execArgvExtension: 'none',
      assets: { 'keyring.node': keyring, 'keyring.sha256': sha256 },
    }),
  );
  execFileSync(process.execPath, ['--experimental-sea-config', config], { stdio: 'pipe' });
  await assemble(blob, join(stage, 'latchkey'));
  mkdirSync(folder, { recursive: true });
  // Rename the new file, because a running program can be replaced but not written to.
  copyFileSync(join(stage, 'latchkey'), `${program}.new`);
  renameSync(`${program}.new`, program);
  describeProgram(program);
  process.stdout.write(`${program}\n`);
} finally {
  rmSync(stage, { recursive: true, force: true });
}

/** Writes one CommonJS file, because the main of an executable must be one. */
async function bundleMain(file: string): Promise<void> {
  const build = await rolldown({
    ...bundled,
    input: join(root, 'proxy/main.ts'),
    external: (id) => id.startsWith('node:') || id === '@napi-rs/keyring',
  });
  // One file with everything: a dynamic import would find no other file later.
  const output = { file, format: 'cjs', codeSplitting: false, dynamicImportInCjs: false } as const;
  await build.write({ ...minified, ...output });
  await build.close();
}

/** The library's binary for this machine, found in the same way as by the library itself. */
function keyringFile(): string {
  const require = createRequire(join(root, 'proxy/package.json'));
  const library = createRequire(require.resolve('@napi-rs/keyring'));
  const abis: Partial<Record<NodeJS.Platform, string>> = { linux: '-gnu', win32: '-msvc' };
  return library.resolve(`@napi-rs/keyring-${platform}-${arch}${abis[platform] ?? ''}`);
}

async function assemble(blob: string, file: string): Promise<void> {
  copyFileSync(process.execPath, file);
  chmodSync(file, 0o755);
  // Symbols, which only a debugger reads, are a seventh of the file.
  if (platform === 'linux') spawnSync('strip', [file], { stdio: 'ignore' });
  if (platform === 'darwin') execFileSync('codesign', ['--remove-signature', file]);
  await inject(file, 'NODE_SEA_BLOB', readFileSync(blob), {
    sentinelFuse: 'NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2',
    ...(platform === 'darwin' && { machoSegmentName: 'NODE_SEA' }),
  });
  if (platform === 'darwin') sign(file, '--options', 'runtime', '--entitlements', entitlements);
}

function sign(file: string, ...options: string[]): void {
  const stamp = identity === '-' ? [] : ['--timestamp'];
  execFileSync('codesign', ['--sign', identity, '--force', ...stamp, ...options, file]);
}

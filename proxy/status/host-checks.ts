import { membersOf } from 'latchkey-mcp/json-value';
import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, rm, statfs, writeFile } from 'node:fs/promises';
import { isAbsolute, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { assistants } from '#config/assistants';
import { notValid } from '#config/errors';
import { connectionNames, findDocuments } from '#config/find-entry';
import { entriesIn, isLaunch, launchedName, launchWords } from '#config/launch-entry';
import { registryFile } from '#config/user-files';
import type { UserHost, ReadText } from '#host';
import type { SecretStore } from '#keychain/secret-store';
import { fail, ok, warn, type Check, type Finding } from './checks.ts';

const scarceBytes = 50 * 1024 * 1024;

/** The versions of the programs that run. */
export function versionCheck(versions: { latchkey: string; node: string }, system: string): Check {
  return {
    name: 'versions',
    run: () => [ok('latchkey', versions.latchkey), ok('node', `${versions.node} on ${system}`)],
  };
}

/** Whether a secret can be kept, read and removed again. */
export function keychainCheck(kind: string, open: () => Promise<SecretStore>): Check {
  return {
    name: 'keychain',
    async run() {
      const store = await open();
      const account = `doctor ${randomUUID()}`;
      const probeSecret = randomUUID();
      await store.set(account, probeSecret);
      const kept = await store.get(account);
      const removed = await store.remove(account);
      if (kept === probeSecret && removed)
        return [ok('keychain', `${kind}: stores, reads and removes a secret`)];
      const hint = 'try --secret-store file with LATCHKEY_SECRET_STORE_KEY_FILE';
      return [fail('keychain', `${kind}: returned another secret than was stored`, hint)];
    },
  };
}

/** Whether the files that this program keeps between runs can be written. */
export function stateDirectoryCheck(directory: string): Check {
  return {
    name: 'state',
    async run() {
      const probe = join(directory, `doctor-${randomUUID()}`);
      const hint =
        'check the permissions and the free disk space, or choose another directory with --state-dir';
      try {
        await mkdir(directory, { recursive: true, mode: 0o700 });
        await writeFile(probe, 'probe', { mode: 0o600, flag: 'wx' });
      } catch (error) {
        const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown';
        return [fail('state', `${directory} cannot be written (${code})`, hint)];
      } finally {
        await rm(probe, { force: true }).catch(() => undefined);
      }
      const { bavail, bsize } = await statfs(directory);
      const free = bavail * bsize;
      if (free < scarceBytes)
        return [
          warn(
            'state',
            `${directory}: ${Math.round(free / 1024)} KiB free`,
            'free some disk space',
          ),
        ];
      return [ok('state', `${directory} is writable`)];
    },
  };
}

/** The files in which VS Code stores its version, on systems where their path is fixed. */
const productFiles = [
  '/usr/share/code/resources/app/product.json',
  '/opt/visual-studio-code/resources/app/product.json',
  '/Applications/Visual Studio Code.app/Contents/Resources/app/product.json',
];

/** Which assistants are configured here, and their versions if a file contains them. */
export function assistantCheck(host: UserHost, readText: ReadText): Check {
  return {
    name: 'assistants',
    async run() {
      const findings: Finding[] = [];
      for (const [name, { title, file, servers }] of Object.entries(assistants)) {
        const path = file(host);
        let text: string | undefined;
        try {
          text = readText(path);
        } catch {
          findings.push(
            warn('assistants', `${title}: ${path} cannot be read`, 'check its permissions'),
          );
          continue;
        }
        if (text === undefined) continue;
        const [document] = await findDocuments([path], readText);
        if (document === undefined)
          findings.push(
            warn(
              'assistants',
              `${title}: ${path} ${notValid(path)}`,
              'check for a missing comma or quote',
            ),
          );
        else {
          const version = name === 'vscode' ? vscodeVersion(readText) : ownVersion(document);
          findings.push(ok('assistants', `${title}${version && ` ${version}`}: ${path}`));
          for (const { key, entry } of entriesIn(document, servers)) {
            const missing = missingFile(entry);
            if (missing === undefined) continue;
            const what = `${title}: ${path}: ${key} starts ${missing}, which does not exist`;
            findings.push(
              fail('assistants', what, `latchkey install ${name} ${launchedName(entry) ?? key}`),
            );
          }
        }
      }
      if (findings.length > 0) return findings;
      const names = await connectionNames([registryFile(host)], readText);
      const hint = names.length === 0 ? 'latchkey setup URL' : 'latchkey install ASSISTANT NAME';
      return [warn('assistants', 'no assistant is configured on this computer', hint)];
    },
  };
}

/** The missing file that an entry needs to start this program, as after an update of Node. */
function missingFile(entry: unknown): string | undefined {
  if (!isLaunch(entry)) return undefined;
  const { env, environment } = membersOf(entry);
  const launcher = membersOf(env ?? environment)['LATCHKEY_LAUNCHER'];
  return [...launchWords(entry), pathOf(launcher)]
    .filter((word) => typeof word === 'string')
    .filter((word, at) => isAbsolute(word) && (at === 0 || /\.[jt]s$/.test(word)))
    .find((path) => !existsSync(path));
}

function pathOf(fileUrl: unknown): string | undefined {
  try {
    return fileURLToPath(String(fileUrl));
  } catch {
    return undefined; // Absent, or not written by install.
  }
}

/** Claude Code writes the version that last greeted its user. */
function ownVersion(document: unknown): string {
  const { lastOnboardingVersion: version } = membersOf(document);
  return typeof version === 'string' && /^[\w.-]{1,40}$/.test(version) ? version : '';
}

function vscodeVersion(readText: ReadText): string {
  for (const path of productFiles) {
    try {
      const { version } = membersOf(JSON.parse(readText(path) ?? 'null'));
      if (typeof version === 'string') return version;
    } catch {
      continue; // Not readable, or not the expected file.
    }
  }
  return '';
}

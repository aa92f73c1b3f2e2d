import { randomUUID } from 'node:crypto';
import { mkdir, rm, statfs, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { SecretStore } from '#keychain/secret-store';
import { fail, ok, warn, type Check } from './finding.ts';

const scarceBytes = 50 * 1024 * 1024;

/** The programs that run. */
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
        return [ok('keychain', `${kind}: keeps, reads, removes`)];
      const hint = 'try --secret-store file with LATCHKEY_SECRET_STORE_KEY_FILE';
      return [fail('keychain', `${kind}: does not give back what it was given`, hint)];
    },
  };
}

/** Whether locks and what is kept between runs can be written. */
export function stateDirectoryCheck(directory: string): Check {
  return {
    name: 'state',
    async run() {
      const probe = join(directory, `doctor-${randomUUID()}`);
      const hint = 'name a directory of your own with --state-dir';
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
        return [warn('state', `${directory}: ${Math.round(free / 1024)} KiB free`, 'make room')];
      return [ok('state', `${directory} can be written`)];
    },
  };
}

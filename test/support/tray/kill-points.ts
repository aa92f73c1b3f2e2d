import type * as Keyring from '@napi-rs/keyring';
import fs from 'node:fs/promises';
import { createRequire, syncBuiltinESMExports } from 'node:module';
import { basename } from 'node:path';
import type { FromApp, ToApp } from './wire.ts';

/*
 * Loaded before the app where a test asks for it: everything that the app writes to disk or keychain
 * becomes a point at which it, or another program, can be killed, just before it happens. A file that is
 * written in one go is also one that is half written.
 */
const keyring: typeof Keyring = createRequire(import.meta.url)('@napi-rs/keyring');
const { AsyncEntry } = keyring;
/** Whether there is a keychain at all is asked with an entry that is no secret. */
const probe = 'probe';
let left = 0;
let victim = 0;

process.on('message', (message: ToApp) => {
  if (message.act === 'killAt') ({ left, victim } = message);
});

async function point(what: string, half?: () => Promise<unknown>): Promise<void> {
  if (left === 0) return;
  if (half) await passed(`half of ${what}`, half);
  await passed(what);
}

async function passed(what: string, before?: () => Promise<unknown>): Promise<void> {
  if (left === 0) return;
  left -= 1;
  const killed = left === 0;
  const told: FromApp = { tell: 'point', what, killed };
  await new Promise((resolve) => process.send?.(told, resolve));
  if (!killed) return;
  if (victim === 0) await before?.();
  process.kill(victim || process.pid, 'SIGKILL');
  // Nothing more of this process may come to be before its end.
  if (victim === 0) await new Promise(() => {});
}

const { writeFile, rename, rm, open } = fs;
const nameOf = (path: unknown) => basename(String(path)).replace(/[0-9a-f]{12,}/g, '*');

Object.assign(fs, {
  async writeFile(...args: Parameters<typeof writeFile>) {
    const [path, data, options] = args;
    const half =
      typeof data === 'string'
        ? async () => writeFile(path, data.slice(0, data.length / 2), options)
        : undefined;
    await point(`write ${nameOf(path)}`, half);
    return writeFile(...args);
  },
  async rename(...args: Parameters<typeof rename>) {
    await point(`rename to ${nameOf(args[1])}`);
    return rename(...args);
  },
  async rm(...args: Parameters<typeof rm>) {
    // What a proxy that has ended leaves is cleared at any time, and nobody's work.
    if (!String(args[0]).endsWith('.proxy')) await point(`remove ${nameOf(args[0])}`);
    return rm(...args);
  },
  async open(...args: Parameters<typeof open>) {
    if (String(args[1]).startsWith('w')) await point(`make ${nameOf(args[0])}`);
    return open(...args);
  },
});
syncBuiltinESMExports();

/** The app's import of the library finds these entries. */
class WatchedEntry extends AsyncEntry {
  readonly #kind: string;
  constructor(...args: ConstructorParameters<typeof AsyncEntry>) {
    super(...args);
    this.#kind = args[1].replace(/ [[\d].*$/, '');
  }
  override async setPassword(secret: string): Promise<void> {
    if (this.#kind !== probe) await point(`keep ${this.#kind}`);
    return super.setPassword(secret);
  }
  override async deletePassword(): Promise<boolean> {
    if (this.#kind !== probe) await point(`forget ${this.#kind}`);
    return super.deletePassword();
  }
}
Object.assign(keyring, { AsyncEntry: WatchedEntry });

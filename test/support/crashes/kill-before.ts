import type * as Keyring from '@napi-rs/keyring';
import { createRequire } from 'node:module';
import { gatedEntries, gateFiles, type Gate } from './writes.ts';

/*
 * Loaded before a program: it kills its own process right before the write that `KILL_BEFORE` names, so that it is
 * always the same moment. The first `KILL_AFTER` writes of that name go through.
 */
const fatal = process.env['KILL_BEFORE'];
let spared = Number(process.env['KILL_AFTER'] ?? 0);

const gate: Gate = async ({ what, write }) => {
  if (what !== fatal || spared-- > 0) return write();
  process.kill(process.pid, 'SIGKILL');
  // The process must do nothing more before it ends.
  return new Promise<never>(() => {});
};

gateFiles(gate);
/** The program's import of the library finds these entries. */
const keyring: typeof Keyring = createRequire(import.meta.url)('@napi-rs/keyring');
Object.assign(keyring, { AsyncEntry: gatedEntries(keyring.AsyncEntry, gate) });

import type * as Keyring from '@napi-rs/keyring';
import { createRequire } from 'node:module';
import { gatedEntries, gateFiles, type Gate } from './writes.ts';

/*
 * Loaded before a program: right before a write that `KILL_BEFORE` names, the program is killed by its own
 * hand, so that it is always the same moment. `KILL_AFTER` writes of that name come to be.
 */
const fatal = process.env['KILL_BEFORE'];
let spared = Number(process.env['KILL_AFTER'] ?? 0);

const gate: Gate = async ({ what, write }) => {
  if (what !== fatal || spared-- > 0) return write();
  process.kill(process.pid, 'SIGKILL');
  // Nothing more of this process may come to be before its end.
  return new Promise<never>(() => {});
};

gateFiles(gate);
/** The program's import of the library finds these entries. */
const keyring: typeof Keyring = createRequire(import.meta.url)('@napi-rs/keyring');
Object.assign(keyring, { AsyncEntry: gatedEntries(keyring.AsyncEntry, gate) });

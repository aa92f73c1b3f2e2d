import type * as Keyring from '@napi-rs/keyring';
import { createRequire } from 'node:module';
import { gatedEntries, gateFiles, type Gate } from '../crashes/writes.ts';
import type { FatalWrite, FromApp, ToApp } from './wire.ts';

/*
 * Loaded before the app where a test asks for it: every write of the app to disk or keychain becomes a point
 * at which the app, or another program, can be killed, just before the write. A file that is written in one go
 * has one more point, at which it is half written.
 */
let armed: { write: FatalWrite; victim: number; spared: string[] } | undefined;

process.on('message', (message: ToApp) => {
  if (message.act === 'killNobody') armed = undefined;
  if (message.act !== 'killAt') return;
  const { write, victim } = message;
  armed = { write, victim, spared: typeof write === 'string' ? [] : [...write.not] };
});

const gate: Gate = async ({ what, write, half }) => {
  if (half) await passed(`half of ${what}`, half);
  await passed(what);
  return write();
};

async function passed(what: string, before?: () => Promise<unknown>): Promise<void> {
  if (!armed) return;
  const { write, victim, spared } = armed;
  const at = spared.indexOf(what);
  const killed = typeof write === 'string' ? what === write : at < 0;
  if (killed) armed = undefined;
  else if (at >= 0) spared.splice(at, 1);
  const told: FromApp = { tell: 'point', what, killed };
  await new Promise((resolve) => process.send?.(told, resolve));
  if (!killed) return;
  if (victim === 0) await before?.();
  process.kill(victim || process.pid, 'SIGKILL');
  // The process must do nothing more before it ends.
  if (victim === 0) await new Promise(() => {});
}

gateFiles(gate);

/** The app's import of the library finds these entries. */
const keyring: typeof Keyring = createRequire(import.meta.url)('@napi-rs/keyring');
Object.assign(keyring, { AsyncEntry: gatedEntries(keyring.AsyncEntry, gate) });

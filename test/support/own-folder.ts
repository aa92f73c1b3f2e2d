/**
 * Runs in each worker before its test files. Tests work in an empty folder, without the settings of the shell that started them: after
 * `npm start` a clone has a folder `data`, and the README sets variables of the secret store.
 */
import { flushCompileCache } from 'node:module';
import { afterAll, inject } from 'vitest';

/** The variables that stay: this one runs each server of a test as several processes; see `test/README.md`. */
const wanted = new Set(['LATCHKEY_PROCESSES']);

process.chdir(inject('ownFolder'));
for (const name of Object.keys(process.env)) {
  if (name.startsWith('LATCHKEY_') && !wanted.has(name)) delete process.env[name];
}

// Vitest ends its workers with a signal, and Node then does not write its compile cache. So each file writes it for later workers.
afterAll(() => flushCompileCache());

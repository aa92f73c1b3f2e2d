import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';

const root = join(import.meta.dirname, '../..');
/** Warns at exit, about SQLite as Node 22 does when it loads SQLite, and prints immediately what Node would print. */
const warns = `
  import { writeSync } from 'node:fs';
  process.emitWarning = (warning, type) => writeSync(2, type + ': ' + warning);
  process.on('exit', () => {
    process.emitWarning('SQLite is an experimental feature and might change at any time', 'ExperimentalWarning');
    process.emitWarning('something else', 'ExperimentalWarning');
  });
`;

test.each(['proxy/bin/latchkey.js', 'server/bin/latchkey-server.js'])(
  '%s: Node’s warning about SQLite is not printed, others are',
  async (launcher) => {
    const preload = `data:text/javascript,${encodeURIComponent(warns)}`;
    const args = ['--import', preload, join(root, launcher), '--version'];
    const { stderr } = await promisify(execFile)(process.execPath, args);

    expect(stderr).toBe('ExperimentalWarning: something else');
  },
);

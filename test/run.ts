/**
 * `npm test`: every test this machine can run, then which it could not and why, and as the last line
 * the totals. Arguments go to vitest: `npm test -- --project e2e`.
 */
import { spawn } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { reportSchema, summary, type Report } from '#support/summary';
import { temporaryFolder } from '#support/temporary-folder';

const root = join(import.meta.dirname, '..');
if (Number(process.versions.node.split('.')[0]) < 24) {
  console.log(`the tests need Node 24 or newer, this is ${process.versions.node}`);
  console.log('0 passed, 1 failed');
  process.exit(1);
}
const folder = await temporaryFolder();
const file = join(folder.path, 'report.json');

const vitest = spawn(
  process.execPath,
  [
    join(root, 'node_modules/vitest/vitest.mjs'),
    'run',
    '--reporter=default',
    '--reporter=json',
    `--outputFile.json=${file}`,
    ...process.argv.slice(2),
  ],
  { cwd: root, stdio: ['ignore', 'inherit', 'inherit'] },
);
// Ctrl-C reaches vitest too; waiting for it leaves nothing behind.
process.on('SIGINT', () => {}).on('SIGTERM', () => vitest.kill('SIGTERM'));
const exitCode = await new Promise<number | null>((resolve) => {
  vitest.on('close', resolve).on('error', () => resolve(null));
});

const { lines, exitCode: ours } = summary(await readReport(), exitCode);
await folder[Symbol.asyncDispose]();
console.log(`\n${lines.join('\n')}`);
process.exitCode = ours;

async function readReport(): Promise<Report | undefined> {
  try {
    return reportSchema.parse(JSON.parse(await readFile(file, 'utf8')));
  } catch {
    return undefined;
  }
}

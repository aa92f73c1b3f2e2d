/**
 * `npm test`: every test this machine can run, then which it could not and why, and as the last line
 * the totals. Arguments go to vitest: `npm test -- --project e2e`.
 */
import { spawn } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { reportSchema, summary, type Report } from '#support/summary';

const root = join(import.meta.dirname, '..');
const folder = await mkdtemp(join(tmpdir(), 'latchkey-test-'));
const file = join(folder, 'report.json');

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
await rm(folder, { recursive: true, force: true });
console.log(`\n${lines.join('\n')}`);
process.exitCode = ours;

async function readReport(): Promise<Report | undefined> {
  try {
    return reportSchema.parse(JSON.parse(await readFile(file, 'utf8')));
  } catch {
    return undefined;
  }
}

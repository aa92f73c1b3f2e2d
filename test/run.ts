/**
 * `npm test`: runs the tests of every level but `full` and `full-nodes`, then prints the slowest files, those with the most processor time,
 * what this machine could not test and why, and the totals as the last line. `--full` adds these two levels; all other arguments go to vitest:
 * `npm test -- --project e2e test/e2e/oauth`.
 *
 * The run has a temporary folder of its own as `TMPDIR`, in memory where there is room. A file that is left in this folder, or a process that
 * still has its path in the environment, command line or working directory, fails the run.
 */
import { spawn } from 'node:child_process';
import { mkdir, readFile } from 'node:fs/promises';
import { delimiter, dirname, join } from 'node:path';
import { leftovers } from '#support/leftovers';
import { memoryFolder } from '#support/memory-folder';
import { type FileTime, type Report, reportSchema, summary, timeSchema } from '#support/summary';
import { temporaryFolder } from '#support/temporary-folder';

const root = join(import.meta.dirname, '..');
if (Number(process.versions.node.split('.')[0]) < 24) {
  console.log(`the tests need Node 24 or newer, this is ${process.versions.node}`);
  console.log('0 passed, 1 failed');
  process.exit(1);
}
// The path is short, because it holds sockets, whose paths are limited to 108 bytes.
const folder = await temporaryFolder('lk', await memoryFolder());
const file = join(folder.path, 'report.json');
const times = join(folder.path, 'times');
const temporary = join(folder.path, 't');
await mkdir(temporary);

const vitest = spawn(
  process.execPath,
  [
    join(root, 'node_modules/vitest/vitest.mjs'),
    'run',
    '--reporter=default',
    '--reporter=json',
    `--outputFile.json=${file}`,
    ...levels(process.argv.slice(2)),
  ],
  {
    cwd: root,
    // Programs that start with `#!/usr/bin/env node` are to find this Node, whichever way the run was started.
    env: {
      ...process.env,
      PATH: [dirname(process.execPath), process.env['PATH']].join(delimiter),
      TMPDIR: temporary,
      TEST_PROCESSOR_TIME: times,
      // Workers and the programs that they start share what Node compiled.
      NODE_COMPILE_CACHE: join(folder.path, 'compiled'),
      ...(process.argv.includes('--full') && { TEST_FULL: '1' }),
    },
    stdio: ['ignore', 'inherit', 'inherit'],
  },
);
// Ctrl-C reaches vitest too; waiting for it leaves nothing behind.
process.on('SIGINT', () => {}).on('SIGTERM', () => vitest.kill('SIGTERM'));
const exitCode = await new Promise<number | null>((resolve) => {
  vitest.on('close', resolve).on('error', () => resolve(null));
});

const left = await leftovers(temporary);
const { lines, exitCode: ours } = summary(await readReport(), exitCode, left, await readTimes());
await folder[Symbol.asyncDispose]();
console.log(`\n${lines.join('\n')}`);
process.exitCode = ours;

/** The processor time of each file. */
async function readTimes(): Promise<FileTime[]> {
  const text = await readFile(times, 'utf8').catch(() => '');
  const noted = text.split('\n').filter((line) => line !== '');
  return noted.map((line) => timeSchema.parse(JSON.parse(line)));
}

/** Every level but the exhaustive ones, unless the words say otherwise. */
function levels(words: readonly string[]): string[] {
  const others = words.filter((word) => word !== '--full');
  const chosen =
    others.length < words.length || others.some((word) => word.startsWith('--project'));
  return chosen ? others : ['--project=!full*', ...others];
}

async function readReport(): Promise<Report | undefined> {
  try {
    return reportSchema.parse(JSON.parse(await readFile(file, 'utf8')));
  } catch {
    return undefined;
  }
}

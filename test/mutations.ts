/**
 * `npm run mutations`: makes each deliberate fault of `mutations.md` in a copy of the working tree, runs the tests that are
 * expected to catch it, and fails when they pass.
 *
 *     npm run mutations                 all of them
 *     npm run mutations -- 7 12         these two
 *     npm run mutations -- --whole 7    with every test of the normal levels instead of the named files
 *     npm run mutations -- --types      only compiles each: a fault that the compiler finds needs no test
 */
import {
  constants,
  copyFileSync,
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { leftovers } from '#support/leftovers';
import {
  mutate,
  readMutations,
  testReportSchema,
  verdictOf,
  type Mutation,
  type TestReport,
} from '#support/mutations';
import { startProgram, type Program } from '#support/processes';
import { temporaryFolder } from '#support/temporary-folder';

const root = join(import.meta.dirname, '..');
/** A mutation can make a program wait for ever. */
const longestRunMs = 15 * 60_000;

const { values: flags, positionals } = parseArgs({
  allowPositionals: true,
  options: { whole: { type: 'boolean' }, types: { type: 'boolean' } },
});
const mutations = chosen();

let program: Program | undefined;
let isStopped = false;
// Ctrl-C reaches the running program too; waiting for it leaves nothing behind.
process.on('SIGINT', () => (isStopped = true));
process.on('SIGTERM', () => {
  isStopped = true;
  program?.kill('SIGTERM');
});

// A short path, because it holds sockets, whose paths are limited to 108 bytes.
const folder = await temporaryFolder('lk');
const copy = join(folder.path, 'c');
const temporary = join(folder.path, 't');
try {
  copyTree(root, copy, { isPackage: false });
  process.exitCode = (flags.types ? await compileAll() : await testAll()) && !isStopped ? 0 : 1;
} finally {
  await folder[Symbol.asyncDispose]();
}

/**
 * The mutations to make. All mistakes in them are reported before the first test runs, so that a person who moved code
 * immediately sees which mutations need a new anchor.
 */
function chosen(): readonly Mutation[] {
  try {
    const all = readMutations(readFileSync(join(root, 'test/mutations.md'), 'utf8'));
    const unknown = positionals.filter(
      (text) => !all.some(({ number }) => String(number) === text),
    );
    if (unknown.length > 0) throw new Error(`there is no mutation ${unknown.join(', ')}`);
    const some = all.filter(({ number }) => positionals.includes(String(number)));
    const wanted = positionals.length === 0 ? all : some;
    const problems = wanted.flatMap((mutation) => problemOf(mutation) ?? []);
    if (problems.length > 0) throw new Error(problems.join('\n'));
    return wanted;
  } catch (error) {
    console.error(`test/mutations.md:\n${error instanceof Error ? error.message : String(error)}`);
    process.exit(1);
  }
}

function problemOf(mutation: Mutation): string | undefined {
  const { number, title, file, tests } = mutation;
  const absent = [file, ...tests].filter((path) => !existsSync(join(root, path)));
  if (absent.length > 0)
    return `mutation ${number} (${title}): ${absent.join(', ')} does not exist`;
  try {
    mutate(readFileSync(join(root, file), 'utf8'), mutation);
    return undefined;
  } catch (error) {
    return `${error instanceof Error ? error.message : String(error)}: copy them as they are now`;
  }
}

async function testAll(): Promise<boolean> {
  const named = [...new Set(mutations.flatMap(({ tests }) => tests))];
  console.log(`${flags.whole ? 'every test' : `${named.length} test files`} without a mutation …`);
  const startedAt = performance.now();
  const before = await runTests(flags.whole ? [] : named, { stopsEarly: false });
  if (isStopped) return false;
  const failed = before?.testResults.filter(({ status }) => status === 'failed');
  if (!failed || failed.length > 0) {
    console.error('The tests fail without a mutation, so that they would prove nothing:');
    for (const { name, assertionResults } of failed ?? []) {
      const tests = assertionResults.filter(({ status }) => status === 'failed');
      const lines = tests.map(({ fullName, failureMessages }) =>
        [`  ${fullName}`, ...(failureMessages ?? [])].join('\n'),
      );
      console.error([name, ...lines].join('\n'));
    }
    return false;
  }
  console.log(`passed in ${secondsSince(startedAt)} s\n`);

  const missed: number[] = [];
  let done = 0;
  for (const mutation of mutations) {
    const began = performance.now();
    const restore = place(mutation);
    const report = await runTests(flags.whole ? [] : mutation.tests, { stopsEarly: true });
    restore();
    if (isStopped) break;
    const verdict = verdictOf(report, copy);
    const words =
      verdict.outcome === 'caught'
        ? `caught by ${verdict.file}: ${verdict.test}`
        : `MISSED: ${mutation.title}: ${verdict.why}`;
    console.log(`${String(mutation.number).padStart(3)}  ${words}  ${secondsSince(began)} s`);
    if (verdict.outcome === 'missed') missed.push(mutation.number);
    done += 1;
  }
  if (missed.length > 0) console.log(`\nmissed: ${missed.join(', ')}`);
  console.log(`\n${done - missed.length} caught, ${missed.length} missed`);
  return missed.length === 0;
}

async function compileAll(): Promise<boolean> {
  let isGood = true;
  for (const mutation of mutations) {
    const restore = place(mutation);
    const args = [join(copy, 'node_modules/typescript/bin/tsc'), '-p', 'tsconfig.json'];
    const { code, stdout } = await run(args);
    restore();
    console.log(
      `${String(mutation.number).padStart(3)}  ${code === 0 ? 'compiles' : stdout.trim()}`,
    );
    isGood &&= code === 0;
    if (isStopped) break;
  }
  return isGood;
}

/** Makes the mutation in the copy. Returns a function that undoes it. */
function place(mutation: Mutation): () => void {
  const file = join(copy, mutation.file);
  const source = readFileSync(file, 'utf8');
  writeFileSync(file, mutate(source, mutation));
  return () => writeFileSync(file, source);
}

/** The report of these test files, or of all normal ones; `undefined` when there is none. */
async function runTests(
  files: readonly string[],
  { stopsEarly }: { stopsEarly: boolean },
): Promise<TestReport | undefined> {
  const file = join(folder.path, 'report.json');
  rmSync(file, { force: true });
  const options = ['--project=!full', '--reporter=json', `--outputFile.json=${file}`];
  const vitest = join(copy, 'node_modules/vitest/vitest.mjs');
  const { stderr } = await run([
    vitest,
    'run',
    ...options,
    ...(stopsEarly ? ['--bail=1'] : []),
    ...files,
  ]);
  for (const line of await leftovers(temporary)) console.log(`     ${line}`);
  rmSync(temporary, { recursive: true, force: true });
  try {
    return testReportSchema.parse(JSON.parse(readFileSync(file, 'utf8')));
  } catch {
    console.error(stderr);
    return undefined;
  }
}

/** Runs Node in the copy, with a temporary folder of its own, and without the programs and packages of an outer test run. */
async function run(args: readonly string[]) {
  mkdirSync(temporary, { recursive: true });
  const env = {
    TMPDIR: temporary,
    TEST_PROGRAMS: undefined,
    TEST_PACKAGES: undefined,
  };
  const running = startProgram(process.execPath, { args, cwd: copy, env });
  program = running;
  running.endInput();
  const timer = setTimeout(() => running.kill('SIGKILL'), longestRunMs);
  const { code } = await running.exited;
  clearTimeout(timer);
  return { code, stdout: running.stdout, stderr: running.stderr };
}

/** Whether an entry is not copied: what git ignores, except installed packages, and what tools leave among those packages. */
function isLeftOut(name: string, isPackage: boolean): boolean {
  const ours = ['.git', 'dist', 'data', 'out'];
  return isPackage ? name.startsWith('.vite') : ours.includes(name);
}

/**
 * Copies a tree. Installed packages are hard links to the same files, as there are tens of thousands; symbolic links would
 * lead programs back to the original, whose workspaces have no mutation.
 */
function copyTree(from: string, to: string, { isPackage }: { isPackage: boolean }): void {
  mkdirSync(to, { recursive: true });
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    const { name } = entry;
    if (isLeftOut(name, isPackage)) continue;
    const [source, target] = [join(from, name), join(to, name)];
    const isInPackage = isPackage || name === 'node_modules';
    if (entry.isDirectory()) copyTree(source, target, { isPackage: isInPackage });
    else if (entry.isSymbolicLink()) symlinkSync(readlinkSync(source), target);
    else if (isPackage) linkOrCopy(source, target);
    else copyFileSync(source, target);
  }
}

function linkOrCopy(source: string, target: string): void {
  try {
    linkSync(source, target);
  } catch {
    // The temporary folder is on another disk, or its file system has no links.
    copyFileSync(source, target, constants.COPYFILE_FICLONE);
  }
}

function secondsSince(startedAt: number): string {
  return ((performance.now() - startedAt) / 1000).toFixed(1);
}

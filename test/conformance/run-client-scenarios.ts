import { join } from 'node:path';
import { runProgram } from '#support/processes';
import { temporaryFolder } from '#support/temporary-folder';
import { clientScenarios, revisions, type Revision } from './client-scenarios.ts';

const suite = join(
  import.meta.dirname,
  '../../node_modules/@modelcontextprotocol/conformance/dist/index.js',
);
const driver = join(import.meta.dirname, 'driver.ts');

const assistants = ['legacy', 'modern'] as const;

/** The client scenarios against our proxy, in both revisions, one at a time. `wanted` are scenarios, or kinds of assistants. */
export async function runClientScenarios(
  wanted: readonly string[],
  out: string,
  print: (line: string) => void,
): Promise<{ failures: number; total: number }> {
  const isAssistant = (word: string) => assistants.some((assistant) => assistant === word);
  const scenarios = wanted.filter((word) => !isAssistant(word));
  const chosen = assistants.filter((one) => wanted.includes(one) || !wanted.some(isAssistant));
  let failures = 0;
  let total = 0;
  await using stack = new AsyncDisposableStack();
  const compiled =
    process.env['NODE_COMPILE_CACHE'] ?? stack.use(await temporaryFolder('compiled')).path;
  print('| scenario | revision | assistant | result | checks |');
  print('| --- | --- | --- | --- | --- |');
  for (const revision of revisions)
    for (const scenario of clientScenarios(revision))
      for (const assistant of chosen) {
        if (scenarios.length > 0 && !scenarios.includes(scenario)) continue;
        const { passed, checks, said } = await run(
          { scenario, revision, assistant },
          { out, compiled },
        );
        total += 1;
        if (!passed) failures += 1;
        const verdict = `${passed ? 'pass' : 'FAIL'} | ${checks}`;
        print(`| ${scenario} | ${revision} | ${assistant} | ${verdict} |`);
        if (!passed) print(said.split('\n').filter(isTrouble).join('\n'));
      }
  return { failures, total };
}

async function run(
  { scenario, revision, assistant }: { scenario: string; revision: Revision; assistant: string },
  { out, compiled }: { out: string; compiled: string },
): Promise<{ passed: boolean; checks: string; said: string }> {
  const command = `${process.execPath} ${driver} ${assistant}`;
  // Extensions are on no revision's list.
  const which = ['--scenario', scenario, '--spec-version', revision, '--force'];
  const { code, stdout, stderr } = await runProgram(process.execPath, {
    args: [suite, 'client', '--command', command, ...which, '--timeout', '240000', '-o', out],
    // Most of a run is compiling the suite and the SDKs.
    env: { NODE_COMPILE_CACHE: compiled },
    timeoutMs: 270_000,
  });
  const said = stdout + stderr;
  const [, checks = 'none'] = /^Passed: (.*)$/m.exec(said) ?? [];
  const passed = code === 0 && /OVERALL: PASSED/.test(said) && !/[1-9]\d* warnings/.test(checks);
  return { passed, checks, said };
}

function isTrouble(line: string): boolean {
  return /FAILURE|WARNING|error|Error|skip/i.test(line);
}

import { join } from 'node:path';
import { runProgram } from '#support/processes';
import { clientScenarios, revisions } from './client-scenarios.ts';

const suite = join(import.meta.dirname, '../../node_modules/@modelcontextprotocol/conformance');
const driver = join(import.meta.dirname, 'driver.ts');

/** The client scenarios about authorization against our proxy, both revisions, one at a time. */
export async function runClientScenarios(
  wanted: readonly string[],
  out: string,
): Promise<{ failures: number; total: number }> {
  let failures = 0;
  let total = 0;
  console.log('| scenario | revision | result | checks |\n| --- | --- | --- | --- |');
  for (const revision of revisions)
    for (const scenario of clientScenarios(revision)) {
      if (wanted.length > 0 && !wanted.includes(scenario)) continue;
      const { code, stdout, stderr } = await runProgram(process.execPath, {
        args: [
          join(suite, 'dist/index.js'),
          'client',
          '--command',
          `${process.execPath} ${driver}`,
          '--scenario',
          scenario,
          '--spec-version',
          revision,
          // Extensions are on no revision's list.
          '--force',
          '--timeout',
          '45000',
          '-o',
          out,
        ],
        timeoutMs: 60_000,
      });
      const said = stdout + stderr;
      const [, checks = 'none'] = /^Passed: (.*)$/m.exec(said) ?? [];
      const passed =
        code === 0 && /OVERALL: PASSED/.test(said) && !/[1-9]\d* warnings/.test(checks);
      total += 1;
      if (!passed) failures += 1;
      console.log(`| ${scenario} | ${revision} | ${passed ? 'pass' : 'FAIL'} | ${checks} |`);
      if (!passed) console.log(said.split('\n').filter(isTrouble).join('\n'));
    }
  return { failures, total };
}

function isTrouble(line: string): boolean {
  return /FAILURE|WARNING|error|Error|skip/i.test(line);
}

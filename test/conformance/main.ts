/**
 * `npm run conformance -- client [SCENARIO…]`: the official suite's client scenarios about
 * authorization against our proxy, both revisions, one at a time, as a table. Exit code 1 when one
 * fails. `CONFORMANCE_OUT` names a folder that keeps every run's checks.
 */
import { join } from 'node:path';
import { runProgram } from '#support/processes';
import { temporaryFolder } from '#support/temporary-folder';
import { clientScenarios, revisions } from './client-scenarios.ts';

const [kind, ...wanted] = process.argv.slice(2);
if (kind !== 'client') {
  console.error('usage: npm run conformance -- client [SCENARIO…]');
  process.exit(2);
}
await using folder = await temporaryFolder('conformance');
const out = process.env['CONFORMANCE_OUT'] || folder.path;
const suite = join(import.meta.dirname, '../../node_modules/@modelcontextprotocol/conformance');
const driver = join(import.meta.dirname, 'driver.ts');
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
    const passed = code === 0 && /OVERALL: PASSED/.test(said) && !/[1-9]\d* warnings/.test(checks);
    total += 1;
    if (!passed) failures += 1;
    console.log(`| ${scenario} | ${revision} | ${passed ? 'pass' : 'FAIL'} | ${checks} |`);
    if (!passed) console.log(said.split('\n').filter(isTrouble).join('\n'));
  }
console.log(`\n${total - failures} of ${total} pass`);
process.exitCode = failures > 0 ? 1 : 0;

function isTrouble(line: string): boolean {
  return /FAILURE|WARNING|error|Error|skip/i.test(line);
}

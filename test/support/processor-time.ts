/**
 * Runs in each worker with each test file: notes the processor time of the file, with that of the programs that it started and that have
 * ended, in the file that `TEST_PROCESSOR_TIME` names. PostgreSQL, the browser and the worker before the first test are not included.
 */
import { appendFileSync, readFileSync } from 'node:fs';
import { afterAll, beforeAll, expect } from 'vitest';

const noted = process.env['TEST_PROCESSOR_TIME'];
/** How many ticks a second has in Linux’s `/proc`. */
const ticks = 100;

/** The processor time of this process, in seconds; on Linux with that of the child processes that it has waited for. */
function seconds(): number {
  if (process.platform !== 'linux') {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1e6;
  }
  // The name of the program, in parentheses, may contain spaces. Fields 14 to 17 are the times.
  const fields = readFileSync('/proc/self/stat', 'latin1').split(') ').at(-1)?.split(' ') ?? [];
  return fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0) / ticks;
}

if (noted !== undefined) {
  let before = 0;
  beforeAll(() => {
    before = seconds();
  });
  // Runs after the hooks of the test file itself, which end its programs.
  afterAll(() => {
    const file = expect.getState().testPath ?? '';
    appendFileSync(noted, `${JSON.stringify({ file, seconds: seconds() - before })}\n`);
  });
}

import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';

import { startProgram } from '#support/processes';

const suite = join(
  import.meta.dirname,
  '../../node_modules/@modelcontextprotocol/conformance/dist/index.js',
);
const checksOf = z.array(
  z.object({ id: z.string(), status: z.string(), errorMessage: z.string().optional() }),
);

/** The verdict of each check, by scenario and id. */
export type Verdicts = ReadonlyMap<
  string,
  { readonly status: string; readonly errorMessage: string }
>;

/** Runs the suite against the MCP server at `url`: the `wanted` scenarios, or all that the revision requires. Returns the verdicts. */
export async function suiteVerdicts(
  url: string,
  { revision, wanted, out }: { revision: string; wanted: readonly string[]; out: string },
): Promise<Verdicts> {
  const all = new Map<string, { status: string; errorMessage: string }>();
  const sets =
    wanted.length > 0
      ? wanted.map((name) => ['--scenario', name, '--spec-version', revision])
      : [['--requirements', revision]];
  for (const which of sets) {
    const args = [suite, 'server', '--url', url, ...which, '-o', out];
    await using program = startProgram(process.execPath, { args });
    const giveUp = setTimeout(() => program.kill('SIGKILL'), 240_000);
    await program.exited;
    clearTimeout(giveUp);
  }
  if (!existsSync(out)) return all;
  for (const folder of readdirSync(out)) {
    // A scenario of the other era leaves a folder without checks.
    if (!existsSync(join(out, folder, 'checks.json'))) continue;
    const scenario = folder.replace(/^server-/, '').replace(/-\d{4}-\d\d-\d\dT.*$/, '');
    const checks = checksOf.parse(
      JSON.parse(readFileSync(join(out, folder, 'checks.json'), 'utf8')),
    );
    checks.forEach(({ id, status, errorMessage = '' }, n) =>
      all.set(`${scenario} ${id} ${n}`, { status, errorMessage }),
    );
  }
  return all;
}

export function scenariosOf(all: Verdicts): string[] {
  return [...new Set([...all.keys()].map((check) => check.split(' ')[0] ?? ''))].toSorted();
}

/** How many checks of a scenario passed: `3/4`. */
export function passedOf(all: Verdicts, scenario: string): string {
  const checks = [...all].filter(([check]) => check.startsWith(`${scenario} `));
  return `${checks.filter(([, { status }]) => status === 'SUCCESS').length}/${checks.length}`;
}

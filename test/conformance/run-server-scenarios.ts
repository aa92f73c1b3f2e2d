import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { createServer, request } from 'node:http';
import { join } from 'node:path';
import { z } from 'zod';

import { gatewayUnderTest } from '#support/gateway-under-test';
import { listen } from '#support/loopback';
import { startProgram } from '#support/processes';
import { revisions } from './client-scenarios.ts';
import { suiteUpstream } from './suite-upstream.ts';

const suite = join(
  import.meta.dirname,
  '../../node_modules/@modelcontextprotocol/conformance/dist/index.js',
);
const checksOf = z.array(
  z.object({ id: z.string(), status: z.string(), errorMessage: z.string().optional() }),
);

/** The verdict of each check, by scenario and id. */
type Verdicts = ReadonlyMap<string, { readonly status: string; readonly errorMessage: string }>;

/**
 * The suite's server scenarios, both requirement sets, against its own kind of server and against the gateway in
 * front of that: a check that passes there and not here is a failure of the gateway's.
 */
export async function runServerScenarios(
  wanted: readonly string[],
  out: string,
): Promise<{ failures: number; total: number }> {
  const upstream = await suiteUpstream();
  await using stack = new AsyncDisposableStack();
  stack.defer(() => upstream.close());
  const gateway = stack.use(await gatewayUnderTest({ upstreamUrl: upstream.url }));
  const front = stack.use(await keyFront(gateway));
  let failures = 0;
  let total = 0;
  console.log('| scenario | revision | directly | gateway |\n| --- | --- | --- | --- |');
  for (const revision of revisions) {
    const run = async (url: string, place: string) =>
      verdicts(url, { revision, wanted, out: join(out, `${revision} ${place}`) });
    const direct = await run(upstream.url, 'directly');
    const through = await run(front.url, 'gateway');
    for (const scenario of scenariosOf(direct)) {
      const [one, other] = [direct, through].map((all) => passed(all, scenario));
      console.log(`| ${scenario} | ${revision} | ${one} | ${other} |`);
      for (const [check, { status }] of direct) {
        if (!check.startsWith(`${scenario} `)) continue;
        const here = through.get(check);
        total += 1;
        if (status !== 'SUCCESS' || here?.status === 'SUCCESS') continue;
        failures += 1;
        console.log(`${check}: ${here?.status ?? 'missing'} ${here?.errorMessage ?? ''}`);
      }
    }
  }
  return { failures, total };
}

/** A front that adds the key, as the suite sends no credential; a Host of its own becomes the gateway's. */
async function keyFront({ port, key, endpoint }: { port: number; key: string; endpoint: string }) {
  const { pathname: path } = new URL(endpoint);
  const server = createServer((incoming, response) => {
    const { method, headers } = incoming;
    const own = `:${ownPort}`;
    const host = headers.host?.endsWith(own) ? `127.0.0.1:${port}` : headers.host;
    const origin = headers.origin?.endsWith(own) ? `http://127.0.0.1:${port}` : headers.origin;
    const sent = { ...headers, host, 'x-api-key': key, ...(origin !== undefined && { origin }) };
    const outgoing = request({ port, method, path, headers: sent }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
    });
    outgoing.on('error', () => response.destroy());
    response.on('close', () => outgoing.destroy());
    incoming.pipe(outgoing);
  });
  const ownPort = await listen(server);
  return {
    url: `http://127.0.0.1:${ownPort}/mcp`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

async function verdicts(
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

function scenariosOf(all: Verdicts): string[] {
  return [...new Set([...all.keys()].map((check) => check.split(' ')[0] ?? ''))].toSorted();
}

function passed(all: Verdicts, scenario: string): string {
  const checks = [...all].filter(([check]) => check.startsWith(`${scenario} `));
  return `${checks.filter(([, { status }]) => status === 'SUCCESS').length}/${checks.length}`;
}

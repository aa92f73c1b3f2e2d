import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { z } from 'zod';
import { allow } from '#support/consenting-person';
import { freePort } from '#support/loopback';
import { startProgram } from '#support/processes';
import { serverProcess, type ServerProcess } from '#support/server-process';
import { revisions } from './client-scenarios.ts';

const suite = join(
  import.meta.dirname,
  '../../node_modules/@modelcontextprotocol/conformance/dist/index.js',
);
const scenarios = ['authorization-server-metadata-endpoint', 'authorization-code-grant'];
const dana = { email: 'dana@example.com', password: 'correct horse battery staple' };

const checksOf = z.array(
  z.object({ name: z.string(), status: z.string(), errorMessage: z.string().optional() }),
);
const registered = z.object({ client_id: z.string() });

/**
 * Runs the scenarios for authorization servers against ours, as each kind of client that it knows: the proxy, by the
 * server's own document, one that an administrator made, and one that registered itself. `wanted` names scenarios or revisions.
 */
export async function runAuthorizationScenarios(
  wanted: readonly string[],
  out: string,
  print: (line: string) => void,
): Promise<{ failures: number; total: number }> {
  await using server = await serverProcess({ args: ['--demo', '--dynamic-registration'] });
  const add = ['user', 'create', dana.email, '--organization', 'demo', '--role', 'member'];
  await server.command(add, `${dana.password}\n`);
  const isRevision = (word: string) => revisions.some((revision) => revision === word);
  const names = wanted.filter((word) => !isRevision(word));
  const chosen = revisions.filter((one) => wanted.includes(one) || !wanted.some(isRevision));
  let failures = 0;
  let total = 0;
  print('| scenario | client | revision | result | checks |\n| --- | --- | --- | --- | --- |');
  for (const [client, clientId] of Object.entries(await clientsOf(server)))
    for (const revision of chosen) {
      const folder = join(out, `${client} ${revision}`);
      const said = await runAll(server.base, { clientId, revision, out: folder });
      for (const scenario of scenarios) {
        if (names.length > 0 && !names.includes(scenario)) continue;
        const checks = readChecks(folder, scenario);
        const good = checks.filter(({ status }) => status === 'SUCCESS').length;
        const passed = good > 0 && good === checks.length;
        total += 1;
        if (!passed) failures += 1;
        const verdict = `${passed ? 'pass' : 'FAIL'} | ${good}/${checks.length}`;
        print(`| ${scenario} | ${client} | ${revision} | ${verdict} |`);
        for (const { name, status, errorMessage = '' } of checks)
          if (status !== 'SUCCESS') print(`${name}: ${status} ${errorMessage}`);
        if (checks.length === 0) print(said);
      }
    }
  return { failures, total };
}

async function clientsOf(server: ServerProcess): Promise<Record<string, string>> {
  const { base } = server;
  const redirectUri = 'http://127.0.0.1/callback';
  const words = 'client create demo/library --name Suite --json --scope mcp:tools:read';
  const made = await server.command([...words.split(' '), '--redirect-uri', redirectUri]);
  const answer = await fetch(`${base}/api/oauth/register`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      client_name: 'Suite',
      redirect_uris: [redirectUri],
      token_endpoint_auth_method: 'none',
      application_type: 'native',
    }),
  });
  return {
    document: `${base}/oauth/clients/latchkey.json`,
    made: registered.parse(JSON.parse(made)).client_id,
    registered: registered.parse(await answer.json()).client_id,
  };
}

/** Runs both scenarios, because the grant scenario needs the metadata; a person allows the page that it shows. Returns all output. */
async function runAll(
  base: string,
  asked: { clientId: string; revision: string; out: string },
): Promise<string> {
  const resource = `${base}/mcp/demo/library`;
  const port = String(await freePort());
  const where = ['--url', base, '--resource', resource, '-p', port];
  const who = ['--client-id', asked.clientId, '--spec-version', asked.revision];
  await using program = startProgram(process.execPath, {
    args: [suite, 'authorization', ...where, ...who, '-o', asked.out],
  });
  const [page] = await program.line(/^http:\S+\/oauth\/consent\?\S+$/m);
  await redirected(await allow(new URL(page), dana));
  const giveUp = setTimeout(() => program.kill('SIGKILL'), 120_000);
  await program.exited;
  clearTimeout(giveUp);
  return program.stdout + program.stderr;
}

/** Opens the suite's redirect URI. On a busy machine, the suite prints the page before it listens there. */
async function redirected(url: URL): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      await fetch(url);
      return;
    } catch (error) {
      if (attempt === 100) throw error;
      await pause(100);
    }
  }
}

function readChecks(folder: string, scenario: string): z.infer<typeof checksOf> {
  const run = readdirSync(folder).find((name) => name.includes(scenario));
  if (run === undefined) return [];
  return checksOf.parse(JSON.parse(readFileSync(join(folder, run, 'checks.json'), 'utf8')));
}

import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';

import { startProgram } from '#support/processes';
import { launcher as agentLauncher } from '#support/proxy-process';
import { runCommandInProcess } from '#support/run-command-in-process';
import { runningServer } from '#support/running-server';
import { temporaryFolder } from '#support/temporary-folder';
import { keyFront } from './key-front.ts';

/** The kinds of upstream by which the gateway reaches the suite's MCP server. */
export const upstreamKinds = ['http', 'stdio', 'agent'] as const;
export type SuiteUpstreamKind = (typeof upstreamKinds)[number];

/** The gateway in front of the suite's MCP server, over the wanted kinds of upstream. */
export interface SuiteGateway extends AsyncDisposable {
  /** The URLs for the suite, by kind of upstream. */
  readonly urls: ReadonlyMap<SuiteUpstreamKind, string>;
}

const made = z.object({ key: z.string() });
const command = {
  command: process.execPath,
  args: [join(import.meta.dirname, 'suite-stdio.ts')],
};

/** Starts a real server, and a real agent if `kinds` includes it. `httpUrl` is the URL of the suite's MCP server itself. */
export async function suiteGateway(
  httpUrl: string,
  kinds: readonly SuiteUpstreamKind[],
): Promise<SuiteGateway> {
  await using stack = new AsyncDisposableStack();
  const { path: dataDir } = stack.use(await temporaryFolder('suite'));
  const stdioFile = join(dataDir, 'stdio.json');
  await writeFile(stdioFile, JSON.stringify({ servers: { 'acme/stdio': command } }), {
    mode: 0o600,
  });
  await runCommandInProcess(['organization', 'create', 'acme', '--data-dir', dataDir]);
  const args = kinds.includes('stdio') ? ['--stdio-servers', stdioFile] : [];
  const server = stack.use(await runningServer({ dataDir, args }));
  if (kinds.includes('http'))
    await server.command('server', 'create', 'acme/http', '--http-url', httpUrl);
  if (kinds.includes('agent')) {
    const agent = made.parse(await server.command('agent', 'create', 'acme/berlin'));
    await server.command('server', 'create', 'acme/agent', '--agent', 'berlin');
    const config = join(dataDir, 'agent.json');
    await writeFile(config, JSON.stringify({ servers: { agent: command } }));
    const running = stack.use(
      startProgram(process.execPath, {
        args: [agentLauncher, 'agent', '--server-url', server.base, '--config', config],
        env: { HOME: dataDir, LATCHKEY_AGENT_KEY: agent.key },
        endLimitMs: 20_000,
      }),
    );
    await running.line(/serving agent/);
  }

  const url = async (name: SuiteUpstreamKind) => {
    const { key } = made.parse(
      await server.command('key', 'create', `acme/${name}`, '--name', 'k'),
    );
    return stack.use(await keyFront(`${server.base}/mcp/acme/${name}`, key)).url;
  };
  const urls = new Map<SuiteUpstreamKind, string>();
  for (const kind of kinds) urls.set(kind, await url(kind));
  const started = stack.move();
  return { urls, [Symbol.asyncDispose]: () => started.disposeAsync() };
}

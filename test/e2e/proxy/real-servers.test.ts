/** Servers from npm that others wrote: an assistant finds the same through the proxy as without it. */
import { join } from 'node:path';
import { StreamableHTTPClientTransport as ModernHttp } from '@modelcontextprotocol/client';
import { StdioClientTransport as ModernStdio } from '@modelcontextprotocol/client/stdio';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { StdioClientTransport as LegacyStdio } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport as LegacyHttp } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import { writeFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { freePort } from '#support/loopback';
import { startProgram, type Program } from '#support/processes';
import { inherited } from '#support/programs';
import { launcher } from '#support/proxy-process';
import { everything, files, memory } from '#support/reference-itineraries';
import { legacySurvey, modernSurvey, type Itinerary } from '#support/server-survey';
import { temporaryFolder } from '#support/temporary-folder';

const modules = join(import.meta.dirname, '../../../node_modules');
const official = (name: string) => join(modules, '@modelcontextprotocol', name, 'dist/index.js');

/** How an assistant starts the proxy for `url`. */
const throughProxy = (url: string, home: string) => ({
  command: process.execPath,
  args: [launcher, url],
  env: {
    ...inherited,
    HOME: home,
    LATCHKEY_API_KEY: `mcp_${'k'.repeat(36)}`,
    LATCHKEY_LOG_LEVEL: 'error',
  },
});

/** The SDK's types do not fit `exactOptionalPropertyTypes`. */
// oxlint-disable-next-line typescript/no-unsafe-type-assertion
const bare = (transport: unknown) => transport as Transport;

async function startedEverything(transport: 'streamableHttp' | 'sse') {
  const port = await freePort();
  const args = [official('server-everything'), transport];
  const program = startProgram(process.execPath, { args, env: { PORT: String(port) } });
  await program.line(/on port/, { stream: 'stderr', timeoutMs: 60_000 });
  return { program, origin: `http://127.0.0.1:${port}` };
}

/** A server on standard input and output behind an HTTP front that is not ours either. */
async function behindMcpProxy(args: string[], env: Record<string, string> = {}) {
  const port = String(await freePort());
  const front = join(modules, 'mcp-proxy/dist/bin/mcp-proxy.mjs');
  const own = ['--host', '127.0.0.1', '--port', port, '--gracefulShutdownTimeout', '100'];
  const program = startProgram(process.execPath, {
    args: [front, ...own, '--', process.execPath, ...args],
    env,
  });
  const url = `http://127.0.0.1:${port}/mcp`;
  await answering(program, url);
  return { program, url };
}

async function answering(program: Program, url: string): Promise<void> {
  const gone = program.exited.then(() => Promise.reject(new Error(program.stderr)));
  const tried = async (): Promise<void> => {
    const ready = await fetch(url, { method: 'DELETE' }).then(
      () => true,
      () => false,
    );
    if (!ready) await tried();
  };
  await Promise.race([tried(), gone]);
}

function names({ tools, task }: Itinerary): Set<string> {
  return new Set([...tools, ...(task ? [task] : [])].map(({ name }) => name));
}

const offered = (survey: Record<string, unknown>) =>
  JSON.parse(JSON.stringify(survey['tools'])).map(({ name }: { name: string }) => name);

test.each(['streamableHttp', 'sse'] as const)(
  'MCP reference server over %s: same answers through the proxy as without it',
  async (transport) => {
    await using home = await temporaryFolder('real');
    const { program, origin } = await startedEverything(transport);
    await using _ = program;
    const url = `${origin}${transport === 'sse' ? '/sse' : '/mcp'}`;
    const direct =
      transport === 'sse' ? new SSEClientTransport(new URL(url)) : new LegacyHttp(new URL(url));
    // One after the other: a resource that a session makes replaces that of another session.
    const without = await legacySurvey(bare(direct), everything);
    const through = await legacySurvey(new LegacyStdio(throughProxy(url, home.path)), everything);

    expect(through).toEqual(without);
    expect(names(everything)).toEqual(new Set([...offered(without), 'no-such-tool']));
    expect(without['progress']).toHaveLength(3);
    expect(without['asked']).toHaveLength(4);
    expect(JSON.stringify(without['task'])).toContain('# Research Report: eras');
    expect(without['updated']).not.toEqual([]);
  },
);

test.each(['filesystem', 'memory'] as const)(
  '%s server behind an independent HTTP front: same answers through the proxy, for both eras',
  async (name) => {
    await using home = await temporaryFolder('real');
    await using folder = await temporaryFolder('files');
    await writeFile(join(folder.path, 'dot.png'), Buffer.from([0x89, 0x50, 0x4e, 0x47]));
    const itinerary = name === 'memory' ? memory : files(folder.path);
    const { program, url } = await behindMcpProxy([official(`server-${name}`), folder.path], {
      MEMORY_FILE_PATH: join(folder.path, 'memory.jsonl'),
    });
    await using _ = program;
    const legacy = await legacySurvey(bare(new LegacyHttp(new URL(url))), itinerary);
    const modern = await modernSurvey(new ModernHttp(new URL(url)), itinerary);
    const proxy = throughProxy(url, home.path);

    expect(await legacySurvey(new LegacyStdio(proxy), itinerary)).toEqual(legacy);
    expect(await modernSurvey(new ModernStdio(proxy), itinerary)).toEqual(modern);
    expect(names(itinerary)).toEqual(new Set(offered(legacy)));
  },
);

/**
 * A collection of three reference servers, one over HTTP, one as a command of this machine and one behind an agent. An
 * assistant gets from it, call by call, what it gets from each member alone, and a member that is down does not affect the others.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { mkdir, rename, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport as ModernStdio } from '@modelcontextprotocol/client/stdio';
import { Client as LegacyClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport as LegacyStdio } from '@modelcontextprotocol/sdk/client/stdio.js';
import { ListRootsRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { z } from 'zod';

import { freePort } from './loopback.ts';
import { layOutDatabase } from './open-database.ts';
import { patient } from './patient.ts';
import { startProgram, type Program } from './processes.ts';
import { inherited } from './programs.ts';
import { launcher } from './proxy-process.ts';
import { everything, files, memory } from './reference-itineraries.ts';
import { runCommandInProcess } from './run-command-in-process.ts';
import { runningAgent, type RunningAgent } from './running-agent.ts';
import { runningServer, type RunningServer } from './running-server.ts';
import { legacySurvey, modernSurvey, type Itinerary, type Survey } from './server-survey.ts';
import { temporaryFolder } from './temporary-folder.ts';

const packages = join(import.meta.dirname, '../../node_modules/@modelcontextprotocol');
const official = (name: string) => join(packages, name, 'dist/index.js');
const commandOf = (name: string, ...args: string[]) => ({
  command: process.execPath,
  args: [official(name), ...args],
});
const made = z.object({ key: z.string() });
const info = { name: 'a', version: '1' };
let stack = new AsyncDisposableStack();
let server: RunningServer;
let folder: string;
let httpServer: { program: Program; port: number };
let agent: RunningAgent;
let agentKey: string;

async function startedEverything(port: number): Promise<Program> {
  const args = [official('server-everything'), 'streamableHttp'];
  const program = stack.use(startProgram(process.execPath, { args, env: { PORT: String(port) } }));
  await program.line(/on port/, { stream: 'stderr', timeoutMs: 60_000 });
  return program;
}

async function startedAgent(): Promise<RunningAgent> {
  const filesystem = commandOf('server-filesystem', join(folder, 'files'));
  return stack.use(await runningAgent(server.base, agentKey, { filesystem }));
}

type Pairs = readonly (readonly [member: string, assistant: string])[];

/** In `surveys`, the assistant looks at the member; in `restarts`, the member is killed while the assistant calls all members. */
export interface CollectedCases {
  readonly surveys: Pairs;
  readonly restarts: Pairs;
}

/** Defines the tests of the file. */
export function testCollectedServers(cases: CollectedCases): void {
  beforeAll(startAll);
  afterAll(() => stack.disposeAsync());
  testSurveys(cases.surveys);
  testRoots();
  testRestarts(cases.restarts);
}

async function startAll(): Promise<void> {
  // A worker may run both files.
  stack = new AsyncDisposableStack();
  folder = stack.use(await temporaryFolder('collections')).path;
  const dataDir = stack.use(await temporaryFolder('collections-data')).path;
  await mkdir(join(folder, 'files'));
  await writeFile(join(folder, 'files/dot.png'), Buffer.from([0x89, 0x50, 0x4e, 0x47]));
  const port = await freePort();
  httpServer = { program: await startedEverything(port), port };
  await symlink(official('server-memory'), memoryScript());
  const stdio = {
    command: process.execPath,
    args: [memoryScript()],
    env: { MEMORY_FILE_PATH: join(folder, 'memory.jsonl') },
  };
  const file = join(dataDir, 'stdio.json');
  await writeFile(file, JSON.stringify({ servers: { 'acme/memory': stdio } }), { mode: 0o600 });
  await layOutDatabase(dataDir);
  await runCommandInProcess(['organization', 'create', 'acme', '--data-dir', dataDir]);
  server = stack.use(await runningServer({ dataDir, args: ['--stdio-servers', file] }));
  const url = `http://127.0.0.1:${port}/mcp`;
  await server.command('server', 'create', 'acme/everything', '--http-url', url);
  agentKey = made.parse(await server.command('agent', 'create', 'acme/berlin')).key;
  await server.command('server', 'create', 'acme/filesystem', '--agent', 'berlin');
  agent = await startedAgent();
  const members = ['everything', 'memory', 'filesystem'].flatMap((one) => ['--member', one]);
  await server.command('collection', 'create', 'acme/tools', ...members);
}

/** The script that the command of the memory server runs. While the script is renamed, the command fails. */
const memoryScript = () => join(folder, 'memory-server.js');

/** How an assistant starts the proxy for a server. */
async function through(name: string) {
  const { key } = made.parse(await server.command('key', 'create', `acme/${name}`, '--name', 'k'));
  return {
    command: process.execPath,
    args: [launcher, `${server.base}/mcp/acme/${name}`],
    env: { ...inherited, HOME: folder, LATCHKEY_API_KEY: key, LATCHKEY_LOG_LEVEL: 'error' },
  };
}

/** The itinerary of each member, without a tool and a resource that no member has: the collection refuses those in its own words. */
const itineraries: Readonly<Record<string, () => Itinerary>> = {
  everything: () => ({
    ...everything,
    tools: everything.tools.filter(({ name }) => name !== 'no-such-tool'),
    resources: everything.resources?.filter((uri) => !uri.endsWith('/nowhere')) ?? [],
  }),
  memory: () => memory,
  filesystem: () => files(join(folder, 'files')),
};

/** Every member, and every kind of assistant. */
export const memberNames = ['everything', 'memory', 'filesystem'] as const;
export const assistantNames = ['SDK 1', 'SDK 2, older era', 'SDK 2, modern era'] as const;

const assistants: Readonly<
  Record<string, (proxy: Awaited<ReturnType<typeof through>>, it: Itinerary) => Promise<Survey>>
> = {
  'SDK 1': (proxy, itinerary) => legacySurvey(new LegacyStdio(proxy), itinerary),
  'SDK 2, older era': (proxy, it) => modernSurvey(new ModernStdio(proxy), it, 'legacy'),
  'SDK 2, modern era': (proxy, it) => modernSurvey(new ModernStdio(proxy), it),
};

function testSurveys(chosen: Pairs): void {
  test.each(chosen)(
    '%s in a collection: %s finds what it finds there alone',
    async (member, assistant) => {
      const [itinerary, survey] = [entry(itineraries, member), entry(assistants, assistant)];
      const alone = await survey(await through(member), itinerary());
      const collected = await survey(await through('tools'), itinerary());

      expect(ofMember(collected, alone)).toEqual(ofMember(alone, alone));
    },
  );
}

const named = z.looseObject({ name: z.string(), uri: z.string().optional() });
const lists = z.looseObject({
  tools: z.array(named),
  resources: z.array(named),
  templates: z.looseObject({ resourceTemplates: z.array(named).default([]) }),
  prompts: z.looseObject({ prompts: z.array(named).default([]) }),
  read: z.array(z.unknown()),
});

/** A survey sorted by name, without items that only other members list, and without the fields that describe one server as a whole. */
function ofMember(found: Survey, alone: Survey): unknown {
  const { version: _, instructions: __, offered: ___, ...all } = lists.parse(found);
  const own = lists.parse(alone);
  const uris = new Set(own.resources.map(({ uri }) => uri));
  const foreign = all.resources.flatMap(({ uri }) => (uris.has(uri) ? [] : [`"uri":"${uri}"`]));
  return {
    ...all,
    tools: common(all.tools, own.tools),
    resources: common(all.resources, own.resources),
    templates: common(all.templates.resourceTemplates, own.templates.resourceTemplates),
    prompts: common(all.prompts.prompts, own.prompts.prompts),
    read: all.read
      .map((one) => JSON.stringify(one))
      .filter((text) => !foreign.some((uri) => text.includes(uri)))
      .toSorted(),
  };
}

function common(
  found: readonly z.output<typeof named>[],
  own: readonly { readonly name: string }[],
) {
  const names = new Set(own.map(({ name }) => name));
  return found
    .filter(({ name }) => names.has(name))
    .toSorted((one, other) => (one.name < other.name ? -1 : 1));
}

function testRoots(): void {
  test('SDK 1: changed roots of an assistant reach the member that asked for them', async () => {
    const client = new LegacyClient(info, { capabilities: { roots: { listChanged: true } } });
    let uri = 'file:///srv/before';
    client.setRequestHandler(ListRootsRequestSchema, () => ({ roots: [{ uri, name: 'project' }] }));
    await client.connect(new LegacyStdio(await through('tools')));
    const roots = async () => JSON.stringify(await client.callTool({ name: 'get-roots-list' }));
    await expect.poll(roots, patient).toContain(uri);

    uri = 'file:///srv/after';
    await client.sendRootsListChanged();

    await expect.poll(roots, patient).toContain(uri);
    await client.close();
  });
}

type Outcomes = Readonly<Record<string, string[]>>;
const noOutcomes = (): Outcomes => ({ everything: [], memory: [], filesystem: [] });

/** Calls a tool of each member, again and again, until `over` is true and all of the tools answer. Adds each result to `outcomes`. */
async function callAll(
  client: Caller,
  outcomes: Outcomes,
  over: () => boolean = () => true,
): Promise<void> {
  const calls = {
    everything: { name: 'echo', arguments: { message: 'hello' } },
    memory: { name: 'read_graph', arguments: {} },
    filesystem: { name: 'list_allowed_directories', arguments: {} },
  };
  const got = await Promise.all(
    Object.entries(calls).map(async ([member, call]) => {
      const outcome = await client.callTool(call).then(
        ({ isError }) => (isError ? 'failed' : 'answered'),
        (error: unknown) => String(error),
      );
      outcomes[member]?.push(outcome);
      return outcome;
    }),
  );
  const { tools } = await client.listTools();
  expect(tools.length).toBeGreaterThan(35);
  if (!over() || got.some((one) => one !== 'answered')) await callAll(client, outcomes, over);
}

/** Kills a member and starts it again. `memory` starts again only after `failed`, which waits until a call was refused. */
const restarts: Readonly<Record<string, (failed: () => Promise<void>) => Promise<void>>> = {
  everything: async () => {
    httpServer.program.kill('SIGKILL');
    await httpServer.program.exited;
    httpServer = { ...httpServer, program: await startedEverything(httpServer.port) };
  },
  memory: async (failed) => {
    const children = pidsOf(memoryScript());
    expect(children).not.toEqual([]);
    await rename(memoryScript(), `${memoryScript()}.away`);
    for (const pid of children) process.kill(pid, 'SIGKILL');
    await failed();
    await rename(`${memoryScript()}.away`, memoryScript());
  },
  filesystem: async () => {
    agent.program.kill('SIGKILL');
    await agent.program.exited;
    agent = await startedAgent();
  },
};

/** The processes that run a script. */
function pidsOf(script: string): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').includes(script);
      } catch {
        return false; // It ended meanwhile.
      }
    })
    .map(Number);
}

type Caller = Pick<Client, 'callTool' | 'listTools' | 'close'> | LegacyClient;
const newerClient = async (mode: 'auto' | 'legacy') => {
  const client = new Client(info, { versionNegotiation: { mode } });
  await client.connect(new ModernStdio(await through('tools')));
  return client;
};
const callers: Readonly<Record<string, () => Promise<Caller>>> = {
  'SDK 1': async () => {
    const client = new LegacyClient(info);
    await client.connect(new LegacyStdio(await through('tools')));
    return client;
  },
  'SDK 2, older era': () => newerClient('legacy'),
  'SDK 2, modern era': () => newerClient('auto'),
};

function testRestarts(chosen: Pairs): void {
  test.each(chosen)(
    '%s is killed and started again: no call of another member fails (%s)',
    async (member, assistant) => {
      const restart = entry(restarts, member);
      const client = await entry(callers, assistant)();
      await callAll(client, noOutcomes());
      const outcomes = noOutcomes();
      const { [member]: own = [], ...others } = outcomes;
      const isRefused = () => own.some((one) => one.includes(`${member}: `));
      let isOver = false;
      const restarted = restart(() =>
        vi.waitFor(() => expect(isRefused()).toBe(true), patient),
      ).finally(() => {
        isOver = true;
      });

      await callAll(client, outcomes, () => isOver);

      await restarted;
      expect(new Set(Object.values(others).flat())).toEqual(new Set(['answered']));
      expect(isRefused()).toBe(true);
      expect(own.at(-1)).toBe('answered');
      await client.close();
    },
  );
}

function entry<Value>(of: Readonly<Record<string, Value>>, name: string): Value {
  const value = of[name];
  if (value === undefined) throw new Error(`there is no '${name}'`);
  return value;
}

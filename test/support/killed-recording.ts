import { randomBytes } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { onTestFinished } from 'vitest';

import { openStores, type Stores } from '#server/app/stores';
import { freePort } from './loopback.ts';
import { mcpCall, rpc } from './mcp-call.ts';
import { clusterStores, createDatabase } from './node-cluster.ts';
import { startProgram } from './processes.ts';
import { serverLauncher } from './programs.ts';
import { runCommandInProcess } from './run-command-in-process.ts';
import { temporaryFolder } from './temporary-folder.ts';
import { recordingUpstream, sendJson } from './upstreams/recording-upstream.ts';

/** The calls of a server that is killed again and again during calls, and its call records at the end. */
export interface KilledRecording {
  /** When each call was answered, by the name of its tool, and when the server was killed after that. */
  readonly answered: ReadonlyMap<string, { readonly atMs: number; readonly killedAtMs: number }>;
  /** The names of the tools that reached the MCP server. */
  readonly executed: ReadonlySet<string>;
  readonly rows: readonly { readonly subject: string; readonly outcome: string }[];
}

const callers = 4;
/** With this header, no call waits for a handshake of the gateway. */
const versions = { 'mcp-protocol-version': '2025-06-18' };

export interface Killing {
  readonly args?: readonly string[];
  readonly signal?: NodeJS.Signals;
  readonly database?: 'SQLite' | 'PostgreSQL';
  /** The pause of each caller between two calls; none by default. */
  readonly pauseMs?: number;
  /** Whether a life counts from its first answer, which a busy machine delays; else from the start. */
  readonly isFromAnswer?: boolean;
}

/** Starts a server, calls it with numbered tools, and ends it by `signal` after each of `livesMs`. */
export async function killedWhileRecording(
  livesMs: readonly number[],
  {
    args = [],
    signal = 'SIGKILL',
    database = 'SQLite',
    pauseMs = 0,
    isFromAnswer = false,
  }: Killing = {},
): Promise<KilledRecording> {
  const upstream = await recordingUpstream();
  onTestFinished(() => upstream[Symbol.asyncDispose]());
  const executed = new Set<string>();
  upstream.answer = ({ body }, response) => {
    const text = body.toString();
    const name = /"name":"(tool-\d+)"/.exec(text)?.[1];
    if (name !== undefined) executed.add(name);
    const id = /"id":(\d+)/.exec(text)?.[1] ?? 'null';
    sendJson(response, `{"jsonrpc":"2.0","id":${id},"result":{"content":[]}}`);
  };
  const stack = new AsyncDisposableStack();
  onTestFinished(() => stack.disposeAsync());
  const { place, command, open } = await dataPlace(database, stack);
  await command('organization', 'create', 'acme');
  await command('server', 'create', 'acme/fixture', '--http-url', upstream.url);
  const made = await command('key', 'create', 'acme/fixture', '--name', 'k', '--json');
  const { key } = JSON.parse(made);
  const port = await freePort();
  const endpoint = `http://127.0.0.1:${port}/mcp/acme/fixture`;
  const answered = new Map<string, { readonly atMs: number; readonly killedAtMs: number }>();
  let sent = 0;

  for (const lifeMs of livesMs) {
    const program = startProgram(process.execPath, {
      args: [serverLauncher, 'start', '--port', String(port), ...place, ...args],
    });
    onTestFinished(async () => void (await program.end()));
    await program.line(/^listening on /m);
    const inThisLife = new Map<string, number>();
    const first = Promise.withResolvers<void>();
    const caller = async () => {
      for (;;) {
        const name = `tool-${(sent += 1)}`;
        const body = rpc('tools/call', { name });
        const answer = await mcpCall(endpoint, { key, body, headers: versions }).catch(
          () => undefined,
        );
        if (answer?.status !== 200) return;
        inThisLife.set(name, Date.now());
        first.resolve();
        if (pauseMs > 0) await pause(pauseMs);
      }
    };
    const calling = Promise.all(Array.from({ length: callers }, caller));
    if (isFromAnswer) await Promise.race([first.promise, calling]);
    await pause(lifeMs);
    const killedAtMs = Date.now();
    program.kill(signal);
    await calling;
    await program.exited;
    for (const [name, atMs] of inThisLife) answered.set(name, { atMs, killedAtMs });
  }
  const stores = await open();
  const rows = await stores.db.selectFrom('call_record').select(['subject', 'outcome']).execute();
  await stores.close();
  return {
    answered,
    executed,
    rows: rows.map(({ subject, outcome }) => ({ subject: subject ?? '', outcome })),
  };
}

interface DataPlace {
  /** Options of `start`. */
  readonly place: readonly string[];
  readonly command: (...words: string[]) => Promise<string>;
  readonly open: () => Promise<Stores>;
}

async function dataPlace(
  database: 'SQLite' | 'PostgreSQL',
  stack: AsyncDisposableStack,
): Promise<DataPlace> {
  const { path } = stack.use(await temporaryFolder('killed'));
  const folder = ['--data-dir', path];
  if (database === 'SQLite') {
    const command = (...words: string[]) => runCommandInProcess([...words, ...folder]);
    return { place: folder, command, open: () => openStores(path) };
  }
  const masterKey = join(path, 'master.key');
  await writeFile(masterKey, randomBytes(32).toString('base64'), { mode: 0o600 });
  const databaseUrl = await createDatabase(stack);
  const shared = ['--database-url', databaseUrl];
  const command = (...words: string[]) => runCommandInProcess([...words, ...shared]);
  return {
    place: [...folder, ...shared, '--master-key-file', masterKey],
    command,
    open: () => clusterStores({ databaseUrl }),
  };
}

/** Lengths of lives from one to 4,500 ms that follow no pattern and are the same in each run. */
export function moments(count: number): readonly number[] {
  return Array.from({ length: count }, (_, at) => 1 + ((at * 1_103 + 617) % 4500));
}

/** The calls that were recorded more than once. */
export function twice({ rows }: KilledRecording): readonly string[] {
  const seen = new Set<string>();
  return rows.flatMap(({ subject }) => {
    if (seen.has(subject)) return [subject];
    seen.add(subject);
    return [];
  });
}

/** The promise of docs/activity.md: a process that is killed loses at most the rows of the last second. */
export const promisedMs = 1000;

/** How long before the kill the lost calls were answered, in milliseconds, the longest first. */
export function agesOfLost(recording: KilledRecording): readonly number[] {
  const { answered } = recording;
  return lost(recording, answered.keys())
    .flatMap((name) => {
      const times = answered.get(name);
      return times ? [times.killedAtMs - times.atMs] : [];
    })
    .toSorted((one, other) => other - one);
}

/** The calls in `of` that are not recorded. */
export function lost({ rows }: KilledRecording, of: Iterable<string>): readonly string[] {
  const recorded = new Set(rows.map(({ subject }) => subject));
  return [...of].filter((name) => !recorded.has(name));
}

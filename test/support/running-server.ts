import { z } from 'zod';
import { openStores, type Stores } from '#server/app/stores';
import { freePort } from './loopback.ts';
import { clusterStores, nodeCluster, type NodePrograms, nodesOfTests } from './node-cluster.ts';
import { layOutDatabase } from './open-database.ts';
import { runProgram, startProgram } from './processes.ts';
import { natsUrl } from './requirements.ts';
import { runCommandInProcess } from './run-command-in-process.ts';
import { temporaryFolder } from './temporary-folder.ts';
import { serverLauncher, serverStart } from './programs.ts';

/** The script that `node` runs as `latchkey-server`. */
export { serverLauncher as launcher } from './programs.ts';

/** Latchkey's secrets by their shape, and JWTs. Client ids are no secrets. */
const secretShape =
  /(?:secret|pk_live|mcp|code|rt|pat|scim)_[0-9A-Za-z]{36}|whsec_[\w+/]{43}=|eyJ[\w-]+\.[\w-]+\.[\w-]+/g;

const jsonObject = z.record(z.string(), z.unknown());

export interface RunningServerOptions {
  /** The script that `node` runs; by default `serverLauncher`. */
  readonly launcher?: string;
  /** More arguments, behind `start --port … --data-dir …`. */
  readonly args?: readonly string[];
  /** Added to its environment. */
  readonly env?: Readonly<Record<string, string>>;
  /** The data of an earlier server; by default a fresh folder with an empty, migrated database. */
  readonly dataDir?: string;
}

/** A JSON document with an object at its root. */
export type JsonObject = z.infer<typeof jsonObject>;

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** The body; an empty object when it is no JSON object. */
  readonly json: JsonObject;
}

/** `latchkey-server start` as a process of its own, on a free port and in a folder of its own. */
export interface RunningServer extends AsyncDisposable {
  /** `http://127.0.0.1:PORT` */
  readonly base: string;
  readonly port: number;
  readonly dataDir: string;
  /** Opens its database, as another process does. */
  readonly openStores: () => Promise<Stores>;
  /** The process, with all that it has printed so far. */
  readonly program: NodePrograms;
  /** Every secret, key and token that ever came out: of a command, an answer or the first start. */
  readonly issued: ReadonlySet<string>;

  /**
   * Runs an administrative command with `--json`, in the process of the test; the JSON that it printed.
   *
   *     await server.command('key', 'create', 'acme/fixture', '--name', 'laptop');
   *
   * @throws {Error} with its message, when it fails
   */
  command(...words: string[]): Promise<unknown>;

  /** Runs a command as a person does, without `--json` and as a separate process; its stdout. */
  commandText(...words: string[]): Promise<string>;

  /** `fetch` at this server: `path` begins with a slash. Redirects are not followed. */
  request(path: string, init?: RequestInit): Promise<Answer>;

  /** POSTs a form; a string is sent as it is. */
  post(
    path: string,
    form: Readonly<Record<string, string>> | string,
    headers?: Readonly<Record<string, string>>,
  ): Promise<Answer>;
}

export async function runningServer({
  launcher = serverLauncher,
  args = [],
  env = {},
  dataDir: given,
}: RunningServerOptions = {}): Promise<RunningServer> {
  // Moved to the caller at the end; until then a failure disposes of what was started.
  await using stack = new AsyncDisposableStack();
  const {
    base,
    port,
    dataDir,
    program,
    openStores: open,
    place,
  } = nodesOfTests > 1
    ? await clusterAsServer(stack, { args, env, dataDir: given })
    : await oneProcess(stack, { launcher, args, env, dataDir: given });

  const issued = new Set<string>();
  const noted = (text: string): string => {
    for (const [secret] of text.matchAll(secretShape)) issued.add(secret);
    return text;
  };
  noted(program.stdout);

  const run = async (words: readonly string[]): Promise<string> => {
    const { code, stdout, stderr } = await runProgram(process.execPath, {
      args: [launcher, ...words, ...place],
    });
    if (code !== 0) throw new Error(`latchkey-server ${words.join(' ')}: ${stderr}`);
    return noted(stdout);
  };
  const request = async (path: string, init: RequestInit = {}): Promise<Answer> => {
    const response = await fetch(base + path, { redirect: 'manual', ...init });
    const text = noted(await response.text());
    return { status: response.status, headers: response.headers, text, json: parsed(text) };
  };
  const started = stack.move();
  return {
    base,
    port,
    dataDir,
    openStores: open,
    program,
    issued,
    command: async (...words) =>
      JSON.parse(noted(await runCommandInProcess([...words, '--json', ...place]))),
    commandText: (...words) => run(words),
    request,
    post: (path, form, headers = {}) =>
      request(path, {
        method: 'POST',
        headers: { 'Content-Type': 'application/x-www-form-urlencoded', ...headers },
        body: typeof form === 'string' ? form : new URLSearchParams(form).toString(),
      }),
    [Symbol.asyncDispose]: () => started.disposeAsync(),
  };
}

/** A server that was started, as one process or as several nodes. */
interface StartedServer {
  readonly base: string;
  readonly port: number;
  readonly dataDir: string;
  readonly openStores: () => Promise<Stores>;
  readonly program: NodePrograms;
  /** The options that tell an administrative command where the data is. */
  readonly place: readonly string[];
}

async function oneProcess(
  stack: AsyncDisposableStack,
  {
    launcher,
    args,
    env,
    dataDir: given,
  }: Required<Omit<RunningServerOptions, 'dataDir'>> & GivenData,
): Promise<StartedServer> {
  const dataDir = given ?? stack.use(await temporaryFolder('server')).path;
  if (given === undefined) await layOutDatabase(dataDir);
  const place = ['--data-dir', dataDir];
  const program = stack.use(
    startProgram(process.execPath, {
      args: [...serverStart(launcher), '--port', String(await freePort()), ...place, ...args],
      env,
    }),
  );
  const [, base = '', port = ''] = await program.line(
    /^listening on (http:\S+:(\d+))(?: with \d+ processes)?$/m,
  );
  return {
    base,
    port: Number(port),
    dataDir,
    openStores: () => openStores(dataDir),
    program,
    place,
  };
}

/** Several nodes on a shared database, used as if they were one server. */
async function clusterAsServer(
  stack: AsyncDisposableStack,
  { args, env, dataDir }: Required<Pick<RunningServerOptions, 'args' | 'env'>> & GivenData,
): Promise<StartedServer> {
  if (dataDir !== undefined) throw new Error('this test needs the data directory of one server');
  const size = nodesOfTests;
  const words = ['--nats-url', natsUrl(), ...args];
  const cluster = stack.use(await nodeCluster({ size, args: words, env }));
  return {
    ...cluster,
    openStores: () => clusterStores(cluster),
    place: ['--database-url', cluster.databaseUrl],
  };
}

interface GivenData {
  readonly dataDir: string | undefined;
}

function parsed(text: string): JsonObject {
  try {
    return jsonObject.parse(JSON.parse(text));
  } catch {
    return {};
  }
}

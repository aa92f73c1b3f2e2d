import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import { setTimeout as pause } from 'node:timers/promises';
import { Client, Pool } from 'pg';
import { openPostgresStores, type Stores } from '#server/app/stores';
import { balance } from './balancer.ts';
import { freePort, listen } from './loopback.ts';
import { startProgram, type LineOptions, type Program, type ProgramOptions } from './processes.ts';
import { serverStart } from './programs.ts';
import { postgresUrl } from './requirements.ts';
import { runCommandInProcess } from './run-command-in-process.ts';
import { temporaryFolder } from './temporary-folder.ts';

/** How many nodes the server of a test consists of: `TEST_NODES`, 1 unless it is set. */
export const nodesOfTests = Number(process.env['TEST_NODES'] ?? 1);

/** One `latchkey-server start` process of a cluster. A request with `X-Test-Node: NAME` reaches this one. */
export interface ClusterNode {
  readonly name: string;
  readonly port: number;
  readonly program: Program;
}

/**
 * Nodes that share one PostgreSQL database, behind a balancer that picks one at random for each request. After a 503 with `Retry-After` it
 * sends the request again, as callers do: a node refuses calls that way while the database or another node takes longer than a second to
 * answer, which happens on a busy machine. A request with `X-Test-Once` gets the first answer.
 */
export interface NodeCluster extends AsyncDisposable {
  /** The URL of the balancer, with the host name that browsers use. */
  readonly base: string;
  /** Where the balancer listens. */
  readonly port: number;
  readonly nodes: readonly ClusterNode[];
  /** For each WebSocket that is open through the balancer, the name of its node. */
  readonly upgraded: () => string[];
  /** The database, as a connection string. */
  readonly databaseUrl: string;
  readonly masterKeyFile: string;
  /** Stands for the data folder of a single server. Nodes share no folder: it does not exist, and reading it fails. */
  readonly dataDir: string;
  /** Runs an administrative command on the shared database. */
  readonly command: (words: readonly string[], input?: string) => Promise<string>;
  /** Starts another node. */
  readonly add: () => Promise<ClusterNode>;
  /** All nodes together, as if they were one process. */
  readonly program: NodePrograms;
  /** Ends all nodes and starts as many others on the same database. */
  readonly restart: () => Promise<void>;
}

/** The members of a server's program that tests use, for all nodes together; `pid` is that of the first node. */
export type NodePrograms = Pick<
  Program,
  'pid' | 'stdout' | 'stderr' | 'line' | 'kill' | 'end' | 'exited'
>;

/** For a `suite('postgres', …)`. The cluster has a database of its own, so that a node may be stopped while it holds locks. */
export async function nodeCluster({
  size,
  args = [],
  env = {},
  host = '127.0.0.1',
  frontPort,
  databaseUrl = (own: string) => own,
  lead = () => undefined,
}: {
  readonly size: number;
  readonly args?: readonly string[];
  /** Added to the environment of the nodes. */
  readonly env?: Readonly<Record<string, string>>;
  readonly host?: string;
  /** The port of a front before the balancer, which people call instead. */
  readonly frontPort?: number | undefined;
  /** The URL that the nodes get when something stands between them and the database. */
  readonly databaseUrl?: (own: string) => string;
  /** The name of the node that a request is to reach, if it matters which. */
  readonly lead?: (request: IncomingMessage) => string | undefined;
}): Promise<NodeCluster> {
  const owned = new AsyncDisposableStack();
  await using stack = new AsyncDisposableStack();
  stack.use(owned);
  const folder = owned.use(await temporaryFolder('cluster'));
  const masterKeyFile = join(folder.path, 'master.key');
  writeFileSync(masterKeyFile, randomBytes(32).toString('base64'), { mode: 0o600 });
  const url = await createDatabase(owned);

  const nodes: ClusterNode[] = [];
  /** The nodes that have exited, which a balancer notices. */
  const gone = new Set<ClusterNode>();
  const nodeFor = (request: IncomingMessage): ClusterNode => {
    const named = request.headers['x-test-node'] ?? lead(request);
    const wanted = nodes.find(({ name }) => name === named);
    const alive = nodes.filter((one) => !gone.has(one));
    const node = wanted ?? alive[Math.floor(Math.random() * alive.length)];
    if (!node) throw new Error('no node was started');
    return node;
  };
  const balancer = createServer((request, response) => {
    void balance(request, response, (of) => nodeFor(of).port);
  });
  // Longer than the nodes announce in `Keep-Alive`; otherwise callers would use a connection that is just being closed.
  balancer.keepAliveTimeout = 120_000;
  const upgraded = new Map<Duplex, string>();
  balancer.on('upgrade', (request, socket: Duplex, head) => {
    const node = nodeFor(request);
    upgraded.set(socket, node.name);
    socket.once('close', () => upgraded.delete(socket));
    const onward = connect({ host: '127.0.0.1', port: node.port });
    const lines = request.rawHeaders.flatMap((name, at, all) =>
      at % 2 === 0 ? [`${name}: ${all[at + 1]}`] : [],
    );
    onward.write(`GET ${request.url} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`);
    onward.write(head);
    socket.pipe(onward).pipe(socket);
    for (const [one, other] of [
      [socket, onward],
      [onward, socket],
    ] as const) {
      one.once('error', () => other.destroy()).once('close', () => other.destroy());
    }
  });
  const port = await listen(balancer);
  const base = `http://${host}:${frontPort ?? port}`;
  owned.defer(() => {
    balancer.closeAllConnections();
    return new Promise((resolve) => balancer.close(() => resolve(undefined)));
  });

  let started = 0;
  const add = async (): Promise<ClusterNode> => {
    started += 1;
    const name = `node-${started}`;
    const own = await freePort();
    const program = await startedNode(process.execPath, {
      args: [
        ...serverStart(),
        '--port',
        String(own),
        '--base-url',
        base,
        '--node-name',
        name,
        '--master-key-file',
        masterKeyFile,
        '--data-dir',
        join(folder.path, name),
        // Several clusters share the hundred connections that a PostgreSQL allows by default.
        '--database-connections',
        '4',
        ...args,
      ],
      env: { ...env, LATCHKEY_DATABASE_URL: databaseUrl(url) },
    });
    owned.defer(async () => void (await program.end()));
    const node = { name, port: own, program };
    nodes.push(node);
    void program.exited.then(() => gone.add(node));
    return node;
  };
  const start = async () => {
    for (let count = 0; count < size; count += 1) await add();
  };
  await start();
  stack.move();
  return {
    base,
    port,
    nodes,
    upgraded: () => [...upgraded.values()],
    databaseUrl: url,
    masterKeyFile,
    dataDir: join(folder.path, 'none'),
    command: (words, input) => runCommandInProcess([...words, '--database-url', url], input),
    add,
    program: allPrograms(nodes),
    async restart() {
      await Promise.all(nodes.map(({ program }) => program.end()));
      nodes.length = 0;
      await start();
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** How often a node is started if its connection to the database breaks off during the start. */
const mostStarts = 3;

/** Starts a node, and starts it again as a service manager does if a busy PostgreSQL did not let it connect in time. */
async function startedNode(command: string, options: ProgramOptions): Promise<Program> {
  for (let count = 1; ; count += 1) {
    const program = startProgram(command, options);
    try {
      await program.line(/^listening on /m);
      return program;
    } catch (error) {
      await program.end();
      const isDatabase =
        /connection error and is not queryable|Connection terminated|timeout exceeded when trying to connect|too many clients/;
      if (count === mostStarts || !isDatabase.test(program.stderr)) throw error;
    }
  }
}

function allPrograms(nodes: readonly ClusterNode[]): NodePrograms {
  const programs = () => nodes.map(({ program }) => program);
  return {
    get pid() {
      return programs()[0]?.pid ?? 0;
    },
    get stdout() {
      return programs()
        .map(({ stdout }) => stdout)
        .join('');
    },
    get stderr() {
      return programs()
        .map(({ stderr }) => stderr)
        .join('');
    },
    get exited() {
      return Promise.any(programs().map(({ exited }) => exited));
    },
    line: (pattern: RegExp, options?: LineOptions) =>
      Promise.any(
        programs()
          .toReversed()
          .map((program) => program.line(pattern, options)),
      ),
    kill(signal) {
      for (const program of programs()) program.kill(signal);
    },
    async end() {
      const [first] = await Promise.all(programs().map((program) => program.end()));
      if (!first) throw new Error('no node was started');
      return first;
    },
  };
}

/** Opens the database of a cluster, as an administrative command does. */
export function clusterStores({ databaseUrl }: Pick<NodeCluster, 'databaseUrl'>): Promise<Stores> {
  const place = { url: databaseUrl, connections: 4, mayLoseWrites: true };
  return onceThereIsRoom(() =>
    openPostgresStores(place, { mayAdmit: () => true, failed: () => {} }),
  );
}

const roomWithinMs = 60_000;

/** The result of `act`, which is tried again for a minute while other tests hold all connections of PostgreSQL. */
async function onceThereIsRoom<Result>(act: () => Promise<Result>): Promise<Result> {
  const until = performance.now() + roomWithinMs;
  for (;;) {
    try {
      return await act();
    } catch (error) {
      if (!/too many clients/.test(String(error)) || performance.now() > until) throw error;
      await pause(200);
    }
  }
}

/** Creates an empty database, which `stack` drops; its connection string. It has the newest schema if `TEST_POSTGRES_TEMPLATE` is set. */
export async function createDatabase(stack: AsyncDisposableStack): Promise<string> {
  const url = new URL(postgresUrl());
  const pool = new Pool({ connectionString: url.href, max: 1 });
  const name = `latchkey_cluster_${randomBytes(6).toString('hex')}`;
  const template = await migratedTemplate();
  const run = (statement: string) => onceThereIsRoom(() => pool.query(statement));
  await run(`create database ${name} template ${template} encoding 'UTF8'`);
  stack.defer(async () => {
    await run(`drop database ${name} with (force)`);
    await pool.end();
  });
  url.pathname = name;
  return url.href;
}

/** Any number, the same in all workers. */
const templateLock = 20_270_114;
let template: Promise<string> | undefined;

/** The database of this run from which the others are copied. The first worker that needs it migrates it, and the global setup drops it. */
function migratedTemplate(): Promise<string> {
  return (template ??= withOneConnection(async (one) => {
    const name = process.env['TEST_POSTGRES_TEMPLATE'];
    if (name === undefined) return 'template0';
    await one.query('select pg_advisory_lock($1)', [templateLock]);
    const found = await one.query('select 1 from pg_database where datname = $1', [name]);
    if (found.rowCount === 0) {
      // No worker copies the template before it is complete.
      const unfinished = `${name}_unfinished`;
      await one.query(`create database ${unfinished} template template0 encoding 'UTF8'`);
      const url = new URL(postgresUrl());
      url.pathname = unfinished;
      await (await clusterStores({ databaseUrl: url.href })).close();
      await one.query(`alter database ${unfinished} rename to ${name}`);
    }
    return name;
  }));
}

/** Does `work` on one connection, whose end releases the locks. */
async function withOneConnection<Result>(work: (one: Client) => Promise<Result>): Promise<Result> {
  const one = await onceThereIsRoom(async () => {
    const client = new Client({ connectionString: postgresUrl() });
    await client.connect();
    return client;
  });
  try {
    return await work(one);
  } finally {
    await one.end();
  }
}

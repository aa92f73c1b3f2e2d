import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { createServer, request as httpRequest } from 'node:http';
import { join } from 'node:path';
import { Pool } from 'pg';
import { freePort, listen } from './loopback.ts';
import { startProgram, type Program } from './processes.ts';
import { serverLauncher } from './programs.ts';
import { postgresUrl } from './requirements.ts';
import { runCommandInProcess } from './run-command-in-process.ts';
import { temporaryFolder } from './temporary-folder.ts';

/** One `latchkey-server start` process of a cluster. A request with `X-Test-Node: NAME` reaches this one. */
export interface ClusterNode {
  readonly name: string;
  readonly port: number;
  readonly program: Program;
}

/** Nodes that share one PostgreSQL database, behind a balancer that picks one at random for each request. */
export interface NodeCluster extends AsyncDisposable {
  /** The balancer. */
  readonly base: string;
  readonly nodes: readonly ClusterNode[];
  /** The database, as a connection string. */
  readonly databaseUrl: string;
  /** Runs an administrative command on the shared database. */
  readonly command: (words: readonly string[], input?: string) => Promise<string>;
  /** Starts another node. */
  readonly add: () => Promise<ClusterNode>;
}

/** In a `suite('postgres', …)`. The database is one of its own, so that a node may be stopped while it holds locks. */
export async function nodeCluster({
  size,
  args = [],
  databaseUrl = (own: string) => own,
}: {
  readonly size: number;
  readonly args?: readonly string[];
  /** What the nodes are told, when something stands between them and the database. */
  readonly databaseUrl?: (own: string) => string;
}): Promise<NodeCluster> {
  const owned = new AsyncDisposableStack();
  await using stack = new AsyncDisposableStack();
  stack.use(owned);
  const folder = owned.use(await temporaryFolder('cluster'));
  const masterKeyFile = join(folder.path, 'master.key');
  writeFileSync(masterKeyFile, randomBytes(32).toString('base64'), { mode: 0o600 });
  const url = await createDatabase(owned);

  const nodes: ClusterNode[] = [];
  const balancer = createServer((request, response) => {
    const wanted = nodes.find(({ name }) => name === request.headers['x-test-node']);
    const node = wanted ?? nodes[Math.floor(Math.random() * nodes.length)];
    const onward = httpRequest({
      host: '127.0.0.1',
      port: node?.port,
      method: request.method,
      path: request.url,
      headers: request.headers,
    });
    onward.on('response', (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers).flushHeaders();
      answer.pipe(response);
      answer.once('error', () => response.destroy());
    });
    onward.once('error', () => response.destroy());
    response.once('close', () => onward.destroy());
    request.pipe(onward);
  });
  const base = `http://127.0.0.1:${await listen(balancer)}`;
  owned.defer(() => {
    balancer.closeAllConnections();
    return new Promise((resolve) => balancer.close(() => resolve(undefined)));
  });

  const add = async (): Promise<ClusterNode> => {
    const port = await freePort();
    const name = `node-${nodes.length + 1}`;
    const program = startProgram(process.execPath, {
      args: [
        serverLauncher,
        'start',
        '--port',
        String(port),
        '--base-url',
        base,
        '--node-name',
        name,
        '--master-key-file',
        masterKeyFile,
        '--data-dir',
        join(folder.path, name),
        ...args,
      ],
      env: { LATCHKEY_DATABASE_URL: databaseUrl(url) },
    });
    owned.defer(async () => void (await program.end()));
    await program.line(/^listening on /m, { timeoutMs: 30_000 });
    const node = { name, port, program };
    nodes.push(node);
    return node;
  };
  for (let count = 0; count < size; count += 1) await add();
  stack.move();
  return {
    base,
    nodes,
    databaseUrl: url,
    command: (words, input) => runCommandInProcess([...words, '--database-url', url], input),
    add,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

async function createDatabase(stack: AsyncDisposableStack): Promise<string> {
  const url = new URL(postgresUrl());
  const pool = new Pool({ connectionString: url.href, max: 1 });
  const name = `latchkey_cluster_${randomBytes(6).toString('hex')}`;
  await pool.query(`create database ${name} template template0 encoding 'UTF8'`);
  stack.defer(async () => {
    await pool.query(`drop database ${name} with (force)`);
    await pool.end();
  });
  url.pathname = name;
  return url.href;
}

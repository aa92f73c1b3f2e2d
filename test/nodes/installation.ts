import { randomBytes } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { Pool } from 'undici';
import { freePort, listen } from '#support/loopback';
import { startProgram, type Program } from '#support/processes';
import { proxyLauncher, serverLauncher } from '#support/programs';
import { runCommandInProcess } from '#support/run-command-in-process';
import { temporaryFolder } from '#support/temporary-folder';
import { type Machine, OwnNats, OwnPostgres, signalTree } from './machinery.ts';

/** Where a node is, as its callers and its surroundings see it. */
export interface NodePlace {
  /** The address that callers reach it at. */
  readonly host: string;
  /** Put before the command line, for example to enter a network namespace. */
  readonly prefix: readonly string[];
  /** The URLs that the node gets instead of the installation's own. */
  readonly databaseUrl?: string;
  readonly natsUrl?: string;
}

export interface NodeOptions {
  readonly place?: NodePlace;
  /** The script of `latchkey-server`, which `node` runs. */
  readonly launcher?: string;
  readonly args?: readonly string[];
  /** Without the options that all nodes of the installation get. */
  readonly isStrict?: boolean;
}

/** One `latchkey-server start` process. */
export class ServerNode implements Machine {
  readonly name: string;
  readonly port: number;
  readonly host: string;
  /** Keeps its connections open, as balancers do. */
  readonly pool: Pool;
  /** Whether the balancer sends calls to it. */
  isUp = false;
  readonly #command: readonly [string, string[]];
  readonly #env: Readonly<Record<string, string>>;
  #program: Program | undefined;

  constructor(
    name: string,
    port: number,
    {
      place,
      args,
      env,
    }: { place: NodePlace | undefined; args: string[]; env: Record<string, string> },
  ) {
    this.name = name;
    this.port = port;
    this.host = place?.host ?? '127.0.0.1';
    const [command = process.execPath, ...words] = [
      ...(place?.prefix ?? []),
      process.execPath,
      ...args,
    ];
    this.#command = [command, words];
    this.#env = env;
    this.pool = new Pool(`http://${this.host}:${port}`, {
      connections: 64,
      headersTimeout: 10_000,
      bodyTimeout: 10_000,
      connect: { timeout: 1000 },
    });
  }

  get program(): Program {
    if (!this.#program) throw new Error(`${this.name} does not run`);
    return this.#program;
  }

  get isRunning(): boolean {
    return this.#program !== undefined;
  }

  async start(): Promise<void> {
    const [command, args] = this.#command;
    this.#program = startProgram(command, { args, env: this.#env });
    await this.#program.line(/^listening on /m);
    this.isUp = true;
  }

  async kill(): Promise<void> {
    signalTree(this.program, 'SIGKILL');
    await this.program.exited;
    this.#program = undefined;
  }

  /** Lets it finish its calls and end. */
  async stop(): Promise<void> {
    if (!this.#program) return;
    const { code, signal } = await this.#program.end();
    const { stderr } = this.#program;
    this.#program = undefined;
    if (code !== 0)
      throw new Error(`${this.name} ended with ${code ?? signal}: ${stderr.slice(-2000)}`);
  }

  suspend(): void {
    signalTree(this.program, 'SIGSTOP');
  }

  resume(): void {
    signalTree(this.program, 'SIGCONT');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#program) {
      this.resume();
      await this.#program.end();
    }
    await this.pool.destroy();
  }
}

export interface InstallationOptions {
  readonly size: number;
  readonly nodeArgs?: readonly string[];
  /** The address that PostgreSQL, NATS and the nodes listen on. */
  readonly host?: string;
  /** The URLs that nodes get, when something stands between them and the servers. */
  readonly databaseUrl?: (own: string) => string;
  readonly natsUrl?: (own: string) => string;
  readonly places?: readonly NodePlace[];
}

/**
 * Nodes on a PostgreSQL and a NATS server of their own, and a balancer. Calls go directly to a random node (`pick`), as through a
 * balancer. `base` is the URL of a balancer of connections for agents, which keep their connections.
 */
export class Installation implements AsyncDisposable {
  readonly folder: string;
  readonly base: string;
  readonly postgres: OwnPostgres;
  readonly nats: OwnNats;
  readonly nodes: ServerNode[];
  readonly masterKeyFile: string;
  readonly #options: InstallationOptions;
  readonly #owned: AsyncDisposableStack;
  #named = 0;

  private constructor(
    parts: Pick<Installation, 'folder' | 'base' | 'postgres' | 'nats' | 'nodes'> & {
      owned: AsyncDisposableStack;
    },
    options: InstallationOptions,
  ) {
    this.folder = parts.folder;
    this.base = parts.base;
    this.postgres = parts.postgres;
    this.nats = parts.nats;
    this.nodes = parts.nodes;
    this.#owned = parts.owned;
    this.#options = options;
    this.masterKeyFile = join(parts.folder, 'master.key');
  }

  static async create(options: InstallationOptions): Promise<Installation> {
    await using stack = new AsyncDisposableStack();
    const { path: folder } = stack.use(await temporaryFolder('nodes'));
    const host = options.host === undefined ? {} : { host: options.host };
    const postgres = stack.use(await OwnPostgres.create(folder, host));
    await postgres.query(`create database latchkey template template0 encoding 'UTF8'`);
    const nats = stack.use(await OwnNats.create(host));
    const nodes: ServerNode[] = [];
    const { port, close } = await connectionBalancer(nodes);
    stack.defer(close);
    const base = `http://127.0.0.1:${port}`;
    const owned = stack.move();
    const made = new Installation({ folder, base, postgres, nats, nodes, owned }, options);
    try {
      writeFileSync(made.masterKeyFile, randomBytes(32).toString('base64'), { mode: 0o600 });
      for (let at = 0; at < options.size; at += 1) {
        const place = options.places?.[at];
        await made.addNode(place && { place });
      }
      owned.defer(watchHealth(nodes));
    } catch (error) {
      await made[Symbol.asyncDispose]();
      throw error;
    }
    return made;
  }

  get databaseUrl(): string {
    return this.postgres.url('latchkey');
  }

  /** A node that the balancer believes to be up, at random; any node if the balancer believes that none is up. */
  pick(): ServerNode {
    const up = this.nodes.filter(({ isUp }) => isUp);
    const from = up.length > 0 ? up : this.nodes;
    const node = from[Math.floor(Math.random() * from.length)];
    if (!node) throw new Error('the installation has no nodes');
    return node;
  }

  /** Runs an administrative command. */
  command(...words: string[]): Promise<string> {
    return runCommandInProcess([...words, '--database-url', this.databaseUrl]);
  }

  /** Starts another node, under a new name, and lets the balancer know it. */
  async addNode({
    place,
    launcher = serverLauncher,
    args = [],
    isStrict = false,
  }: NodeOptions = {}): Promise<ServerNode> {
    this.#named += 1;
    const name = `node-${this.#named}`;
    const port = await freePort();
    const dataDir = join(this.folder, name);
    mkdirSync(dataDir, { mode: 0o700 });
    const { databaseUrl = (own: string) => own, natsUrl = (own: string) => own } = this.#options;
    const words = {
      port: String(port),
      host: place?.host ?? '127.0.0.1',
      'base-url': this.base,
      'node-name': name,
      'master-key-file': this.masterKeyFile,
      'data-dir': dataDir,
      'nats-url': place?.natsUrl ?? natsUrl(this.nats.url()),
      'log-level': 'error',
    };
    const given = Object.entries(words).flatMap(([option, value]) => [`--${option}`, value]);
    const node = new ServerNode(name, port, {
      place,
      args: [
        launcher,
        'start',
        ...given,
        ...(isStrict ? [] : (this.#options.nodeArgs ?? [])),
        ...args,
      ],
      env: { LATCHKEY_DATABASE_URL: place?.databaseUrl ?? databaseUrl(this.databaseUrl) },
    });
    this.#owned.use(node);
    await node.start();
    this.nodes.push(node);
    return node;
  }

  /** Starts a real agent that serves `servers` (name to URL) and dials the balancer. */
  async startAgent(key: string, servers: Readonly<Record<string, string>>): Promise<Program> {
    const file = join(this.folder, `agent-${randomBytes(4).toString('hex')}.json`);
    const entries = Object.entries(servers).map(([name, url]) => [name, { url }]);
    writeFileSync(file, JSON.stringify({ servers: Object.fromEntries(entries) }), { mode: 0o600 });
    const agent = startProgram(process.execPath, {
      args: [proxyLauncher, 'agent', '--server-url', this.base, '--config', file],
      env: { HOME: this.folder, LATCHKEY_AGENT_KEY: key },
    });
    this.#owned.use(agent);
    return agent;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#owned.disposeAsync();
  }
}

/** Passes each connection to a node that is up; to the next one while a node refuses connections. */
async function connectionBalancer(nodes: readonly ServerNode[]) {
  const sockets = new Set<Socket>();
  const keep = (socket: Socket) => {
    sockets.add(socket);
    socket.on('error', () => socket.destroy()).once('close', () => sockets.delete(socket));
  };
  const lead = (near: Socket, candidates: readonly ServerNode[]) => {
    const [node, ...others] = candidates;
    if (!node) return void near.destroy();
    const far = connect({ host: node.host, port: node.port, noDelay: true });
    keep(far);
    const refused = () => lead(near, others);
    far.once('error', refused).once('connect', () => {
      far.off('error', refused);
      near.pipe(far).pipe(near);
      near.once('close', () => far.destroy());
      far.once('close', () => near.destroy());
    });
  };
  const server = createServer({ noDelay: true }, (near) => {
    keep(near);
    const first = Math.floor(Math.random() * nodes.length);
    const turned = [...nodes.slice(first), ...nodes.slice(0, first)];
    lead(
      near,
      turned.toSorted((one, other) => Number(other.isUp) - Number(one.isUp)),
    );
  });
  const port = await listen(server);
  const close = () =>
    new Promise<void>((resolve) => {
      server.close(() => resolve());
      for (const socket of sockets) socket.destroy();
    });
  return { port, close };
}

const healthEveryMs = 500;

/** Asks each node for its health, as balancers do. Returns a function that stops this. */
function watchHealth(nodes: readonly ServerNode[]): () => Promise<void> {
  const ending = new AbortController();
  const looking = (async () => {
    while (!ending.signal.aborted) {
      await Promise.all(
        nodes.map(async (node) => {
          node.isUp = node.isRunning && (await isReady(node));
        }),
      );
      await pause(healthEveryMs);
    }
  })();
  return async () => {
    ending.abort();
    await looking;
  };
}

async function isReady({ host, port }: ServerNode): Promise<boolean> {
  try {
    const signal = AbortSignal.timeout(1000);
    return (await fetch(`http://${host}:${port}/readyz`, { signal })).ok;
  } catch {
    return false;
  }
}

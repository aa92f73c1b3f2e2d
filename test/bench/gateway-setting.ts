import { randomBytes } from 'node:crypto';
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { request } from 'undici';
import { freePort } from '#support/loopback';
import { initialize } from '#support/mcp-call';
import { runProgram, startProgram, type Program } from '#support/processes';
import { temporaryFolder } from '#support/temporary-folder';
import { OwnNats, OwnPostgres } from '../nodes/machinery.ts';
import type { Build } from './builds.ts';
import type { Shot } from './shot.ts';

const floors = join(import.meta.dirname, 'floors');
const listening = /listening on (http:\/\/\S+)/;
const both = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
const upstreams = { http: '/mcp', session: '/session', modern: '/modern' } as const;
type Server = keyof typeof upstreams | 'agent' | 'collection' | 'modern-collection';

/** A running `latchkey-server`. */
export interface Running {
  readonly origin: string;
  readonly program: Program;
}

/** What an operator has made in an installation. */
export interface Furniture {
  readonly base: string;
  readonly keys: Readonly<Record<Server, string>>;
  readonly client: { readonly id: string; readonly secret: string };
  readonly connectKey: string;
}

/** The processes that rows share. Each is started when the first row asks for it, and ended with the setting. */
export class Setting implements AsyncDisposable {
  readonly folder: string;
  readonly #builds: Readonly<Record<string, Build>>;
  readonly #stack: AsyncDisposableStack;
  readonly #made = new Map<string, Promise<unknown>>();

  private constructor(
    folder: string,
    builds: Readonly<Record<string, Build>>,
    stack: AsyncDisposableStack,
  ) {
    this.folder = folder;
    this.#builds = builds;
    this.#stack = stack;
  }

  static async create(builds: Readonly<Record<string, Build>>): Promise<Setting> {
    await using stack = new AsyncDisposableStack();
    const { path } = stack.use(await temporaryFolder('bench'));
    return new Setting(path, builds, stack.move());
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#stack.disposeAsync();
  }

  build(name: string): Build {
    const build = this.#builds[name];
    if (!build) throw new Error(`there is no build '${name}'`);
    return build;
  }

  once<T>(name: string, make: () => Promise<T>): Promise<T> {
    const made = this.#made.get(name) ?? make();
    this.#made.set(name, made);
    // oxlint-disable-next-line no-unsafe-type-assertion -- one name is always made by the same function
    return made as Promise<T>;
  }

  /** Disposes of `thing` when the setting ends. */
  own<T extends AsyncDisposable>(thing: T): T {
    return this.#stack.use(thing);
  }

  /** The MCP server that every contender calls in the end. */
  target(): Promise<Running> {
    return this.once('target', () => this.#floor('mcp-target.ts'));
  }

  reverseProxy(): Promise<Running> {
    return this.once('proxy', async () =>
      this.#floor('reverse-proxy.ts', (await this.target()).origin),
    );
  }

  /** A program of `floors`, which is started once. */
  floorOf(name: string, file: string, ...args: string[]): Promise<Running> {
    return this.once(name, () => this.#floor(file, ...args));
  }

  tokenEndpoint(): Promise<Running> {
    return this.once('tokens', () => this.#floor('token-endpoint.ts'));
  }

  async #floor(file: string, ...args: string[]): Promise<Running> {
    const program = this.own(
      startProgram(process.execPath, { args: [join(floors, file), ...args] }),
    );
    const [, origin = ''] = await program.line(listening);
    return { origin, program };
  }

  /**
   * An installation on SQLite with `processes` processes, which is started once for each `name`, `processes` and `use`. `more` are
   * options of `start`.
   */
  async sqlite(name: string, processes = 1, use = 'calls', more: readonly string[] = []) {
    const own = `${name}-${processes}-${use}`;
    return this.once(own, async () => {
      const place = await this.#place(own);
      const env = { HOME: place.home, LATCHKEY_DATA_DIR: join(place.home, 'data') };
      const furniture = await this.#furnished(name, place.base, env);
      const args = ['--processes', String(processes), ...more];
      const running = await this.startServer(name, { ...place, env, args });
      return { ...furniture, ...running, home: place.home };
    });
  }

  /** Two nodes on a PostgreSQL and a NATS server of their own; the agent is at the node `near`. */
  async nodes(name: string) {
    return this.once(`nodes ${name}`, async () => {
      const place = await this.#place(`${name}-nodes`);
      const postgres = this.own(await OwnPostgres.create(place.home));
      await postgres.query(`create database latchkey template template0 encoding 'UTF8'`);
      const nats = this.own(await OwnNats.create());
      const key = join(place.home, 'master.key');
      await writeFile(key, randomBytes(32).toString('base64'), { mode: 0o600 });
      const env = { HOME: place.home, LATCHKEY_DATABASE_URL: postgres.url('latchkey') };
      const furniture = await this.#furnished(name, place.base, env);
      const node = async (nodeName: string, port: number, ...more: string[]) => {
        const data = join(place.home, nodeName);
        await mkdir(data, { mode: 0o700 });
        const own = ['--node-name', nodeName, '--data-dir', data, '--master-key-file', key];
        const args = [...own, '--nats-url', nats.url(), ...more];
        return this.startServer(name, { ...place, port, env, args });
      };
      const near = await node('near', place.port);
      await this.#startAgent(name, place.home, furniture);
      const far = await node('far', await freePort());
      const twoProcesses = async () => node('two', await freePort(), '--processes', '2');
      return { ...furniture, near, far, twoProcesses };
    });
  }

  /** The agent of the installation on SQLite, which is started for the first row that needs it. */
  agent(name: string, use?: string): Promise<Program> {
    return this.once(`agent ${name} ${use}`, async () => {
      const server = await this.sqlite(name, 1, use);
      return this.#startAgent(name, server.home, server);
    });
  }

  async #place(folder: string) {
    const home = join(this.folder, folder);
    await mkdir(home, { mode: 0o700 });
    const port = await freePort();
    return { home, port, base: `http://127.0.0.1:${port}` };
  }

  async #furnished(name: string, base: string, env: Record<string, string>): Promise<Furniture> {
    const { origin } = await this.target();
    const command = async (...words: string[]): Promise<Record<string, string>> => {
      const args = [this.build(name).server, ...words, '--json'];
      const { code, stdout, stderr } = await runProgram(process.execPath, { args, env });
      if (code !== 0) throw new Error(`latchkey-server ${words.join(' ')}: ${stderr}`);
      return JSON.parse(stdout);
    };
    await command('organization', 'create', 'bench');
    for (const [server, path] of Object.entries(upstreams))
      await command('server', 'create', `bench/${server}`, '--http-url', `${origin}${path}`);
    const { key: connectKey = '' } = await command('agent', 'create', 'bench/near');
    await command('server', 'create', 'bench/agent', '--agent', 'near');
    // With one member: the extra cost of a call, compared to that member, is the cost of the collection. Older builds have none.
    await command('collection', 'create', 'bench/collection', '--member', 'http').catch(() => {});
    const ofModern = ['bench/modern-collection', '--member', 'modern'];
    await command('collection', 'create', ...ofModern).catch(() => {});
    const key = async (server: Server) =>
      (await command('key', 'create', `bench/${server}`, '--name', 'bench'))['key'] ?? '';
    const scopes = ['--scope', 'mcp:tools:read', '--scope', 'mcp:tools:execute'];
    const made = await command('client', 'create', 'bench/http', '--name', 'bench', ...scopes);
    return {
      base,
      connectKey,
      keys: {
        http: await key('http'),
        session: await key('session'),
        modern: await key('modern'),
        agent: await key('agent'),
        collection: await key('collection').catch(() => ''),
        'modern-collection': await key('modern-collection').catch(() => ''),
      },
      client: { id: made['client_id'] ?? '', secret: made['client_secret'] ?? '' },
    };
  }

  /** Starts a server whose log goes to a file, as in production: a pipe to the bench would take time from the load. */
  async startServer(
    name: string,
    { home, port, base, env, args }: ServerOptions,
  ): Promise<Running> {
    const log = join(home, 'log');
    const words = ['start', '--port', String(port), '--base-url', base, ...args];
    const program = this.own(
      startProgram('/bin/sh', {
        args: ['-c', 'exec "$@" 2>>"$0"', log, process.execPath, this.build(name).server, ...words],
        env,
      }),
    );
    await program.line(listening);
    return { origin: `http://127.0.0.1:${port}`, program };
  }

  async #startAgent(name: string, home: string, { base, connectKey }: Furniture): Promise<Program> {
    const { origin } = await this.target();
    const file = join(home, `agent-${name}.json`);
    await writeFile(file, JSON.stringify({ servers: { agent: { url: `${origin}/mcp` } } }));
    await chmod(file, 0o600);
    return this.own(
      startProgram(process.execPath, {
        args: [this.build(name).proxy, 'agent', '--server-url', base, '--config', file],
        env: { HOME: home, LATCHKEY_AGENT_KEY: connectKey },
      }),
    );
  }
}

interface ServerOptions {
  readonly home: string;
  readonly port: number;
  readonly base: string;
  readonly env: Record<string, string>;
  readonly args: readonly string[];
}

/** A call of `server`, sent to the process at `origin` with the Host of the whole installation. */
export function callOf(
  furniture: Furniture,
  { origin }: Running,
  server: Server,
  { body, headers = {} }: Pick<Shot, 'body'> & Partial<Pick<Shot, 'headers'>>,
): Shot {
  const { host } = new URL(furniture.base);
  return {
    url: `${origin}/mcp/bench/${server}`,
    headers: { ...both, host, 'x-api-key': furniture.keys[server], ...headers },
    body,
    wanted: '"result"',
  };
}

/** Opens a session, and returns the same call in it. */
export async function inSession(shot: Shot): Promise<Shot> {
  const { url, headers } = shot;
  const answer = await request(url, { method: 'POST', headers, body: initialize() });
  await answer.body.dump();
  const id = answer.headers['mcp-session-id'];
  if (typeof id !== 'string') throw new Error(`no session at ${url}: ${answer.statusCode}`);
  const own = { ...headers, 'mcp-session-id': id, 'mcp-protocol-version': '2025-06-18' };
  const noted = '{"jsonrpc":"2.0","method":"notifications/initialized"}';
  await (await request(url, { method: 'POST', headers: own, body: noted })).body.dump();
  return { ...shot, headers: own };
}

/** A request for a token by client credentials. */
export function tokenShot(
  { base, client }: Pick<Furniture, 'base' | 'client'>,
  { origin }: Running,
): Shot {
  const form = { grant_type: 'client_credentials', client_id: client.id };
  return {
    url: `${origin}/api/oauth/token`,
    headers: {
      host: new URL(base).host,
      'content-type': 'application/x-www-form-urlencoded',
    },
    body: new URLSearchParams({ ...form, client_secret: client.secret }).toString(),
    wanted: '"access_token"',
  };
}

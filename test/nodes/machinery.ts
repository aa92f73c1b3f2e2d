import { appendFile, chmod, chown, stat } from 'node:fs/promises';
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { userInfo } from 'node:os';
import { setTimeout as pause } from 'node:timers/promises';
import { Client } from 'pg';
import { freePort } from '#support/loopback';
import { runProgram, startProgram, type Program } from '#support/processes';

/** Where Debian and Ubuntu install the programs of PostgreSQL that are not for every user. */
const postgresPrograms = process.env['POSTGRES_BIN'] ?? '/usr/lib/postgresql/15/bin';

/** A process with its children, in which scenarios cause faults. */
export interface Machine {
  readonly name: string;
  /** Kills it like a power failure: immediately, with all of its children. */
  kill(): Promise<void>;
  /** Starts it again after `kill`. Resolves when it answers. */
  start(): Promise<void>;
  /** Takes all processor time away until `resume`. Its connections stay open. */
  suspend(): void;
  resume(): void;
}

/** The process and all of its descendants. */
export function processTree(pid: number): number[] {
  const parents = new Map<number, number>();
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    try {
      // The name of a process, in parentheses, may itself contain blanks and parentheses.
      const after = readFileSync(`/proc/${name}/stat`, 'utf8').replace(/^.*\) /s, '');
      parents.set(Number(name), Number(after.split(' ')[1]));
    } catch {
      // It has ended meanwhile.
    }
  }
  const tree = [pid];
  for (const parent of tree) {
    for (const [child, its] of parents) if (its === parent) tree.push(child);
  }
  return tree;
}

/** Sends a signal to a program and all of its descendants, the program first. */
export function signalTree(program: Program, signal: NodeJS.Signals): void {
  for (const pid of processTree(program.pid)) {
    try {
      process.kill(pid, signal);
    } catch {
      // It has ended meanwhile.
    }
  }
}

/** A PostgreSQL server of our own, which a scenario may kill. PostgreSQL refuses to run as root, so root runs it as `postgres`. */
export class OwnPostgres implements Machine, AsyncDisposable {
  readonly name: string;
  readonly port: number;
  readonly folder: string;
  readonly #host: string;
  #program: Program | undefined;

  private constructor(name: string, at: { folder: string; port: number; host: string }) {
    this.name = name;
    this.folder = at.folder;
    this.port = at.port;
    this.#host = at.host;
  }

  /** Creates a database cluster in a subfolder of `parent` and starts it. `host` is the address that it listens on. */
  static async create(
    parent: string,
    { name = 'postgres', host = '127.0.0.1' }: { name?: string; host?: string } = {},
  ): Promise<OwnPostgres> {
    const folder = join(parent, name);
    await openTo(parent);
    const made = new OwnPostgres(name, { folder, host, port: await freePort() });
    await asPostgres('initdb', [
      '-D',
      folder,
      '-U',
      'postgres',
      '-A',
      'trust',
      '-E',
      'UTF8',
      '--no-locale',
    ]);
    // Only in scenarios with networks of their own, where nodes come from other addresses.
    if (host !== '127.0.0.1') {
      await appendFile(join(folder, 'pg_hba.conf'), 'host all all samenet trust\n');
    }
    await made.start();
    return made;
  }

  /**
   * Copies this primary into a standby that follows it, and starts that. The standby reads from `port` of this machine, and `name` is
   * its name among the standbys.
   */
  async createStandby(
    parent: string,
    { name, port }: { name: string; port: number },
  ): Promise<OwnPostgres> {
    const folder = join(parent, name);
    const at = { folder, host: this.#host, port: await freePort() };
    const source = `host=127.0.0.1 port=${port} user=postgres application_name=${name}`;
    await asPostgres('pg_basebackup', [
      '-D',
      folder,
      '-R',
      '-X',
      'stream',
      '-c',
      'fast',
      '-d',
      source,
    ]);
    const standby = new OwnPostgres(name, at);
    await standby.start();
    return standby;
  }

  get pid(): number {
    return this.#running().pid;
  }

  url(database = 'postgres'): string {
    return `postgres://postgres@127.0.0.1:${this.port}/${database}`;
  }

  async start(): Promise<void> {
    const settings = [
      `port=${this.port}`,
      `listen_addresses=${this.#host}`,
      `unix_socket_directories=${this.folder}`,
      'max_connections=200',
      'hot_standby=on',
    ].flatMap((setting) => ['-c', setting]);
    const [command, args] = postgresCommand('postgres', ['-D', this.folder, ...settings]);
    this.#program = startProgram(command, { args });
    await answered(this.name, async () => void (await this.query('select 1')));
  }

  async kill(): Promise<void> {
    const program = this.#running();
    signalTree(program, 'SIGKILL');
    await program.exited;
    this.#program = undefined;
  }

  suspend(): void {
    signalTree(this.#running(), 'SIGSTOP');
  }

  resume(): void {
    signalTree(this.#running(), 'SIGCONT');
  }

  /** Ends all connections to it, as a restarted firewall does. */
  async breakConnections(): Promise<void> {
    await this.query(
      `select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and backend_type = 'client backend'`,
    );
  }

  async promote(): Promise<void> {
    await this.query('select pg_promote(true, 30)');
    await answered(this.name, async () => {
      const [row] = await this.query<{ standby: boolean }>('select pg_is_in_recovery() as standby');
      if (row?.standby !== false) throw new Error('it is a standby still');
    });
  }

  /** Runs one statement over a connection of its own. */
  async query<Row extends object>(statement: string, database = 'postgres'): Promise<Row[]> {
    const connectionString = this.url(database);
    const client = new Client({ connectionString, connectionTimeoutMillis: 2000 });
    client.on('error', () => undefined);
    await client.connect();
    try {
      return (await client.query<Row>(statement)).rows;
    } finally {
      await client.end();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#program) return;
    this.resume();
    // A fast shutdown: SIGTERM would wait for all clients.
    this.#program.kill('SIGINT');
    await this.#program.end();
  }

  #running(): Program {
    if (!this.#program) throw new Error(`${this.name} does not run`);
    return this.#program;
  }
}

/** A NATS server of our own, which a scenario may kill. */
export class OwnNats implements Machine, AsyncDisposable {
  readonly name = 'NATS';
  readonly port: number;
  readonly #host: string;
  #program: Program | undefined;

  private constructor(port: number, host: string) {
    this.port = port;
    this.#host = host;
  }

  static async create({ host = '127.0.0.1' }: { host?: string } = {}): Promise<OwnNats> {
    const nats = new OwnNats(await freePort(), host);
    await nats.start();
    return nats;
  }

  url(host = '127.0.0.1'): string {
    return `nats://${host}:${this.port}`;
  }

  async start(): Promise<void> {
    this.#program = startProgram('nats-server', {
      args: ['-a', this.#host, '-p', String(this.port)],
    });
    await this.#program.line(/Server is ready/, { stream: 'stderr', timeoutMs: 20_000 });
  }

  async kill(): Promise<void> {
    this.#program?.kill('SIGKILL');
    await this.#program?.exited;
    this.#program = undefined;
  }

  suspend(): void {
    this.#program?.kill('SIGSTOP');
  }

  resume(): void {
    this.#program?.kill('SIGCONT');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.resume();
    await this.#program?.end();
  }
}

/** Waits until `ask` no longer rejects. @throws {Error} with its last reason after half a minute */
export async function answered(name: string, ask: () => Promise<void>): Promise<void> {
  const deadline = performance.now() + 30_000;
  for (;;) {
    try {
      await ask();
      return;
    } catch (cause) {
      if (performance.now() > deadline) throw new Error(`${name} does not answer`, { cause });
      await pause(50);
    }
  }
}

async function asPostgres(program: string, words: readonly string[]): Promise<void> {
  const [command, args] = postgresCommand(program, words);
  const { code, stdout, stderr } = await runProgram(command, { args });
  if (code !== 0) throw new Error(`${program} failed: ${stdout}${stderr}`);
}

/** Without a process in between, so that the pid is that of PostgreSQL. */
function postgresCommand(program: string, words: readonly string[]): [string, string[]] {
  const file = join(postgresPrograms, program);
  if (userInfo().uid !== 0) return [file, [...words]];
  return ['setpriv', ['--reuid=postgres', '--regid=postgres', '--init-groups', file, ...words]];
}

/** Lets the user that PostgreSQL runs as create its folder there. */
async function openTo(folder: string): Promise<void> {
  if (userInfo().uid !== 0) return;
  const { code, stdout } = await runProgram('id', { args: ['-u', 'postgres'] });
  if (code !== 0) throw new Error('there is no user postgres: apt-get install postgresql');
  await chmod(folder, 0o755);
  await chown(folder, Number(stdout), -1);
  // The temporary folder of a run of the tests is readable by its owner only.
  for (let above = dirname(folder); above !== dirname(above); above = dirname(above)) {
    const { mode } = await stat(above);
    if ((mode & 0o001) === 0) await chmod(above, (mode & 0o777) | 0o011);
  }
}

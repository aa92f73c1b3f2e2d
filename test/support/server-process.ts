import { join } from 'node:path';

import { nodeCluster, type NodePrograms, nodesOfTests } from './node-cluster.ts';
import { layOutDatabase } from './open-database.ts';
import { startProgram, type Program } from './processes.ts';
import { natsUrl } from './requirements.ts';
import { freePort } from './loopback.ts';
import { runCommandInProcess } from './run-command-in-process.ts';
import { temporaryFolder } from './temporary-folder.ts';
import { serverLauncher, serverStart } from './programs.ts';

const launcher = serverLauncher;

/** `latchkey-server start` as a process of its own, with a data directory of its own. */
export interface ServerProcess extends AsyncDisposable {
  /** The URL at which it is reached. */
  readonly base: string;
  /** The port on which it listens. */
  readonly port: number;
  readonly dataDir: string;
  readonly masterKeyFile: string;
  readonly program: NodePrograms;
  /** Ends the process and starts another one at the same place, on the same data. */
  restart(): Promise<void>;
  /** Runs an administrative command on the same data, in the process of the test; its stdout, or an error with its stderr. */
  readonly command: (words: readonly string[], input?: string) => Promise<string>;
  /** Runs a command as a separate process. */
  readonly commandProcess: (words: readonly string[], input?: string) => Promise<string>;
}

export interface ServerProcessOptions {
  readonly host?: '127.0.0.1' | 'localhost';
  readonly args?: readonly string[];
  readonly frontPort?: number;
  /** The command that starts the server, with its first arguments; Node and the server's arguments follow. */
  readonly startedBy?: readonly string[];
}

/**
 * `host` is the host in the URL for browsers: passkeys need a name, secure cookies an address. `frontPort` is the port of a
 * front before the server, to which all requests go instead.
 */
export async function serverProcess(options: ServerProcessOptions = {}): Promise<ServerProcess> {
  const { host = '127.0.0.1', args = [], frontPort, startedBy = [] } = options;
  if (nodesOfTests > 1) return clusterAsServer(options);
  const folder = await temporaryFolder('server');
  const dataDir = join(folder.path, 'data');
  // Several processes settle among themselves which of them migrates.
  if (!args.includes('--processes')) await layOutDatabase(dataDir);
  const port = await freePort();
  const base = `http://${host}:${frontPort ?? port}`;
  const env = { LATCHKEY_DATA_DIR: dataDir };
  const start = async (): Promise<Program> => {
    const [command, ...first] = [...startedBy, process.execPath];
    const started = startProgram(command, {
      args: [...first, ...serverStart(), '--port', String(port), '--base-url', base, ...args],
      env,
    });
    await started.line(/^listening on /m);
    return started;
  };
  let program = await start();
  return {
    base,
    port,
    dataDir,
    masterKeyFile: join(dataDir, 'master.key'),
    get program() {
      return program;
    },
    async restart() {
      await program.end();
      program = await start();
    },
    command: (words, input) => runCommandInProcess([...words, '--data-dir', dataDir], input),
    commandProcess: (words, input) => runServerCommand(words, { input, env }),
    async [Symbol.asyncDispose]() {
      await program.end();
      await folder[Symbol.asyncDispose]();
    },
  };
}

/** Several nodes on a shared database, used as if they were one server. */
async function clusterAsServer(options: ServerProcessOptions): Promise<ServerProcess> {
  const { host, args = [], frontPort } = options;
  const cluster = await nodeCluster({
    size: nodesOfTests,
    args: ['--nats-url', natsUrl(), ...args],
    ...(host && { host }),
    frontPort,
  });
  return {
    ...cluster,
    commandProcess: (words, input) =>
      runServerCommand([...words, '--database-url', cluster.databaseUrl], { input }),
  };
}

async function runServerCommand(
  words: readonly string[],
  { input = '', env = {} }: { input?: string | undefined; env?: Record<string, string> },
): Promise<string> {
  const run = startProgram(process.execPath, { args: [launcher, ...words], env });
  run.write(input);
  run.endInput();
  const { code } = await run.exited;
  if (code !== 0) throw new Error(`${words.join(' ')}: ${run.stderr}`);
  return run.stdout;
}

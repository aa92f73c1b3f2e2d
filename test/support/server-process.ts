import { join } from 'node:path';

import { startProgram, type Program } from './processes.ts';
import { freePort } from './loopback.ts';
import { runCommandInProcess } from './run-command-in-process.ts';
import { temporaryFolder } from './temporary-folder.ts';
import { serverLauncher } from './programs.ts';

const launcher = serverLauncher;

/** `latchkey-server start` as a process of its own, with a data directory of its own. */
export interface ServerProcess extends AsyncDisposable {
  /** Where it is reached. */
  readonly base: string;
  /** Where it listens. */
  readonly port: number;
  readonly dataDir: string;
  readonly program: Program;
  /** Ends the process and starts another one at the same place, on the same data. */
  restart(): Promise<void>;
  /** Runs an administrative command on the same data, in the process of the test; its stdout, or an error with its stderr. */
  readonly command: (words: readonly string[], input?: string) => Promise<string>;
  /** The same as a process of its own. */
  readonly commandProcess: (words: readonly string[], input?: string) => Promise<string>;
}

/**
 * `host` is what browsers call it: passkeys need a name, secure cookies an address. `frontPort` is the port of something
 * in front of it, which everybody asks instead.
 */
export async function serverProcess({
  host = '127.0.0.1',
  args = [],
  frontPort,
}: {
  host?: '127.0.0.1' | 'localhost';
  args?: readonly string[];
  frontPort?: number;
} = {}): Promise<ServerProcess> {
  const folder = await temporaryFolder('server');
  const dataDir = join(folder.path, 'data');
  const port = await freePort();
  const base = `http://${host}:${frontPort ?? port}`;
  const env = { LATCHKEY_DATA_DIR: dataDir };
  const start = async (): Promise<Program> => {
    const started = startProgram(process.execPath, {
      args: [launcher, 'start', '--port', String(port), '--base-url', base, ...args],
      env,
    });
    await started.line(/^listening on /m, { timeoutMs: 30_000 });
    return started;
  };
  let program = await start();
  return {
    base,
    port,
    dataDir,
    get program() {
      return program;
    },
    async restart() {
      await program.end();
      program = await start();
    },
    command: (words, input) => runCommandInProcess([...words, '--data-dir', dataDir], input),
    async commandProcess(words, input = '') {
      const run = startProgram(process.execPath, { args: [launcher, ...words], env });
      run.write(input);
      run.endInput();
      const { code } = await run.exited;
      if (code !== 0) throw new Error(`${words.join(' ')}: ${run.stderr}`);
      return run.stdout;
    },
    async [Symbol.asyncDispose]() {
      await program.end();
      await folder[Symbol.asyncDispose]();
    },
  };
}

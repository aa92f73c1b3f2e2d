import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { LaunchEntry } from '#proxy/config/launch-entry';
import { launcher, proxyProcess, type ProxyProcess } from './proxy-process.ts';
import { startProgram, type Exit } from './processes.ts';
import { temporaryFolder } from './temporary-folder.ts';

/** A person's home directory, in which a test uses `latchkey` as a person does. */
export interface LatchkeyHome extends AsyncDisposable {
  readonly path: string;
  readonly env: Readonly<Record<string, string>>;
  /** The file's text; `undefined` when there is none. */
  read(file: string): Promise<string | undefined>;
  write(file: string, text: string): Promise<void>;
  /** Runs a command to its end; `input` is what is piped into it. */
  run(args: readonly string[], input?: string): Promise<Exit & { stdout: string; stderr: string }>;
  /** Runs a command with `--json`, which must end with 0; its standard output, parsed. */
  json(args: readonly string[], input?: string): Promise<Record<string, unknown>>;
  /** Starts the program of an entry as an assistant does, with only the environment that an assistant passes on. */
  start(entry: LaunchEntry): ProxyProcess;
}

/**
 * `bus` is the environment of a keychain session; as with assistants, only the variables of the bus are passed on.
 * `command` and `words` start the program.
 */
export async function latchkeyHome(
  bus: Readonly<Record<string, string>>,
  [command, ...words]: readonly [string, ...string[]] = [process.execPath, launcher],
): Promise<LatchkeyHome> {
  const folder = await temporaryFolder('home');
  const { DBUS_SESSION_BUS_ADDRESS: address = '', XDG_RUNTIME_DIR: runtime = '' } = bus;
  const env = {
    HOME: folder.path,
    DBUS_SESSION_BUS_ADDRESS: address,
    XDG_RUNTIME_DIR: runtime,
    BROWSER: '/bin/false',
  };
  const bare = { XDG_CONFIG_HOME: undefined, XDG_STATE_HOME: undefined, XDG_DATA_HOME: undefined };

  async function run(args: readonly string[], input = '') {
    const program = startProgram(command, {
      args: [...words, ...args],
      env: { ...bare, ...env },
      cwd: folder.path,
    });
    if (input) program.write(input);
    program.endInput();
    const exit = await program.exited;
    return { ...exit, stdout: program.stdout, stderr: program.stderr };
  }

  return {
    path: folder.path,
    env,
    read: async (file) => readFile(join(folder.path, file), 'utf8').catch(() => undefined),
    async write(file, text) {
      await mkdir(dirname(join(folder.path, file)), { recursive: true });
      await writeFile(join(folder.path, file), text);
    },
    run,
    async json(args, input) {
      const { code, stdout, stderr } = await run([...args, '--json'], input);
      if (code !== 0) throw new Error(`latchkey ${args.join(' ')} ended with ${code}: ${stderr}`);
      const value: Record<string, unknown> = JSON.parse(stdout);
      return value;
    },
    start: (entry) => proxyProcess({ ...entry, env: { ...env, ...entry.env } }),
    [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose](),
  };
}

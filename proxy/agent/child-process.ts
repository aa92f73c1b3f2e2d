import type { ChildProcessByStdio } from 'node:child_process';
import { kill } from 'node:process';
import type { Readable, Writable } from 'node:stream';
import type { Clock } from '#clock/clock';
import type { Log } from '#log/log';
import { redact } from 'latchkey-mcp/safe-text';
import { type LongLine, lineWriter, readLines } from '#pipeline/lines';
import type { ChildGuard } from './child-guard.ts';
import { LocalServerError } from './local-server.ts';

/** The command to start, as configured. */
export type ChildSettings = {
  command: string;
  args: readonly string[];
  /** The whole environment of the child. */
  env: Readonly<Record<string, string>>;
  cwd?: string;
};

/** A running MCP server that speaks over its standard input and output. */
export interface Child {
  /** The lines of its standard output. They end with the child. */
  readonly lines: AsyncIterable<Buffer | LongLine>;

  /** Resolves when the child has ended, with a description: `ended with code 1: no such file`. */
  readonly ended: Promise<string>;

  /** Writes a line. Resolves when another one can be written. */
  write(line: Buffer): Promise<void>;

  /**
   * Closes the child's input. If the child does not end then, terminates it, and finally kills it. Resolves when the
   * child has ended. On POSIX, the processes left in its group are killed, too.
   */
  end(): Promise<void>;
}

const inherited: Readonly<Record<'posix' | 'windows', readonly string[]>> = {
  posix: ['PATH', 'HOME', 'USER', 'LOGNAME', 'SHELL', 'TMPDIR', 'TZ', 'LANG', 'LANGUAGE'],
  windows: [
    'PATH',
    'PATHEXT',
    'SYSTEMROOT',
    'SYSTEMDRIVE',
    'COMSPEC',
    'TEMP',
    'TMP',
    'USERNAME',
    'USERPROFILE',
    'HOMEDRIVE',
    'HOMEPATH',
    'APPDATA',
    'LOCALAPPDATA',
    'PROGRAMDATA',
    'PROGRAMFILES',
    'PROCESSOR_ARCHITECTURE',
  ],
};

/**
 * The environment of a child: basic variables such as `PATH`, `HOME` and `LANG`, and those that are configured for it.
 * Other variables of this process are not passed on, because any of them may contain a secret.
 */
export function childEnvironment(
  ours: Readonly<Record<string, string | undefined>>,
  configured: Readonly<Record<string, string>>,
  platform: NodeJS.Platform,
): Record<string, string> {
  const windows = platform === 'win32';
  const names = new Set(inherited[windows ? 'windows' : 'posix']);
  const kept = Object.entries(ours).filter((entry): entry is [string, string] => {
    const [name, value] = entry;
    if (value === undefined || value.startsWith('()')) return false; // A function that Bash exported.
    return names.has(windows ? name.toUpperCase() : name) || (!windows && name.startsWith('LC_'));
  });
  return { ...Object.fromEntries(kept), ...configured };
}

export type StartChildPorts = {
  guard: ChildGuard;
  clock: Clock;
  log: Log;
  platform: NodeJS.Platform;
  /** The length of the longest line that is read. */
  maxMessageBytes: number;
};

/** How long a child may take to end after its input has ended, and then after SIGTERM. */
const inputEndedMs = 500;
const terminatedMs = 2_000;
const lastWordsBytes = 2_048;

type Process = ChildProcessByStdio<Writable, Readable, Readable>;

/**
 * Starts a command without a shell. On POSIX, its process leads a process group of its own. On Windows, scripts such as
 * `npx.cmd` run through `cmd.exe`, with their arguments escaped.
 *
 * @throws {LocalServerError} `unreachable`
 */
export async function startChild(settings: ChildSettings, ports: StartChildPorts): Promise<Child> {
  const { command, args, env, cwd } = settings;
  const { guard, clock, platform, maxMessageBytes, log } = ports;
  // Static imports would load these modules at every start of the bundled program.
  const { spawn } = await import('node:child_process');
  const { default: crossSpawn } = await import('cross-spawn');
  const started = crossSpawn(command, args, {
    env,
    ...(cwd !== undefined && { cwd }),
    stdio: ['pipe', 'pipe', 'pipe'],
    detached: platform !== 'win32',
    windowsHide: true,
  });
  const { pid } = await whenStarted(started, settings);
  guard.watch(pid);
  log.debug('child started', { command, pid });
  const words = lastWords(started.stderr, Object.values(env));
  const writer = lineWriter(started.stdin);
  const signal = (name: NodeJS.Signals) => {
    if (platform === 'win32') {
      // Signals reach one process only, which may be a `cmd.exe` that waits for the actual server.
      const tree = ['/pid', String(pid), '/t', '/f'];
      spawn('taskkill', tree, { stdio: 'ignore', windowsHide: true }).on('error', () => undefined);
      return;
    }
    try {
      kill(-pid, name);
    } catch {
      // No process of the group is left.
    }
  };
  const ended = new Promise<string>((resolve) => {
    const end = (how: string) => {
      // Processes that the child started end with it. Otherwise they would keep its output open.
      if (platform !== 'win32') signal('SIGKILL');
      guard.forget(pid);
      void clock.sleep(inputEndedMs).then(() => started.stdout.destroy());
      const last = words();
      log.debug('child ended', { command, pid, how });
      resolve(last ? `${how}: ${last}` : how);
    };
    started.once('exit', (code, by) =>
      end(by === null ? `ended with code ${code}` : `was killed by ${by}`),
    );
    // On Windows: `cmd.exe` started, but did not find the command.
    started.once('error', (error) => end(`could not be started: ${error.message}`));
  });

  async function within(ms: number): Promise<boolean> {
    const passed = new AbortController();
    const inTime = await Promise.race([
      ended.then(() => true),
      clock.sleep(ms, passed.signal).then(() => false),
    ]);
    passed.abort();
    return inTime;
  }

  return {
    lines: readLines(started.stdout as AsyncIterable<Buffer>, maxMessageBytes),
    ended,
    write: async (line) => writer.write(line),
    async end() {
      writer.flush();
      started.stdin.end();
      if (await within(inputEndedMs)) return;
      signal('SIGTERM');
      if (await within(terminatedMs)) return;
      signal('SIGKILL');
      await ended;
    },
  };
}

async function whenStarted(
  started: Process,
  { command, cwd }: ChildSettings,
): Promise<{ pid: number }> {
  await new Promise<void>((resolve, reject) => {
    started.once('spawn', resolve);
    started.once('error', (error) => {
      const missing = 'code' in error && error.code === 'ENOENT';
      const where = cwd === undefined ? 'on its PATH' : `on its PATH, or no such folder: ${cwd}`;
      const why = missing ? `program not found ${where}` : error.message;
      reject(
        new LocalServerError('unreachable', `cannot start ${command}: ${why}`, { cause: error }),
      );
    });
  });
  started.on('error', () => undefined);
  return { pid: started.pid ?? 0 };
}

/** Reads `stderr` to its end. The returned function gives the last line so far, in which programs usually say why they fail. */
function lastWords(stderr: Readable, secrets: readonly string[]): () => string {
  let kept = '';
  stderr.setEncoding('utf8').on('data', (text: string) => {
    kept = (kept + text).slice(-lastWordsBytes);
  });
  stderr.on('error', () => undefined);
  return () => redact(kept.trim().split('\n').at(-1)?.trim() ?? '', secrets).slice(0, 300);
}

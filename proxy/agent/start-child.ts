import type { ChildProcessByStdio } from 'node:child_process';
import { kill } from 'node:process';
import type { Readable, Writable } from 'node:stream';
import { lineWriter, readLines } from '#pipeline/lines';
import type { Clock } from '#clock/clock';
import type { Log } from '#log/log';
import { redact } from '#log/redact';
import type { Child, ChildSettings } from './child.ts';
import type { ChildGuard } from './child-guard.ts';
import { LocalServerError } from './local-server.ts';

export type StartChildPorts = {
  guard: ChildGuard;
  clock: Clock;
  log: Log;
  platform: NodeJS.Platform;
  /** The longest line. */
  maxMessageBytes: number;
};

/** What a child may take to end by itself once its input has ended, and then once it is asked to. */
const politeMs = 500;
const askedMs = 2_000;
const lastWordsBytes = 2_048;

type Process = ChildProcessByStdio<Writable, Readable, Readable>;

/**
 * Starts a command without a shell; on POSIX, it leads a process group of its own. On Windows, what is not a program,
 * such as `npx.cmd`, needs `cmd.exe`, which gets its arguments escaped.
 *
 * @throws {LocalServerError} `unreachable`
 */
export async function startChild(settings: ChildSettings, ports: StartChildPorts): Promise<Child> {
  const { command, args, env, cwd } = settings;
  const { guard, clock, platform, maxMessageBytes, log } = ports;
  // Imported above, it would be loaded at every start of the bundled program.
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
      // Nobody of it is left.
    }
  };
  const ended = new Promise<string>((resolve) => {
    const end = (how: string) => {
      // What it started goes with it, and must not keep our end of its output open.
      if (platform !== 'win32') signal('SIGKILL');
      guard.forget(pid);
      void clock.sleep(politeMs).then(() => started.stdout.destroy());
      const said = words();
      log.debug('child ended', { command, pid, how });
      resolve(said ? `${how}: ${said}` : how);
    };
    started.once('exit', (code, by) =>
      end(by === null ? `ended with code ${code}` : `was ended by ${by}`),
    );
    // On Windows, `cmd.exe` started, and did not find the command.
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
      if (await within(politeMs)) return;
      signal('SIGTERM');
      if (await within(askedMs)) return;
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
      const where = cwd === undefined ? 'on its PATH' : `on its PATH, or no folder ${cwd}`;
      const why = missing ? `there is no such program ${where}` : error.message;
      reject(
        new LocalServerError('unreachable', `cannot start ${command}: ${why}`, { cause: error }),
      );
    });
  });
  started.on('error', () => undefined);
  return { pid: started.pid ?? 0 };
}

/** Reads all there is to read, and keeps the last line: what a program says before it gives up. */
function lastWords(stderr: Readable, secrets: readonly string[]): () => string {
  let kept = '';
  stderr.setEncoding('utf8').on('data', (text: string) => {
    kept = (kept + text).slice(-lastWordsBytes);
  });
  stderr.on('error', () => undefined);
  return () => redact(kept.trim().split('\n').at(-1)?.trim() ?? '', secrets).slice(0, 300);
}

import type childProcess from 'node:child_process';
import type { ChildProcessByStdio } from 'node:child_process';
import { createRequire } from 'node:module';
import { Socket } from 'node:net';
import type { Writable } from 'node:stream';

/** The command line that starts a guard with `node`, the path of Node. */
export function guardWords(node: string): readonly [string, ...string[]] {
  return [node, '-e', `(${guardChildren.toString()})(process)`];
}

/**
 * Starts a small guard process with the first child. The guard has a session of its own, so that it survives this process. A
 * child that leaves its process group escapes the guard; on Windows, so do the processes that a child starts.
 */
export function childGuard([command, ...words]: readonly [string, ...string[]]) {
  const watched = new Set<number>();
  let guard: ChildProcessByStdio<Writable, null, null> | undefined;

  function start(): ChildProcessByStdio<Writable, null, null> {
    // A static import would load `node:child_process` at every start of the bundled program.
    const { spawn }: Pick<typeof childProcess, 'spawn'> = createRequire(import.meta.url)(
      'node:child_process',
    );
    const started = spawn(command, words, {
      stdio: ['pipe', 'ignore', 'ignore'],
      detached: true,
      windowsHide: true,
      env: {},
      cwd: '/',
    });
    const gone = () => {
      if (guard === started) guard = undefined;
    };
    started.on('error', gone);
    started.on('exit', gone);
    // The pipe breaks when the guard ends, which `exit` reports.
    started.stdin.on('error', () => undefined);
    started.unref();
    if (started.stdin instanceof Socket) started.stdin.unref();
    for (const pid of watched) started.stdin.write(`+${pid}\n`);
    return started;
  }

  return {
    /** Call it when a child has started. On POSIX, the child leads a process group of its own. */
    watch(pid: number): void {
      if (guard) guard.stdin.write(`+${pid}\n`);
      watched.add(pid);
      guard ??= start();
    },
    /** Call it when the child has ended. */
    forget(pid: number): void {
      watched.delete(pid);
      guard?.stdin.write(`-${pid}\n`);
    },
  };
}

/** Ends the children that remain when this process ends, however it ends. */
export type ChildGuard = ReturnType<typeof childGuard>;

/** The parts of `process` that a guard uses. */
type GuardProcess = {
  readonly stdin: NodeJS.ReadableStream;
  readonly platform: NodeJS.Platform;
  kill(pid: number, signal: NodeJS.Signals): boolean;
  on(signal: NodeJS.Signals, listener: () => void): unknown;
};

/**
 * Runs in the guard process and reads lines of `+PID` and `-PID`. Its input ends when the process that started it has
 * ended. The guard then ends the process groups that remain: with SIGTERM, and half a second later with SIGKILL.
 * `guardWords` passes the text of this function to Node, so it must not use anything outside itself.
 */
export async function guardChildren(guard: GuardProcess): Promise<void> {
  const left = new Set<number>();
  let rest = '';
  const end = (signal: NodeJS.Signals) => {
    for (const pid of left)
      try {
        guard.kill(guard.platform === 'win32' ? pid : -pid, signal);
      } catch {
        left.delete(pid);
      }
  };
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) guard.on(signal, () => {});
  await new Promise<void>((resolve) => {
    guard.stdin.on('data', (bytes) => {
      const lines = (rest + String(bytes)).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines)
        if (line.startsWith('+')) left.add(Number(line.slice(1)));
        else left.delete(Number(line.slice(1)));
    });
    guard.stdin.on('end', resolve);
  });
  end('SIGTERM');
  if (left.size === 0) return;
  await new Promise((resolve) => {
    setTimeout(resolve, 500);
  });
  end('SIGKILL');
}

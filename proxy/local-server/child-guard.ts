import type { ChildProcessByStdio } from 'node:child_process';
import { spawn } from 'node:child_process';
import { Socket } from 'node:net';
import type { Writable } from 'node:stream';

/** Sees to it that no child outlives this process, however that ends. */
export interface ChildGuard {
  /** A child has started; on POSIX it leads a process group of its own. */
  watch(pid: number): void;

  /** It has ended. */
  forget(pid: number): void;
}

/**
 * Reads `+PID` and `-PID` lines. At the end of its input, which is when whoever started it is no more, it
 * ends those that are left with all their processes: politely, and half a second later by force.
 */
const program = `
const guard = process;
const left = new Set();
let rest = '';
guard.stdin.setEncoding('latin1');
guard.stdin.on('data', (text) => {
  const lines = (rest + text).split('\\n');
  rest = lines.pop();
  for (const line of lines)
    if (line[0] === '+') left.add(Number(line.slice(1)));
    else left.delete(Number(line.slice(1)));
});
const end = (signal) => {
  for (const pid of left)
    try { guard.kill(guard.platform === 'win32' ? pid : -pid, signal); } catch { left.delete(pid); }
};
guard.stdin.on('end', () => {
  end('SIGTERM');
  if (left.size > 0) setTimeout(() => end('SIGKILL'), 500);
});
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) guard.on(signal, () => {});
`;

/**
 * One small process beside us, in a session of its own so that what ends us does not end it, started with
 * the first child. A child that leaves its process group escapes it; on Windows, so do a child's children.
 */
export function childGuard(node: string): ChildGuard {
  const watched = new Set<number>();
  let guard: ChildProcessByStdio<Writable, null, null> | undefined;

  function start(): ChildProcessByStdio<Writable, null, null> {
    const started = spawn(node, ['-e', program], {
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
    // It closes with the process, whose end is known by other means.
    started.stdin.on('error', () => undefined);
    started.unref();
    if (started.stdin instanceof Socket) started.stdin.unref();
    for (const pid of watched) started.stdin.write(`+${pid}\n`);
    return started;
  }

  return {
    watch(pid) {
      if (guard) guard.stdin.write(`+${pid}\n`);
      watched.add(pid);
      guard ??= start();
    },
    forget(pid) {
      watched.delete(pid);
      guard?.stdin.write(`-${pid}\n`);
    },
  };
}

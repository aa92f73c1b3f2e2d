import type childProcess from 'node:child_process';
import type { ChildProcessByStdio } from 'node:child_process';
import { createRequire } from 'node:module';
import { Socket } from 'node:net';
import type { Writable } from 'node:stream';
import { guardChildren } from './guard-children.ts';

/** Sees to it that no child outlives this process, however that ends. */
export interface ChildGuard {
  /** A child has started; on POSIX it leads a process group of its own. */
  watch(pid: number): void;

  /** It has ended. */
  forget(pid: number): void;
}

/** The words that start a guard, given a Node. */
export function guardWords(node: string): readonly [string, ...string[]] {
  return [node, '-e', `(${guardChildren.toString()})(process)`];
}

/**
 * One small process beside us, in a session of its own so that what ends us does not end it, started with
 * the first child. A child that leaves its process group escapes it; on Windows, so do a child's children.
 */
export function childGuard([command, ...words]: readonly [string, ...string[]]): ChildGuard {
  const watched = new Set<number>();
  let guard: ChildProcessByStdio<Writable, null, null> | undefined;

  function start(): ChildProcessByStdio<Writable, null, null> {
    // Imported, it would be loaded at every start of the bundled program.
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

import { join } from 'node:path';
import { vi } from 'vitest';
import type { AnswerKind } from '#support/fault-mcp';
import { startProgram } from '#support/processes';
import { patient } from './patient.ts';

export type KillableServer = AsyncDisposable & {
  url: string;
  /** All that `faultMcp` heard in this run, in order. */
  heard(): string[];
  /** Resolves when it has heard something that matches `pattern`, `times` times. */
  hears(pattern: RegExp, times?: number): Promise<void>;
  signal(signal: NodeJS.Signals): void;
  /** Kills the server immediately, as if the power had failed. */
  killed(): Promise<void>;
  /** Starts a new process at the same address, which remembers nothing. */
  again(): Promise<KillableServer>;
};

/** `faultMcp` as a process of its own. */
export async function killableServer(kind: AnswerKind, port = 0): Promise<KillableServer> {
  const program = startProgram(process.execPath, {
    args: [join(import.meta.dirname, 'fault-server.ts'), String(port), kind],
  });
  const [, at = ''] = await program.line(/^listening .*"port":(\d+)/);
  const heard = () => program.stdout.trim().split('\n').slice(1);
  return {
    url: `http://127.0.0.1:${at}/mcp`,
    heard,
    async hears(pattern, times = 1) {
      await vi.waitFor(() => {
        const found = heard().filter((what) => pattern.test(what)).length;
        if (found < times) throw new Error(`heard ${found} of ${times}: ${program.stderr}`);
      }, patient);
    },
    signal: (signal) => program.kill(signal),
    async killed() {
      program.kill('SIGKILL');
      await program.exited;
    },
    again: async () => killableServer(kind, Number(at)),
    [Symbol.asyncDispose]: async () => program[Symbol.asyncDispose](),
  };
}

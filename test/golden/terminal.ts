import { join } from 'node:path';
import { z } from 'zod';
import { startProgram } from '#support/processes';
import { proxyLauncher } from '#support/programs';

const here = import.meta.dirname;
const outcomeSchema = z.object({
  code: z.int().nullable(),
  stdout: z.string(),
  stderr: z.string(),
});
type Outcome = z.infer<typeof outcomeSchema>;

/** A command as it was typed and what it did. */
export interface Step extends Outcome {
  readonly typed: string;
}

/** Runs commands one after another and records them. */
export interface Terminal {
  readonly steps: readonly Step[];
  /** Runs the words of `typed`, separated by single spaces. Returns what the command printed, even if it failed. */
  readonly run: (typed: string, input?: string) => Promise<string>;
}

export interface TerminalOptions {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  /** Appended to every command. */
  readonly suffix: string;
}

/** Runs commands of `latchkey-server`, all in one process, each a second after the one before it. */
export function serverTerminal(
  { env, cwd, suffix }: TerminalOptions,
  { secondsAgo }: { readonly secondsAgo: number },
): Terminal & AsyncDisposable {
  const main = join(here, '../../server/main.ts');
  const args = [join(here, 'command-host.ts'), main, String(secondsAgo)];
  const host = startProgram(process.execPath, { args, env, cwd });
  const answers: ((line: string) => void)[] = [];
  host.onLine((line) => answers.shift()?.(line));
  const steps: Step[] = [];
  return {
    steps,
    async run(typed, input = '') {
      const next = new Promise<string>((resolve) => void answers.push(resolve));
      host.write(`${JSON.stringify({ args: words(`${typed} ${suffix}`), input })}\n`);
      const ended = host.exited.then(() => {
        throw new Error(`latchkey-server ${typed}: ${host.stderr}`);
      });
      const outcome = outcomeSchema.parse(JSON.parse(await Promise.race([next, ended])));
      steps.push({ typed: `latchkey-server ${typed}`, ...outcome });
      return outcome.stdout;
    },
    async [Symbol.asyncDispose]() {
      host.endInput();
      await host.exited;
    },
  };
}

/** Runs commands of `latchkey`, a process each. */
export function proxyTerminal({ env, cwd, suffix }: TerminalOptions): Terminal {
  const steps: Step[] = [];
  return {
    steps,
    async run(typed, input = '') {
      const args = [proxyLauncher, ...words(`${typed} ${suffix}`)];
      const program = startProgram(process.execPath, { args, env, cwd });
      program.write(input);
      program.endInput();
      const { code } = await program.exited;
      const { stdout, stderr } = program;
      steps.push({ typed: `latchkey ${typed}`, code, stdout, stderr });
      return stdout;
    },
  };
}

function words(typed: string): string[] {
  return typed.split(' ').filter((word) => word !== '');
}

/**
 * The first match of `pattern` in what a command printed.
 *
 * @throws {Error} with all that it printed
 */
export function found(pattern: RegExp, printed: string): string {
  const [match] = pattern.exec(printed) ?? [];
  if (match === undefined) throw new Error(`no ${String(pattern)} in: ${printed}`);
  return match;
}

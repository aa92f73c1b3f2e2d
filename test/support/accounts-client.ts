import { join } from 'node:path';
import { startProgram, type Program } from './processes.ts';

const script = join(import.meta.dirname, 'accounts-process.ts');
const killBeforeScript = join(import.meta.dirname, 'crashes/kill-before.ts');

/** Another program of the person, which uses `latchkey/accounts`. */
export interface AccountsClient extends AsyncDisposable {
  readonly program: Program;
  /** The result of a call. It rejects with the message of the refusal. */
  call<Value = Record<string, unknown>>(name: string, ...input: unknown[]): Promise<Value>;
}

/** SIGKILL ends the program right before a write with this name, such as `keep api key`; `after` writes of that name go through first. */
export type DiesBefore = { write: string; after?: number };

export function accountsClient(
  env: Readonly<Record<string, string | undefined>>,
  dies?: DiesBefore,
): AccountsClient {
  const { write, after = 0 } = dies ?? {};
  const program = startProgram(process.execPath, {
    args: [...(dies ? ['--import', killBeforeScript] : []), script],
    env: { ...env, ...(dies && { KILL_BEFORE: write, KILL_AFTER: String(after) }) },
  });
  const waiting: ((line: string) => void)[] = [];
  program.onLine((line) => waiting.shift()?.(line));
  return {
    program,
    async call(name, ...input) {
      const answered = new Promise<string>((resolve) => waiting.push(resolve));
      program.write(`${JSON.stringify([name, ...input])}\n`);
      const ended = program.exited.then((exit) => {
        throw new Error(
          `the accounts service ended with ${JSON.stringify(exit)}: ${program.stderr}`,
        );
      });
      const { value, error } = JSON.parse(await Promise.race([answered, ended]));
      if (error) throw new Error(`${error.message}; ${error.hint}`);
      return value;
    },
    [Symbol.asyncDispose]: async () => {
      await program.end();
    },
  };
}

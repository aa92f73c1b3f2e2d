import { join } from 'node:path';
import { startProgram, type Program } from './processes.ts';

const script = join(import.meta.dirname, 'accounts-process.ts');
const killBeforeScript = join(import.meta.dirname, 'crashes/kill-before.ts');

/** Another program of the person that goes through the door `latchkey/accounts`. */
export interface DoorProcess extends AsyncDisposable {
  readonly program: Program;
  /** What came of the call; it rejects with the words of the refusal. */
  call<Value = Record<string, unknown>>(name: string, ...input: unknown[]): Promise<Value>;
}

/** Dies by SIGKILL right before a write of that name, such as `keep api key`; `after` so many others. */
export type DiesBefore = { write: string; after?: number };

export function doorProcess(
  env: Readonly<Record<string, string | undefined>>,
  dies?: DiesBefore,
): DoorProcess {
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
      const gone = program.exited.then((exit) => {
        throw new Error(`the door ended with ${JSON.stringify(exit)}: ${program.stderr}`);
      });
      const { value, error } = JSON.parse(await Promise.race([answered, gone]));
      if (error) throw new Error(`${error.message}; ${error.hint}`);
      return value;
    },
    [Symbol.asyncDispose]: async () => {
      await program.end();
    },
  };
}

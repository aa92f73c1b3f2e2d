import { createInterface } from 'node:readline/promises';
import { Writable, type Readable } from 'node:stream';
import { text } from 'node:stream/consumers';

import { CommandError } from '#config/usage-error';

/** The input of a command, from a person or from another program, and where to write prompts. */
export interface Terminal {
  readonly input: Readable & { readonly isTTY?: boolean };
  readonly prompt: (text: string) => void;
}

/**
 * Reads a line for each of `prompts` from a terminal, without echo. If the input is not a terminal, returns its first
 * line for each of them.
 *
 * @throws {CommandError} when the user cancels; its message says that no `what` was given
 */
export async function readHidden(
  prompts: readonly string[],
  what: string,
  { input, prompt }: Terminal,
): Promise<string[]> {
  if (input.isTTY !== true) {
    const [line = ''] = (await text(input)).split(/\r?\n/);
    return prompts.map(() => line);
  }
  const noOutput = new Writable({ write: (_chunk, _encoding, done) => done() });
  const lines = createInterface({ input, output: noOutput, terminal: true });
  const cancelled = new AbortController();
  lines.once('SIGINT', () => cancelled.abort()).once('close', () => cancelled.abort());
  const typed: string[] = [];
  try {
    for (const question of prompts) {
      prompt(question);
      typed.push(await lines.question('', { signal: cancelled.signal }));
      prompt('\n');
    }
    return typed;
  } catch (cause) {
    prompt('\n');
    throw new CommandError(`no ${what} entered`, undefined, { cause });
  } finally {
    lines.close();
  }
}

/**
 * Reads a new password: in a terminal twice, without echo; otherwise the first line of the input.
 *
 * @throws {CommandError} when the user cancels
 */
export async function readPassword(
  terminal: Terminal,
): Promise<{ password: string; repeated: string }> {
  const prompts = ['Password: ', 'Confirm password: '];
  const [password = '', repeated = ''] = await readHidden(prompts, 'password', terminal);
  return { password, repeated };
}

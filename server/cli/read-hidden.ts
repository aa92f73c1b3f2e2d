import { createInterface } from 'node:readline/promises';
import { Writable, type Readable } from 'node:stream';
import { text } from 'node:stream/consumers';

import { CommandError } from '#config/usage-error';

/** Where a person types, or a program pipes something in. */
export interface Terminal {
  readonly input: Readable & { readonly isTTY?: boolean };
  readonly prompt: (text: string) => void;
}

/**
 * What a person types without it being shown, once for each of `prompts`; or else the first line of what is
 * piped in, for all of them alike.
 *
 * @throws {CommandError} saying that no `what` was given, when the person gives up
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
  const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() });
  const lines = createInterface({ input, output: nowhere, terminal: true });
  const givenUp = new AbortController();
  lines.once('SIGINT', () => givenUp.abort()).once('close', () => givenUp.abort());
  const typed: string[] = [];
  try {
    for (const words of prompts) {
      prompt(words);
      typed.push(await lines.question('', { signal: givenUp.signal }));
      prompt('\n');
    }
    return typed;
  } catch (cause) {
    prompt('\n');
    throw new CommandError(`no ${what} was given`, undefined, { cause });
  } finally {
    lines.close();
  }
}

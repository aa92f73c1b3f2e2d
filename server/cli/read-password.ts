import { createInterface } from 'node:readline/promises';
import { Writable, type Readable } from 'node:stream';
import { text } from 'node:stream/consumers';

import { CommandError } from '#config/usage-error';

/**
 * A new password: asked twice on a terminal, without showing it; else the first line of what is piped in.
 *
 * @throws {CommandError} when the person gives up
 */
export async function readPassword({
  input,
  prompt,
}: {
  input: Readable & { readonly isTTY?: boolean };
  prompt: (text: string) => void;
}): Promise<{ password: string; repeated: string }> {
  if (input.isTTY !== true) {
    const [password = ''] = (await text(input)).split(/\r?\n/);
    return { password, repeated: password };
  }
  const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() });
  const lines = createInterface({ input, output: nowhere, terminal: true });
  const givenUp = new AbortController();
  lines.once('SIGINT', () => givenUp.abort()).once('close', () => givenUp.abort());
  const ask = async (words: string) => {
    prompt(words);
    const line = await lines.question('', { signal: givenUp.signal });
    prompt('\n');
    return line;
  };
  try {
    return { password: await ask('Password: '), repeated: await ask('Password, again: ') };
  } catch (cause) {
    prompt('\n');
    throw new CommandError('no password was given', undefined, { cause });
  } finally {
    lines.close();
  }
}

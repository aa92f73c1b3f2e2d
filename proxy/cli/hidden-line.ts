import type { ReadStream } from 'node:tty';
import { Writable } from 'node:stream';

/** One line from a terminal, typed unseen behind `question`; from anything else, the first line. */
export async function hiddenLine(
  question: string,
  input: NodeJS.ReadStream | ReadStream,
  output: NodeJS.WritableStream,
): Promise<string> {
  const { createInterface } = await import('node:readline');
  const terminal = input.isTTY;
  // The editor of the terminal echoes what is typed; here it echoes to nobody.
  const nobody = new Writable({ write: (_chunk, _encoding, done) => done() });
  const lines = createInterface({ input, output: nobody, terminal });
  if (terminal) output.write(`${question}: `);
  try {
    for await (const line of lines) return line.trim();
    return '';
  } finally {
    lines.close();
    if (terminal) output.write('\n');
  }
}

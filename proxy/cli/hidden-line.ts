import type { ReadStream } from 'node:tty';
import { Writable } from 'node:stream';
import { UsageError } from '#config/errors';

/**
 * Prints `question` on a terminal and reads one line without echo. From any other input, reads the first line.
 *
 * @throws {UsageError} if the person pressed Ctrl-C
 */
export async function hiddenLine(
  question: string,
  input: NodeJS.ReadStream | ReadStream,
  output: NodeJS.WritableStream,
): Promise<string> {
  const { createInterface } = await import('node:readline');
  const terminal = input.isTTY;
  // The line editor echoes what is typed; this discards it.
  const discarded = new Writable({ write: (_chunk, _encoding, done) => done() });
  const lines = createInterface({ input, output: discarded, terminal });
  let isCancelled = false;
  lines.once('SIGINT', () => {
    isCancelled = true;
    lines.close();
  });
  if (terminal) output.write(`${question}: `);
  try {
    for await (const line of lines) return line.trim();
    if (isCancelled) throw new UsageError('cancelled', '');
    return '';
  } finally {
    lines.close();
    if (terminal) output.write('\n');
  }
}

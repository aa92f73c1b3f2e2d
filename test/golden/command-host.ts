/**
 * Runs many commands of `latchkey-server` in one process, from the sources, because starting a process for each takes
 * ten times as long: `main.ts` is evaluated for every command, and what it imports is loaded once.
 *
 * Reads `{"args": […], "input": "…"}` a line on stdin, and answers `{"code", "stdout", "stderr"}` a line on stdout. Each
 * command runs in a second of its own, so that lists which are ordered by time always have the same order. The first of
 * these seconds lies SECONDS_AGO before the start.
 */
import { createInterface } from 'node:readline';
import { Readable } from 'node:stream';
import { pathToFileURL } from 'node:url';
import { z } from 'zod';

const commandSchema = z.object({ args: z.array(z.string()), input: z.string() });

/** Thrown where the program would have exited. */
class Exited extends Error {
  readonly code: number;
  constructor(code: number) {
    super(`exited with ${code}`);
    this.code = code;
  }
}

const [node = '', host = '', main = '', secondsAgo = ''] = process.argv;
const begun = Date.now() - Number(secondsAgo) * 1000;
const { stdin, stdout, stderr } = process;
const answer = stdout.write.bind(stdout);
const complain = stderr.write.bind(stderr);
const printed = { stdout: '', stderr: '' };
const keepIn = (name: 'stdout' | 'stderr') => (chunk: string | Uint8Array) => {
  printed[name] += typeof chunk === 'string' ? chunk : Buffer.from(chunk).toString();
  return true;
};
// Each command adds its listeners to them.
for (const emitter of [process, stdout, stderr]) emitter.setMaxListeners(0);
const exit = process.exit.bind(process);

let count = 0;
Date.now = () => begun + count * 1000;

async function run(args: readonly string[], input: string): Promise<number> {
  count += 1;
  Object.assign(printed, { stdout: '', stderr: '' });
  process.argv = [node, main, ...args];
  Object.defineProperty(process, 'stdin', { value: Readable.from([input]), configurable: true });
  stdout.write = keepIn('stdout');
  stderr.write = keepIn('stderr');
  process.exit = (code) => {
    throw new Exited(Number(code ?? 0));
  };
  try {
    await import(`${pathToFileURL(main).href}?${count}`);
    return 0;
  } catch (error) {
    if (error instanceof Exited) return error.code;
    throw error;
  } finally {
    stdout.write = answer;
    stderr.write = complain;
    process.exit = exit;
  }
}

if (secondsAgo === '') throw new Error(`usage: node ${host} MAIN SECONDS_AGO`);
for await (const line of createInterface({ input: stdin })) {
  const { args, input } = commandSchema.parse(JSON.parse(line));
  const code = await run(args, input);
  answer(`${JSON.stringify({ code, ...printed })}\n`);
}

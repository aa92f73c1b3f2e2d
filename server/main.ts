// Modules that most commands do not need are imported on demand: a build puts the running server, the commands, and their common
// modules into separate files. Evaluating the server takes longer than most commands.
import { errorWords } from '#cli/error-words';
import { UsageError } from '#config/usage-error';
import { printable, printableLine, redact } from 'latchkey-mcp/safe-text';
import { systemClock } from '#model/clock';
import manifest from './package.json' with { type: 'json' };

const here = new URL('.', import.meta.url);
/** Whether this is a file of a build, and not one of the sources. */
const isBuilt = import.meta.filename.endsWith('.js');
const clock = systemClock();
const out = (line: string) => void process.stdout.write(`${printableLine(line)}\n`);
const print = (text: string) => text.split('\n').forEach(out);
/** Writes to stderr, so that a program that reads stdout does not get the line. */
const tell = (line: string) => void process.stderr.write(`${printable(line)}\n`);

const isServer = process.argv[2] === 'start';
/** Whether the process ends when the reader of stdout disconnects, as `head` does. */
let endsWithReader = false;

// No failure of stdout stops a server. Most commands finish their work, even if no one reads their output.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (isServer) return;
  if (error.code !== 'EPIPE') fail(error);
  if (endsWithReader) process.exit(0);
});

try {
  await run(process.argv.slice(2));
} catch (error) {
  fail(error);
}

async function run(argv: readonly string[]): Promise<void> {
  const [first] = argv;
  if (first === '--version') return out(manifest.version);
  const wantsHelp = argv.some((word) => word === '--help' || word === '-h');
  if (first === 'start' && !wantsHelp) {
    const { start } = await import('#app/start');
    const { version } = manifest;
    const host = { own: process, version, here, isBuilt, clock, out, tell, fail };
    return start(argv.slice(1), host);
  }
  if (first === 'help' && argv.length > 1) return run([...argv.slice(1), '--help']);
  const { helpText, nounHelpText, startHelpText } = await import('#cli/help');
  if (first === undefined || first === 'help' || (wantsHelp && first.startsWith('-'))) {
    return print(helpText(manifest.version));
  }
  if (first === 'start') return print(startHelpText());
  const [, second = '--help'] = argv;
  const nounHelp = second.startsWith('-') && wantsHelp ? nounHelpText(first) : undefined;
  if (nounHelp !== undefined) return print(nounHelp);
  const [{ runCommand }, { passwordHashing }] = await Promise.all([
    import('#app/run-command'),
    import('#accounts/passwords'),
  ]);
  const terminal = {
    input: process.stdin,
    prompt: (text: string) => void process.stderr.write(text),
  };
  const { env } = process;
  const endWithReader = () => (endsWithReader = true);
  const hashing = passwordHashing();
  const tryUrl = async (url: string, headers: Readonly<Record<string, string>>) =>
    (await import('#app/try-url')).tryUrl(url, headers, { clock });
  await runCommand(argv, { env, clock, hashing, terminal, out, tell, tryUrl, endWithReader });
}

/** Prints a line that says what failed and one that says what to do, and exits. */
function fail(error: unknown): void {
  const { message, hint } = errorWords(error);
  const lines = [`latchkey-server: ${message}`, ...(hint === undefined ? [] : [`hint: ${hint}`])];
  for (const line of lines) process.stderr.write(`${printable(redact(line))}\n`);
  process.exit(error instanceof UsageError ? 2 : 1);
}

import { Readable } from 'node:stream';
import { setTimeout as pause } from 'node:timers/promises';

import { printableLine } from '#mcp/safe-text';
import { systemClock } from '#server/model/clock';
import { CommandError, UsageError } from '#server/config/usage-error';
import { passwordHashing } from '#server/accounts/passwords';
import { runCommand } from '#server/app/run-command';

/** The least work that a password can cost: it is verified with the parameters of its hash. */
const hashing = passwordHashing({ log2Cost: 4 });

// One after another: two connections of one process that wait for each other would wait for ever.
let before: Promise<unknown> = Promise.resolve();

/**
 * Runs an administrative command of `latchkey-server` in the process of the test, outside the process of a running server;
 * its stdout. That takes a tenth of the time of a separate process.
 *
 * @param input what is piped in, such as a password
 * @throws {Error} with the text that a person reads on stderr, when the command fails
 */
export function runCommandInProcess(words: readonly string[], input = ''): Promise<string> {
  const own = before.then(() => runWithConnection(words, input));
  before = own.catch(() => undefined);
  return own;
}

const connectionWaitMs = 60_000;

/** Waits while PostgreSQL has no connection left: nodes of other tests use many for a moment. */
async function runWithConnection(words: readonly string[], input: string): Promise<string> {
  for (const until = Date.now() + connectionWaitMs; ; await pause(500)) {
    try {
      return await run(words, input);
    } catch (error) {
      // The connection was refused before the command did anything.
      const isFull = error instanceof Error && error.message.includes('too many clients already');
      if (!isFull || Date.now() > until) throw error;
    }
  }
}

async function run(words: readonly string[], input: string): Promise<string> {
  const lines: string[] = [];
  try {
    await runCommand(words, {
      env: {},
      clock: systemClock(),
      hashing,
      terminal: { input: Readable.from([input]), prompt: () => undefined },
      out: (line) => void lines.push(printableLine(line)),
      tell: () => undefined,
      // Tests count the requests of their upstreams.
      tryUrl: () => Promise.resolve(undefined),
      endWithReader: () => undefined,
    });
  } catch (cause) {
    const message = cause instanceof Error ? cause.message : String(cause);
    const isExplained = cause instanceof CommandError || cause instanceof UsageError;
    const hint = isExplained && cause.hint !== undefined ? `\nhint: ${cause.hint}` : '';
    throw new Error(`latchkey-server ${words.join(' ')}: ${message}${hint}`, { cause });
  }
  return lines.map((line) => `${line}\n`).join('');
}

import type { DatabaseSync } from 'node:sqlite';

import { onceATurn } from './once-a-turn.ts';
import { sqliteWritten } from './written.ts';

const maxRemembered = 10_000;

/**
 * Remembers what was read until anything is written, by whatever process: looking whether something was costs less
 * than reading it again, and once a turn of the event loop is enough, as it comes behind every question of that turn.
 * Inside a transaction of this connection nothing is remembered, as it may be taken back. What is not there is not
 * remembered either, so that nobody fills the memory by asking for it.
 */
export function untilWritten(connection: DatabaseSync) {
  const written = onceATurn(sqliteWritten(connection));
  const remembered = new Map<string, unknown>();
  let asOf = '';

  /** @param key names the question and everything that its answer hangs on */
  return async <Answer extends object>(
    key: string,
    read: () => Answer | undefined,
  ): Promise<Answer | undefined> => {
    const now = await written();
    if (connection.isTransaction) return read();
    if (now !== asOf || remembered.size >= maxRemembered) {
      remembered.clear();
      asOf = now;
    }
    const known = remembered.get(key);
    // What is kept under a key was read by the same question.
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion
    if (known !== undefined) return known as Answer;
    const answer = read();
    if (answer) remembered.set(key, answer);
    return answer;
  };
}

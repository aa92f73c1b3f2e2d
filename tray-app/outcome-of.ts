import { AccountsError } from 'latchkey/accounts';
import type { Outcome } from '#contract';

/** Why something did not happen, for a person. */
export type Refused = Extract<Outcome, { ok: false }>;

/**
 * The words for what a door rejected with, in which the name of what they are `about` stays as it is.
 * Anything else is a bug, and goes on as it came.
 */
export function refused(error: unknown, about = ''): Refused {
  if (!(error instanceof AccountsError)) throw error;
  return {
    ok: false,
    problem: sentence(error.message, about),
    remedy: sentence(error.hint, about),
  };
}

/** What came of `work`, which says at its end what it did. `about` is the connection it was done to. */
export async function outcomeOf(work: Promise<string>, about?: string): Promise<Outcome> {
  try {
    return { ok: true, message: await work };
  } catch (error) {
    return refused(error, about);
  }
}

/** As the terminal says it, with a capital, unless it begins with an address or a name, and a period. */
function sentence(words: string, about: string): string {
  if (words === '') return '';
  const capital = words.replace(/^[a-z]+(?=[\s,’'])/, (first) =>
    first === about ? first : first.charAt(0).toUpperCase() + first.slice(1),
  );
  return /[.!?]$/.test(capital) ? capital : `${capital}.`;
}

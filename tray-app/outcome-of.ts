import { AccountsError } from 'latchkey/accounts';
import type { Outcome } from '#contract';

/** Why something did not happen, for a person. */
export type Refused = Extract<Outcome, { ok: false }>;

/** The words for what a door rejected with. Anything else is a bug, and goes on as it came. */
export function refused(error: unknown): Refused {
  if (!(error instanceof AccountsError)) throw error;
  return { ok: false, problem: sentence(error.message), remedy: sentence(error.hint) };
}

/** What came of `work`, which says at its end what it did. */
export async function outcomeOf(work: Promise<string>): Promise<Outcome> {
  try {
    return { ok: true, message: await work };
  } catch (error) {
    return refused(error);
  }
}

/** As the terminal says it, with a capital, unless it begins with an address or a name, and a period. */
function sentence(words: string): string {
  if (words === '') return '';
  const capital = words.replace(
    /^[a-z]+(?=[\s,’'])/,
    (first) => first.charAt(0).toUpperCase() + first.slice(1),
  );
  return /[.!?]$/.test(capital) ? capital : `${capital}.`;
}

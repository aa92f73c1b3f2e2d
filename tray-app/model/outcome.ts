import { AccountsError } from 'latchkey/accounts';
import type { Failed, Outcome } from './contract.ts';

/**
 * The words for an error of the accounts service. The `names` of the connections that the error may be about keep their case.
 *
 * @throws any other error, which is a bug
 */
export function refused(error: unknown, ...names: string[]): Failed {
  if (!(error instanceof AccountsError)) throw error;
  return {
    ok: false,
    problem: sentence(error.message, names),
    remedy: sentence(error.hint, names),
  };
}

/** Receives an unexpected error, for the log. */
export type Report = (error: unknown) => void;

/**
 * The words for any error. An unexpected error is reported; its own text is not shown, because the text is for developers and may
 * contain a secret.
 */
export function failureOf(error: unknown, report: Report, ...names: string[]): Failed {
  if (error instanceof AccountsError) return refused(error, ...names);
  report(error);
  const kind = error instanceof Error ? error.name : typeof error;
  return {
    ok: false,
    problem: `An unexpected error occurred (${kind}).`,
    remedy: 'Try again. If it happens again, quit Latchkey and start it again.',
  };
}

/** The outcome of `work`, which resolves to a message about the connections with these names. */
export async function outcomeOf(work: Promise<string>, ...names: string[]): Promise<Outcome> {
  try {
    return { ok: true, message: await work };
  } catch (error) {
    return refused(error, ...names);
  }
}

/** Programs that a message, or a command in a remedy, may begin with. */
const programs = ['latchkey', 'node', 'npx', 'openssl'];

/** The words of the terminal with a period and, unless they begin with an address or a name, with a capital. */
function sentence(words: string, names: string[]): string {
  if (words === '') return '';
  const capital = words.replace(/^[a-z]+(?=[\s,’'])/, (first) =>
    [...names, ...programs].includes(first)
      ? first
      : first.charAt(0).toUpperCase() + first.slice(1),
  );
  return /[.!?]$/.test(capital) ? capital : `${capital}.`;
}

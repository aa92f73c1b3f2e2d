import { aborted, type Clock } from '#clock/clock';
import { UpstreamError } from '#transport/upstream';

/** The result of a check of the doctor. Never contains a secret. */
export type Finding = {
  check: string;
  state: 'ok' | 'warn' | 'fail';
  what: string;
  /** What to do about it. */
  hint?: string;
};

/** A check of the doctor. It may return several findings. If it throws, the error becomes a finding. */
export type Check = {
  name: string;
  run: (signal: AbortSignal) => Promise<readonly Finding[]> | readonly Finding[];
};

export const ok = (check: string, what: string): Finding => ({ check, state: 'ok', what });
const finding =
  (state: 'warn' | 'fail') =>
  (check: string, what: string, hint: string): Finding => ({ check, state, what, hint });
export const warn = finding('warn');
export const fail = finding('fail');

/** Turns the error of a check into a finding; throws bugs again. */
export type Words = (error: unknown) => { message: string; hint: string };

export type ExaminePorts = {
  clock: Clock;
  words: Words;
  /** Ends the run. */
  stop: AbortSignal;
  /** Called for a check that takes more than a second. */
  progress: (name: string) => void;
  /** Called with each finding as soon as there is one. */
  found: (finding: Finding) => void;
};

const limitMs = 30_000;
const quietMs = 1_000;

/**
 * Runs all checks one after the other, even if some fail. Each has half a minute.
 *
 * @throws {UpstreamError} `aborted` when it is stopped, without waiting for the check
 */
export async function examine(
  checks: readonly Check[],
  { clock, words, stop, progress, found }: ExaminePorts,
): Promise<Finding[]> {
  const all: Finding[] = [];
  for (const check of checks) {
    const limit = new AbortController();
    const over = new AbortController();
    void clock.sleep(quietMs, over.signal).then(() => {
      if (!over.signal.aborted) progress(check.name);
    });
    const late = clock.sleep(limitMs, over.signal).then(() => {
      limit.abort();
      return [fail(check.name, `no answer within ${limitMs / 1000} s`, 'try again later')];
    });
    const stopped = aborted(AbortSignal.any([stop, over.signal])).then(() => undefined);
    const findings = await Promise.race([
      (async () => check.run(limit.signal))().catch((error: unknown) => {
        return [inWords(check.name, error, words)];
      }),
      late,
      stopped,
    ]);
    over.abort();
    if (findings === undefined) {
      limit.abort();
      throw new UpstreamError('aborted', 'cancelled');
    }
    findings.forEach(found);
    all.push(...findings);
  }
  return all;
}

/** An error that `words` throws again is a bug. The other checks still run. */
function inWords(name: string, error: unknown, words: Words): Finding {
  try {
    const { message, hint } = words(error);
    return fail(name, message, hint);
  } catch {
    return fail(
      name,
      `unexpected error: ${String(error)}`,
      'report it to the developers of Latchkey',
    );
  }
}

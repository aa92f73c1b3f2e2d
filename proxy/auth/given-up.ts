import { LoopbackError } from './loopback-error.ts';

/** What a sign-in that is given up may still take to end by itself. */
const graceMs = 200;

/** Rejects soon after `signal` aborts, also while a server does not answer; until then the page can be told. */
export async function givenUp(signal: AbortSignal, signingIn: Promise<unknown>): Promise<never> {
  const ending = signingIn.catch(() => undefined);
  await new Promise((resolve) => {
    if (signal.aborted) resolve(undefined);
    signal.addEventListener('abort', resolve, { once: true });
  });
  await Promise.race([ending, new Promise((resolve) => setTimeout(resolve, graceMs))]);
  throw new LoopbackError('aborted', 'the sign-in was given up');
}

import { UpstreamError } from './upstream.ts';

/**
 * Does `ask`, and does it again when the answer broke off and the request `mayRepeat`: once, as what
 * breaks off twice breaks off always. A complete answer without a result is no reason.
 */
export async function onceMore(ask: () => Promise<void>, mayRepeat: () => boolean): Promise<void> {
  try {
    await ask();
  } catch (error) {
    if (!(error instanceof UpstreamError) || error.code !== 'no_answer') throw error;
    if (error.status === 202 || error.status === 204 || !mayRepeat()) throw error;
    await ask().catch((again: unknown) => {
      throw again instanceof UpstreamError ? again.with({ attempts: 2 }) : again;
    });
  }
}

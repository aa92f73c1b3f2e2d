import type { Clock } from '#clock/clock';
import type { Message } from '#jsonrpc/message';
import type { Deliver, Upstream } from '#transport/upstream';
import { KeptError } from './kept-error.ts';
import type { SignInPage } from './sign-in-door.ts';

export type FirstAnswerPorts = {
  upstream: Upstream;
  /** Takes what the server says besides. */
  deliver: Deliver;
  /** The page that a person is about to sign in at, for whom there is no hurry. */
  page: () => SignInPage | undefined;
  signal: AbortSignal;
  clock: Clock;
};

/** How long one attempt may take, a person's part aside. */
const attemptMs = 60_000;

/**
 * The answer to `request`, whether or not the server goes on talking behind it.
 *
 * @throws {KeptError} `stalled` when the server says nothing, or what the upstream rejects with
 */
export async function firstAnswer(
  request: Message,
  { upstream, deliver, page, signal: life, clock }: FirstAnswerPorts,
): Promise<Message> {
  const silence = (message: string) => new KeptError('stalled', message, { sinceAt: clock.now() });
  const answer = Promise.withResolvers<Message>();
  const answered = new AbortController();
  const stalled = new AbortController();
  const signal = AbortSignal.any([life, stalled.signal]);
  const take: Deliver = async (message) =>
    message.kind === 'response' ? answer.resolve(message) : deliver(message);
  upstream
    .send(request, take, signal)
    .then(() => answer.reject(silence('the server said nothing')), answer.reject);
  void (async () => {
    do await clock.sleep(attemptMs, answered.signal);
    while (page() && !answered.signal.aborted);
    if (answered.signal.aborted) return;
    stalled.abort();
    answer.reject(silence(`no answer within ${attemptMs / 1000} s`));
  })();
  return answer.promise.finally(() => answered.abort());
}

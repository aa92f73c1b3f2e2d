import { stringAt, type Message } from '#jsonrpc/message';
import type { Deliver } from '#transport/upstream';
import { madeMessage } from './made-message.ts';
import type { Elicited } from './offer-sign-in.ts';
import type { SignInPage } from './sign-in-door.ts';

/** Pages that an assistant of the session era shows for us. MCP 2025-11-25 elicitation, URL mode */
export interface ShownPages {
  /** Resolves with the person's answer; `accept` also when the page was finished before that. */
  show(page: SignInPage, text: string, deliver: Deliver, signal: AbortSignal): Promise<Elicited>;

  /** Takes an answer of the assistant; `false` when it is not to us. */
  take(answer: Message): boolean;
}

/** `say` takes the word that somebody has finished the page. */
export function shownPages(say: Deliver): ShownPages {
  const waiting = new Map<string, (answer: Message) => void>();
  let count = 0;
  return {
    async show(page, message, deliver, signal) {
      const elicitationId = `latchkey-sign-in-${(count += 1)}`;
      const id = JSON.stringify(elicitationId);
      const { promise, resolve } = Promise.withResolvers<Message | undefined>();
      waiting.set(id, resolve);
      const params = { mode: 'url', message, url: page.link().href, elicitationId };
      await deliver(madeMessage({ id: elicitationId, method: 'elicitation/create', params }));
      void page.done.then(async () => {
        resolve(undefined);
        const method = 'notifications/elicitation/complete';
        await say(madeMessage({ method, params: { elicitationId } }));
      });
      signal.addEventListener('abort', () => resolve(undefined), { once: true });
      const answer = await promise;
      waiting.delete(id);
      const action = answer ? stringAt(answer, 'result', 'action') : 'accept';
      return action === 'accept' || action === 'decline' ? action : 'cancel';
    },
    take(answer) {
      const resolve = waiting.get(answer.id ?? '');
      resolve?.(answer);
      return resolve !== undefined;
    },
  };
}

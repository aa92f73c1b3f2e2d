import type { SignInPage, SignInService } from '#auth/sign-in-service';
import { stringAt, type Message } from 'latchkey-mcp/raw-message';
import type { Deliver } from '#transport/upstream';
import { madeMessage } from './messages.ts';

/** How a person signs in to a connection, as the pipeline offers it to an assistant. */
export type PersonSignIn = Omit<SignInService, 'signIn'>;

/** The person's answer to the page that the assistant showed. */
export type Elicited = 'accept' | 'decline' | 'cancel';

/** Pages that a legacy assistant shows for us. MCP 2025-11-25 elicitation, URL mode */
export interface ElicitedPages {
  /** Resolves to the person's answer, or to `accept` if the sign-in is completed before it. */
  show(page: SignInPage, text: string, deliver: Deliver, signal: AbortSignal): Promise<Elicited>;

  /** Takes an answer of the assistant. Returns `false` if it does not respond to a request of ours. */
  take(answer: Message): boolean;
}

/** `notify` delivers the notification that the sign-in is completed. */
export function elicitedPages(notify: Deliver): ElicitedPages {
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
        await notify(madeMessage({ method, params: { elicitationId } }));
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

import type { SignInPage, SignInService } from '#auth/sign-in-service';
import { stringAt, type Message } from 'latchkey-mcp/raw-message';
import type { Deliver } from '#transport/upstream';
import { madeMessage } from './messages.ts';

/** How a person signs in to a connection, as the pipeline offers it to an assistant. */
export type PersonSignIn = Omit<SignInService, 'signIn'>;

/** Our own tools, which are listed while a server waits for a person. */
export type OwnTool = 'sign_in' | 'connect_account';

/** The person's answer to the page that the assistant showed. */
export type Elicited = 'accept' | 'decline' | 'cancel';

/** Pages that a legacy assistant shows for us. MCP 2025-11-25 elicitation, URL mode */
export class ElicitedPages {
  readonly #notify: Deliver;
  readonly #waiting = new Map<string, (answer: Message) => void>();
  #count = 0;

  /** `notify` delivers the notification that the sign-in has ended. */
  constructor(notify: Deliver) {
    this.#notify = notify;
  }

  /** Resolves to the person's answer, or to `accept` if the sign-in ends or `signal` aborts first. */
  async show(
    page: SignInPage,
    message: string,
    deliver: Deliver,
    signal: AbortSignal,
  ): Promise<Elicited> {
    const elicitationId = `latchkey-sign-in-${(this.#count += 1)}`;
    const id = JSON.stringify(elicitationId);
    const { promise, resolve } = Promise.withResolvers<Message | undefined>();
    this.#waiting.set(id, resolve);
    const params = { mode: 'url', message, url: page.link().href, elicitationId };
    await deliver(madeMessage({ id: elicitationId, method: 'elicitation/create', params }));
    void page.done.then(async () => {
      resolve(undefined);
      const method = 'notifications/elicitation/complete';
      await this.#notify(madeMessage({ method, params: { elicitationId } }));
    });
    signal.addEventListener('abort', () => resolve(undefined), { once: true });
    const answer = await promise;
    this.#waiting.delete(id);
    const action = answer ? stringAt(answer, 'result', 'action') : 'accept';
    return action === 'accept' || action === 'decline' ? action : 'cancel';
  }

  /** Takes an answer from the assistant. Returns `false` if it answers none of our requests. */
  take(answer: Message): boolean {
    const resolve = this.#waiting.get(answer.id ?? '');
    resolve?.(answer);
    return resolve !== undefined;
  }
}

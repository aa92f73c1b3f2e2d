import { stringAt, type Message } from 'latchkey-mcp/raw-message';
import type { Deliver } from '#transport/upstream';
import { madeMessage } from './messages.ts';
import type { Elicited } from './offline-answers.ts';

/** A page that waits for a person to sign in. */
export type SignInPage = {
  /** A new URL that leads there, valid for one browser. */
  link: () => URL;
  /** Whether we opened the browser; otherwise the person opens the URL. */
  opened: boolean;
  /** Resolves with whether the person signed in; never rejects. */
  done: Promise<boolean>;
  /** Closes the page: it is no longer needed. */
  giveUp: () => void;
};

/** How a person signs in to a connection. */
export interface SignInService {
  /** Whether requests wait for the person without a time limit. */
  readonly waits: boolean;

  /** The command to run instead: `latchkey login acme`. */
  readonly command: string;

  /** The open page, if any. */
  page(): SignInPage | undefined;

  /** Resolves when a page is open, or `signal` aborts. */
  shown(signal: AbortSignal): Promise<void>;

  /**
   * Starts a sign-in on request, or joins the current one. Opens the browser if that is allowed, unless the assistant
   * shows the page (`handed`). Returns `undefined` without a page if the person is signed in already, or is signing in
   * with another process.
   *
   * @throws what a sign-in rejects with before its page is open
   */
  begin(handed: boolean): Promise<SignInPage | undefined>;

  /** Whether the person has signed in since sign-in was required. Fast. */
  signedIn(): Promise<boolean>;

  /** Checks for a sign-in with another process, and then ends the wait for the page. */
  lookAgain(): Promise<void>;
}

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

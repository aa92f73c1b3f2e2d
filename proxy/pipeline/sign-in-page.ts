import { stringAt, type Message } from 'latchkey-mcp/raw-message';
import type { Deliver } from '#transport/upstream';
import { madeMessage } from './messages.ts';
import type { Elicited } from './sign-in-tool.ts';

/** A page that waits for a person to sign in. */
export type SignInPage = {
  /** A new address that leads there, good for one browser. */
  link: () => URL;
  /** Whether the browser was opened with one; otherwise the person opens the address. */
  opened: boolean;
  /** Resolves with whether the person signed in; never rejects. */
  done: Promise<boolean>;
  /** Closes the page: it is no longer needed. */
  giveUp: () => void;
};

/** What a person can do about a connection that requires sign-in. */
export interface SignInService {
  /** Requests wait for the person, however long that takes. */
  readonly waits: boolean;

  /** What to type instead: `latchkey login acme`. */
  readonly command: string;

  /** The page that waits now. */
  page(): SignInPage | undefined;

  /** Resolves when a page waits; at the latest when `signal` aborts. */
  shown(signal: AbortSignal): Promise<void>;

  /**
   * Begins a sign-in on request, or joins the one under way. The browser is opened where
   * that is allowed, unless the page is `handed` to the assistant. `undefined` when no page came up, as
   * the person is signed in already, or is signing in with another process.
   *
   * @throws what a sign-in rejects with before its page is there
   */
  begin(handed: boolean): Promise<SignInPage | undefined>;

  /** Whether the person has signed in since sign-in was required; cheap. */
  signedIn(): Promise<boolean>;

  /** Checks for a sign-in with another process, and then ends the wait for the page. */
  lookAgain(): Promise<void>;
}

/** Pages that an assistant of the session era shows for us. MCP 2025-11-25 elicitation, URL mode */
export interface ElicitedPages {
  /** Resolves with the person's answer; `accept` also when the page was finished before that. */
  show(page: SignInPage, text: string, deliver: Deliver, signal: AbortSignal): Promise<Elicited>;

  /** Takes an answer of the assistant; `false` when it is not to us. */
  take(answer: Message): boolean;
}

/** `say` delivers the notification that the page is finished. */
export function elicitedPages(say: Deliver): ElicitedPages {
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

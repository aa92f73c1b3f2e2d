import type { Clock } from '#clock/clock';
import { answerTo, modernVersion, stringAt, textAt, type Message } from 'latchkey-mcp/raw-message';
import type { Deliver, Upstream } from '#transport/upstream';
import type { Contact, Trouble } from './contact.ts';
import { idOf, madeMessage } from './messages.ts';
import type { AssistantView } from './offline-lists.ts';
import type { ElicitedPages, SignInService, SignInPage } from './sign-in-page.ts';
import { troubled, type Waiting } from './waiting.ts';

type OfflineCallsOptions = {
  upstream: Upstream;
  contact: Contact;
  waiting: Waiting;
  assistantView: AssistantView;
  pages: ElicitedPages;
  name: string;
  troubleOf: (error: unknown) => Trouble['kind'] | undefined;
  explain: (error: unknown) => string;
  signInService?: SignInService;
  clock: Clock;
};

const pong = madeMessage({ id: 0, result: {} });

/**
 * Requests that only the server can answer: they wait for one that is being tried, and fail with since
 * when it is away. A call of `sign_in` is answered here while sign-in is required.
 */
export function offlineCalls(options: OfflineCallsOptions): Upstream['send'] {
  const {
    upstream,
    contact,
    waiting,
    assistantView,
    pages,
    name,
    troubleOf,
    explain,
    signInService,
    clock,
  } = options;

  function call(request: Message, deliver: Deliver, signal: AbortSignal): Promise<void> {
    // As nearly every call takes this way, it costs one promise.
    return !contact.trouble() && assistantView.told !== 'sign_in'
      ? asked(request, deliver, signal)
      : callInTrouble(request, deliver, signal);
  }

  async function callInTrouble(request: Message, deliver: Deliver, signal: AbortSignal) {
    const trouble = contact.trouble();
    const offered = assistantView.told === 'sign_in' || trouble?.kind === 'signed_out';
    if (signInService && offered && isSignIn(request))
      return signIn(request, signInService, deliver, signal);
    if (contact.needsHandshake() || trouble?.kind === 'signed_out') {
      if (request.method === 'ping') return deliver(answerTo(idOf(request), pong));
      await waiting.settle(signal);
      if (signal.aborted) return;
    }
    await asked(request, deliver, signal);
    contact.nudge();
  }

  function asked(request: Message, deliver: Deliver, signal: AbortSignal): Promise<void> {
    return upstream.send(request, deliver, signal).catch((error: unknown) => {
      if (signal.aborted || troubleOf(error) !== 'signed_out') throw error;
      throw troubled(contact.note('signed_out', error));
    });
  }

  async function signIn(
    request: Message,
    at: SignInService,
    deliver: Deliver,
    signal: AbortSignal,
  ) {
    const { offerSignIn } = await import('./sign-in-tool.ts');
    const path = ['params', 'capabilities', 'elicitation', 'url'];
    const { initialize } = assistantView;
    const shows = initialize !== undefined && textAt(initialize, ...path) !== undefined;
    const reached = async () => {
      if (contact.trouble() && (await at.signedIn())) await waiting.attempt(signal);
      return contact.trouble()?.kind !== 'signed_out' && !contact.needsHandshake();
    };
    const elicit = async (page: SignInPage, text: string) =>
      pages.show(page, text, deliver, signal);
    const answer = await offerSignIn(request, {
      name,
      signInService: at,
      elicit: shows && modernVersion(request) === undefined ? elicit : undefined,
      reached,
      explain,
      clock,
      signal,
    });
    if (!signal.aborted) await deliver(answer);
  }

  return call;
}

function isSignIn(request: Message): boolean {
  return request.method === 'tools/call' && stringAt(request, 'params', 'name') === 'sign_in';
}

import type { Clock } from '#clock/clock';
import { answerTo, textAt, type Message } from 'latchkey-mcp/raw-message';
import type { Log } from '#log/log';
import type { Deliver } from '#transport/upstream';
import { question, type RememberedAnswers } from './cached-answers.ts';
import { RefusedError, type Contact, type Trouble, UnavailableError } from './contact.ts';
import { idOf } from './messages.ts';
import {
  type Announcements,
  isServerError,
  cachedAfterMs,
  type AssistantView,
  listKinds,
  type ListKind,
} from './offline-lists.ts';
import type { SignInService } from './sign-in-page.ts';

type OfflineHandshakeOptions = {
  contact: Contact;
  memory: RememberedAnswers;
  announced: Announcements;
  assistantView: AssistantView;
  name: string;
  url: string;
  troubleOf: (error: unknown) => Trouble['kind'] | undefined;
  signInService?: SignInService;
  clock: Clock;
  log: Log;
};

/** The handshake of a server that may not be there. */
interface OfflineHandshake {
  /** Answers `initialize`: with the server's answer, the one kept from the last run, or one made up. */
  shake(request: Message, deliver: Deliver, signal: AbortSignal): Promise<void>;

  /** The server has answered: what was promised in its name is held against what it says itself. */
  met(answer: Message): void;
}

/** How long the handshake of a server that was never seen may take, until one is made up. */
const substituteAfterMs = 8_000;

export function offlineHandshake(options: OfflineHandshakeOptions): OfflineHandshake {
  const {
    contact,
    memory,
    announced,
    assistantView,
    name,
    url,
    troubleOf,
    signInService,
    clock,
    log,
  } = options;
  let promised: ReadonlySet<ListKind> | undefined;

  function met(answer: Message): void {
    if (!promised) return;
    const before = promised;
    const has = kindsOf(answer);
    const lacking = new Set([...before].filter((kind) => !has.has(kind)));
    const missed = new Set([...has].filter((kind) => !before.has(kind)));
    assistantView.lacking = lacking;
    if (lacking.size > 0 || missed.size > 0)
      log.warn('server is not what it was', {
        without: [...lacking].join(' '),
        besides: [...missed].join(' '),
      });
    promised = undefined;
  }

  async function shake(request: Message, deliver: Deliver, signal: AbortSignal) {
    Object.assign(assistantView, { initialize: request, told: 'nothing', lacking: new Set() });
    assistantView.owed.clear();
    promised = undefined;
    announced.to(deliver, 'session');
    contact.begin(request);
    const key = question(request, request);
    const enough = new AbortController();
    const late = lateness(key, AbortSignal.any([enough.signal, signal]));
    const outcome = await Promise.race([
      contact.reach().then(
        (answer) => ({ answer, error: undefined }),
        (error: unknown) => ({ answer: undefined, error }),
      ),
      late.then(() => ({ answer: undefined, error: undefined })),
    ]);
    enough.abort();
    if (signal.aborted) return;
    if (outcome.answer) return deliver(answerTo(idOf(request), outcome.answer));

    const { error } = outcome;
    const last = await memory.last(key);
    if (error instanceof RefusedError && !(last && isServerError(error.answer))) {
      contact.end();
      return deliver(answerTo(idOf(request), error.answer));
    }
    const kind = error instanceof RefusedError ? 'offline' : troubleOf(error);
    if (error !== undefined && kind === undefined) {
      contact.end();
      throw error;
    }
    const trouble = kind ? contact.note(kind, error) : noteLate();
    const offlineAnswers = await import('./offline-answers.ts');
    const signedOut = trouble.kind === 'signed_out' && signInService !== undefined;
    const substitute = last
      ? offlineAnswers.cachedHandshake(last, { tools: signedOut })
      : offlineAnswers.madeHandshake(request, name, instructions(signedOut));
    promised = kindsOf(substitute);
    await deliver(answerTo(idOf(request), substitute));
  }

  /** Resolves when the handshake has waited long enough. */
  async function lateness(key: string, signal: AbortSignal): Promise<void> {
    const shown =
      signInService && !signInService.waits
        ? signInService.shown(signal)
        : new Promise<void>(() => {});
    const long = async () => {
      await clock.sleep(cachedAfterMs, signal);
      const last = signal.aborted ? undefined : await memory.last(key);
      if (!last && !signInService?.waits)
        return clock.sleep(substituteAfterMs - cachedAfterMs, signal);
      // With `--sign-in always`, requests wait for the person, and nothing is made up meanwhile.
      if (signInService?.waits && (!last || signInService.page()))
        return new Promise<void>(() => {});
    };
    return Promise.race([shown, long()]);
  }

  /** The handshake has taken too long: for a person's sake, or for the server's. */
  function noteLate(): Trouble {
    const sinceAt = clock.now();
    if (signInService?.page()) {
      const message = 'somebody is about to sign in with the browser';
      return contact.note('signed_out', new UnavailableError('signed_out', message, { sinceAt }));
    }
    const message = `${url} has not answered yet`;
    return contact.note('offline', new UnavailableError('stalled', message, { sinceAt }));
  }

  function instructions(signedOut: boolean): string {
    return signedOut
      ? `Nobody is signed in to ${name} yet. Call the tool sign_in to let the person sign in; the server's own tools appear afterwards.`
      : `${name} cannot be reached at the moment. It is tried by itself, and its tools appear once it is there.`;
  }

  return { shake, met };
}

function kindsOf(handshake: Message): Set<ListKind> {
  const has = (kind: ListKind) => textAt(handshake, 'result', 'capabilities', kind) !== undefined;
  return new Set(listKinds.filter(has));
}

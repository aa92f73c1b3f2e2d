import type { Clock } from '#clock/clock';
import { RefusedError, type Contact, type Trouble, UnavailableError } from './contact.ts';
import type { SignInService } from './sign-in-page.ts';

/** How long a request waits for a server that is just being tried. */
const attemptMs = 5_000;
/** How long it waits for a person; assistants give up after a minute. */
const personMs = 45_000;

/** How requests wait for a server that could not be asked. */
export interface Waiting {
  /** Whether the trouble is over; asks the keychain, never a server that is away. */
  recovered(signal: AbortSignal): Promise<boolean>;

  /** Tries the server now, and waits a little for it. */
  attempt(signal: AbortSignal): Promise<void>;

  /**
   * Resolves when the server can be asked, or `signal` aborts.
   *
   * @throws {UnavailableError}
   */
  settle(signal: AbortSignal): Promise<void>;
}

export function waitingFor({
  contact,
  signInService,
  clock,
}: {
  contact: Contact;
  signInService: SignInService | undefined;
  clock: Clock;
}): Waiting {
  async function recovered(signal: AbortSignal): Promise<boolean> {
    if (contact.trouble()?.kind === 'signed_out' && (await signInService?.signedIn()))
      await attempt(signal);
    return contact.trouble() === undefined;
  }

  async function attempt(signal: AbortSignal): Promise<void> {
    const enough = new AbortController();
    const until = AbortSignal.any([enough.signal, signal]);
    const over = contact.reach().then(
      () => undefined,
      () => undefined,
    );
    await Promise.race([over, clock.sleep(attemptMs, until)]);
    if (signInService?.waits && signInService.page()) await Promise.race([over, aborted(until)]);
    enough.abort();
  }

  async function settle(signal: AbortSignal): Promise<void> {
    const before = contact.trouble();
    if (!before) return;
    if (before.kind === 'signed_out') {
      const page = signInService?.page();
      const enough = new AbortController();
      const until = AbortSignal.any([enough.signal, signal]);
      if (page) await Promise.race([page.done, clock.sleep(personMs, until)]);
      enough.abort();
      if (!page && !(await signInService?.signedIn())) throw troubled(contact.trouble() ?? before);
    }
    if (contact.trouble()) await attempt(signal);
    if (contact.trouble() && !signal.aborted) throw troubled(contact.trouble() ?? before);
  }

  return { recovered, attempt, settle };
}

/** The error of a request that met `trouble`. */
export function troubled({ kind, sinceAt, error }: Trouble): UnavailableError {
  const message = error instanceof Error ? error.message : 'the server is not there';
  // What the server said itself has no other words.
  const cause = error instanceof RefusedError ? undefined : error;
  return new UnavailableError(kind, message, { sinceAt, ...(cause !== undefined && { cause }) });
}

async function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}

import { aborted, type Clock } from '#clock/clock';
import { RefusedError, type Contact, type Trouble, UnavailableError } from './contact.ts';
import type { PersonSignIn } from './sign-in-page.ts';

/** How long a request waits for an attempt to reach the server. */
const attemptMs = 5_000;
/** How long a request waits for a person to sign in. Assistants give up after a minute. */
const personMs = 45_000;

/** How requests wait for a server that cannot be used. */
export interface Waiting {
  /** Whether the trouble has ended. Reads the keychain; contacts the server only after a new sign-in. */
  recovered(signal: AbortSignal): Promise<boolean>;

  /** Tries the server now, and waits briefly. */
  attempt(signal: AbortSignal): Promise<void>;

  /**
   * Resolves when the server can be used, or `signal` aborts.
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
  signInService?: PersonSignIn;
  clock: Clock;
}): Waiting {
  async function recovered(signal: AbortSignal): Promise<boolean> {
    if (contact.trouble()?.kind === 'signed_out' && (await signInService?.signedIn()))
      await attempt(signal);
    return contact.trouble() === undefined;
  }

  async function attempt(signal: AbortSignal): Promise<void> {
    const done = new AbortController();
    const until = AbortSignal.any([done.signal, signal]);
    const attempted = contact.reach().then(
      () => undefined,
      () => undefined,
    );
    await Promise.race([attempted, clock.sleep(attemptMs, until)]);
    if (signInService?.waits && signInService.page())
      await Promise.race([attempted, aborted(until)]);
    done.abort();
  }

  async function settle(signal: AbortSignal): Promise<void> {
    const before = contact.trouble();
    if (!before) return;
    if (before.kind === 'signed_out') {
      const page = signInService?.page();
      const done = new AbortController();
      const until = AbortSignal.any([done.signal, signal]);
      if (page) await Promise.race([page.done, clock.sleep(personMs, until)]);
      done.abort();
      if (!page && !(await signInService?.signedIn())) throw troubled(contact.trouble() ?? before);
    }
    if (contact.trouble()) await attempt(signal);
    if (contact.trouble() && !signal.aborted) throw troubled(contact.trouble() ?? before);
  }

  return { recovered, attempt, settle };
}

/** The error of a request that failed because of `trouble`. */
export function troubled({ kind, sinceAt, error }: Trouble): UnavailableError {
  const message = error instanceof Error ? error.message : 'the server is unreachable';
  // The message is the server's own, so there is no cause to add.
  const cause = error instanceof RefusedError ? undefined : error;
  return new UnavailableError(kind, message, { sinceAt, ...(cause !== undefined && { cause }) });
}

import { aborted, type Clock } from '#clock/clock';
import { RefusedError, type Contact, type Trouble, UnavailableError } from './contact.ts';
import type { PersonSignIn } from './sign-in-page.ts';

/** How long a request waits for an attempt to reach the server. */
const attemptMs = 5_000;
/** How long a request waits for a person to sign in. Assistants give up after a minute. */
const personMs = 45_000;

/** How requests wait for a server that cannot be used. */
export class Waiting {
  readonly #contact: Contact;
  readonly #signInService: PersonSignIn | undefined;
  readonly #clock: Clock;

  constructor(ports: { contact: Contact; signInService?: PersonSignIn; clock: Clock }) {
    this.#contact = ports.contact;
    this.#signInService = ports.signInService;
    this.#clock = ports.clock;
  }

  /** Whether the trouble has ended. Contacts the server only if the person may have ended it. */
  async recovered(signal: AbortSignal): Promise<boolean> {
    const kind = this.#contact.trouble()?.kind;
    const isSignedOut = kind === 'signed_out';
    if (kind === 'account' || (isSignedOut && (await this.#signInService?.signedIn())))
      await this.attempt(signal);
    return this.#contact.trouble() === undefined;
  }

  /** Tries the server now. Waits up to `attemptMs`, or for an open sign-in page if requests wait for the person. */
  async attempt(signal: AbortSignal): Promise<void> {
    const done = new AbortController();
    const until = AbortSignal.any([done.signal, signal]);
    const attempted = this.#contact.reach().then(
      () => undefined,
      () => undefined,
    );
    await Promise.race([attempted, this.#clock.sleep(attemptMs, until)]);
    if (this.#signInService?.waits && this.#signInService.page())
      await Promise.race([attempted, aborted(until)]);
    done.abort();
  }

  /**
   * Resolves when the server can be used, or `signal` aborts.
   *
   * @throws {UnavailableError} or {@link UpstreamError} `account`
   */
  async settle(signal: AbortSignal): Promise<void> {
    const before = this.#contact.trouble();
    if (!before) return;
    const failure = () => troubled(this.#contact.trouble() ?? before);
    if (before.kind === 'signed_out') {
      const page = this.#signInService?.page();
      const done = new AbortController();
      const until = AbortSignal.any([done.signal, signal]);
      if (page) await Promise.race([page.done, this.#clock.sleep(personMs, until)]);
      done.abort();
      if (!page && !(await this.#signInService?.signedIn())) throw failure();
    }
    if (this.#contact.trouble()) await this.attempt(signal);
    if (this.#contact.trouble() && !signal.aborted) throw failure();
  }
}

/** The error of a request that failed because of `trouble`. */
export function troubled({ kind, sinceAt, error }: Trouble): Error {
  if (kind === 'account' && error instanceof Error) return error;
  const message = error instanceof Error ? error.message : 'the server is unreachable';
  // The message is the server's own, so there is no cause to add.
  const cause = error instanceof RefusedError ? undefined : error;
  const code = kind === 'account' ? 'offline' : kind;
  return new UnavailableError(code, message, { sinceAt, ...(cause !== undefined && { cause }) });
}

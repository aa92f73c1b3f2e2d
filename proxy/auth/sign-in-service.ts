import type { SignInMode } from '#config/options';
import type { Account } from './account.ts';
import type { SignInMarks } from './sign-in-marks.ts';
import type { AuthorizationPage } from './authorization-page.ts';
import { TokenError } from './errors.ts';
import type { IsAcceptable, Known, SignIn } from './token-source.ts';
import { renewingToken } from './server-list.ts';
import { isExpired, type TokenRecord } from './token-vault.ts';

/** A page that waits for a person to sign in. */
export type SignInPage = {
  /** Creates an address of the page, valid for one browser. */
  link: () => URL;
  /** Whether a browser was opened at such an address; otherwise the person has to open the address. */
  opened: boolean;
  /** Resolves to whether the person signed in; never rejects. */
  done: Promise<boolean>;
  /** Ends the sign-in. */
  giveUp: () => void;
};

export type SignInServiceOptions = {
  mode: SignInMode;
  /** The command that a person can run instead: `latchkey login acme`. */
  command: string;
  openBrowser: (page: URL) => Promise<boolean>;
  /** Whether a person would now expect the browser to open on its own. */
  isTimely: () => boolean;
  /** The assistant's display name, for the page that asks for consent. */
  assistant?: (() => string | undefined) | undefined;
  signal: AbortSignal;
};

/** A sign-in under way. */
type Attempt = {
  token: Promise<TokenRecord>;
  page?: SignInPage;
  /** Ends the attempt if another process has completed the sign-in. */
  lookAgain: () => Promise<void>;
};

/** `unrequested` fails if no browser opens; after `requested`, the person can open the address. `none` opens no browser. */
type Opening = 'unrequested' | 'requested' | 'none';

/** After this long, a sign-in of another process is assumed to wait for the person. */
const pageMs = 10_000;
/** How often to look for a sign-in by another process, which notifies only the proxies that it can reach. */
const lookEveryMs = 2_000;

/** Signs a person in to one connection: one page at a time, across all processes of this host. */
export class SignInService {
  /** Whether requests wait for the person without a time limit. */
  readonly waits: boolean;
  readonly command: string;
  readonly #account: Account;
  readonly #options: SignInServiceOptions;
  readonly #policy: SignIn;
  readonly #onPage = new Set<() => void>();
  #attempt: Attempt | undefined;
  /** The access token that was stored when a sign-in became necessary, and the time of the last call of `signIn`. */
  #lost: string | undefined;
  #lostAt = Number.POSITIVE_INFINITY;
  #starting: Promise<SignInPage | undefined> | undefined;

  constructor(account: Account, options: SignInServiceOptions) {
    this.waits = options.mode === 'always';
    this.command = options.command;
    this.#account = account;
    this.#options = options;
    this.#policy = signInPolicy({
      ...options,
      ...account,
      isUnderWay: () => this.#attempt !== undefined,
      open: async (known, isAcceptable) => this.#begin(known, isAcceptable, 'unrequested'),
      noteScopes: async (known) => recordScopes(account.marks, known),
    });
  }

  /** For a request that needs a person: opens the browser if `--sign-in` allows it. */
  readonly signIn: SignIn = async (known, isAcceptable) => {
    this.#lost = known.previous?.accessToken;
    this.#lostAt = this.#account.clock.now();
    return this.#policy(known, isAcceptable);
  };

  /** The page that is waiting for the person, if any. */
  page(): SignInPage | undefined {
    return this.#attempt?.page;
  }

  /** Resolves when a page waits; at the latest when `signal` aborts. */
  async shown(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      if (this.page() || signal.aborted) return resolve();
      const done = () => {
        this.#onPage.delete(done);
        signal.removeEventListener('abort', done);
        resolve();
      };
      this.#onPage.add(done);
      signal.addEventListener('abort', done, { once: true });
    });
  }

  /**
   * Begins a sign-in at a person's request, or joins the one under way. If the page is `handed` over as an address, no browser
   * is opened. Resolves to `undefined` if there is no page, because another process signs in, or has just done so.
   */
  async begin(handed: boolean): Promise<SignInPage | undefined> {
    const page = this.page();
    if (page) return page;
    // Concurrent callers share one attempt, because the browser may open only once a day.
    this.#starting ??= this.#start(handed).finally(() => {
      this.#starting = undefined;
    });
    return this.#starting;
  }

  /** Whether a person has signed in since `signIn` was last called, here or at the provider of the company. */
  async signedIn(): Promise<boolean> {
    const { vault, marks, clock, store } = this.#account;
    const provider = await this.#account.provider();
    if (provider) {
      const { hasSignedInSince } = await import('./provider-sign-in.ts');
      if (await hasSignedInSince(provider, this.#lostAt, store)) return true;
    }
    if (!marks.signedInBefore()) return false;
    const token = await vault.access();
    if (!token || token.accessToken === this.#lost) return false;
    const renewing = async () => renewingToken(token, { vault, store });
    return !isExpired(token, clock.now()) || (await renewing()) !== undefined;
  }

  /** Call this when another process may have completed the sign-in. If it has, requests that wait for the page continue. */
  async lookAgain(): Promise<void> {
    await this.#attempt?.lookAgain();
  }

  async #start(handed: boolean): Promise<SignInPage | undefined> {
    const { vault, clock } = this.#account;
    this.#lost ??= (await vault.access())?.accessToken;
    const isAcceptable = (record: TokenRecord | undefined) =>
      record !== undefined && record.accessToken !== this.#lost && !isExpired(record, clock.now());
    const opening = handed || !(await this.#mayOpen()) ? 'none' : 'requested';
    const enough = new AbortController();
    const until = AbortSignal.any([this.#options.signal, enough.signal]);
    try {
      await Promise.race([
        this.#begin({ wider: false }, isAcceptable, opening),
        this.shown(until),
        clock.sleep(pageMs, until),
      ]);
      return this.page();
    } finally {
      enough.abort();
    }
  }

  /** Whether a requested page also opens in the browser. */
  async #mayOpen(): Promise<boolean> {
    const { mode } = this.#options;
    if (mode === 'never') return false;
    return mode === 'always' || this.#account.marks.claimToday();
  }

  #begin(known: Known, isAcceptable: IsAcceptable, opening: Opening): Promise<TokenRecord> {
    if (this.#attempt) return this.#attempt.token;
    const { vault, signInLock } = this.#account;
    const { assistant, signal } = this.#options;
    const abandoned = new AbortController();
    const settled = new AbortController();
    const until = AbortSignal.any([signal, abandoned.signal]);
    const show = async ({ link }: AuthorizationPage) => {
      const opened = await this.#open(link, opening);
      const done = token.then(
        () => true,
        () => false,
      );
      attempt.page = { link, opened, done, giveUp: () => abandoned.abort() };
      this.#onPage.forEach((notify) => notify());
      return undefined;
    };
    const own = signInLock.hold(`sign in ${vault.account}`, async () => {
      const stored = await vault.access();
      if (stored && isAcceptable(stored)) return stored;
      const { signInAccount } = await import('./sign-in.ts');
      return signInAccount(this.#account, { show, signal: until, known, assistant: assistant?.() });
    });
    const elsewhere = Promise.withResolvers<TokenRecord>();
    const token = Promise.race([own, elsewhere.promise]).finally(() => {
      this.#attempt = undefined;
      settled.abort();
    });
    token.catch(() => undefined);
    const lookAgain = async () => {
      const stored = await vault.access();
      if (!stored || !isAcceptable(stored)) return;
      elsewhere.resolve(stored);
      abandoned.abort();
    };
    const attempt: Attempt = { token, lookAgain };
    this.#attempt = attempt;
    void this.#lookWhile(AbortSignal.any([until, settled.signal]), lookAgain);
    return token;
  }

  async #open(link: () => URL, opening: Opening): Promise<boolean> {
    const opened = opening !== 'none' && (await this.#options.openBrowser(link()));
    if (opening === 'unrequested' && !opened)
      throw new TokenError('signed_out', 'no browser can be opened on this computer');
    return opened;
  }

  async #lookWhile(until: AbortSignal, look: () => Promise<void>): Promise<void> {
    for (;;) {
      await this.#account.clock.sleep(lookEveryMs, until);
      if (until.aborted) return;
      await look().catch(() => undefined); // If the keychain is unavailable, it is read again later.
    }
  }
}

async function recordScopes(marks: SignInMarks, { challenge, previous }: Known): Promise<void> {
  const { parseChallenge } = await import('./discovery.ts');
  const words = [previous?.scope, parseChallenge(challenge).scope].join(' ').split(' ');
  await marks.wantScopes([...new Set(words.filter(Boolean))]);
}

export type SignInPolicyOptions = Pick<SignInServiceOptions, 'mode' | 'isTimely'> &
  Pick<Account, 'marks' | 'clock'> & {
    /** Whether a page waits already, or is about to. */
    isUnderWay: () => boolean;
    /** Opens the browser and waits for the token, once for all concurrent callers. */
    open: SignIn;
    /** Keeps the scopes that a challenge names for the next sign-in. */
    noteScopes: (known: Known) => Promise<void>;
  };

/** How long a request waits in `auto` mode: assistants give up after a minute. */
const waitMs = 45_000;

/**
 * Decides whether the browser opens on its own when a sign-in is required. `always` opens it and lets requests wait; `auto` opens
 * it only for the first sign-in to the connection, at most once a day across all processes. Otherwise the request fails, and its
 * error says what to do.
 */
export function signInPolicy(options: SignInPolicyOptions): SignIn {
  const { mode, marks, isTimely, isUnderWay, open, noteScopes, clock } = options;

  return async (known, isAcceptable) => {
    const firstEver = async () =>
      mode === 'auto' && !marks.signedInBefore() && (await marks.claimToday());
    if (!isUnderWay()) {
      const allowed = isTimely() && (mode === 'always' || (await firstEver()));
      if (!allowed) {
        if (!known.wider) throw new TokenError('signed_out', known.why ?? 'you are not signed in');
        await noteScopes(known);
        throw new TokenError(
          'narrow',
          'the sign-in does not include the scopes that the server requires',
        );
      }
    }
    const token = open(known, isAcceptable);
    if (mode === 'always') return token;
    const enough = new AbortController();
    const tooLong = clock.sleep(waitMs, enough.signal).then(() => {
      throw new TokenError(
        known.wider ? 'narrow' : 'signing_in',
        'a sign-in is open in the browser',
      );
    });
    tooLong.catch(() => undefined);
    return Promise.race([token, tooLong]).finally(() => enough.abort());
  };
}

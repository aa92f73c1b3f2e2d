import type { Clock } from '#clock/clock';
import type { SignInMode } from '#config/options';
import type { Account } from './account.ts';
import type { SignInMarks } from './sign-in-marks.ts';
import type { AuthorizationPage } from './sign-in.ts';
import { TokenError } from './errors.ts';
import type { Known, SignIn } from './token-source.ts';
import { isExpired, type TokenRecord } from './token-vault.ts';

/** A page that waits for a person to sign in. */
export type SignInPage = {
  /** A new address of the page, valid for one browser. */
  link: () => URL;
  /** Whether the browser was opened with one; otherwise the person has to open the address. */
  opened: boolean;
  /** Resolves with whether the person signed in; never rejects. */
  done: Promise<boolean>;
  /** Ends the sign-in. */
  giveUp: () => void;
};

export type SignInServiceOptions = {
  mode: SignInMode;
  openBrowser: (page: URL) => Promise<boolean>;
  /** Whether a person would now expect the browser to open unasked. */
  isTimely: () => boolean;
  /** What people call the assistant, for the page that asks for consent. */
  assistant?: (() => string | undefined) | undefined;
  signal: AbortSignal;
};

/** Signs a person in to one connection: one page at a time, over all processes of this host. */
export interface SignInService {
  /** For a request that needs a person: opens the browser if `--sign-in` allows it unasked. */
  ask: SignIn;

  /** The page that waits now. */
  page(): SignInPage | undefined;

  /** Resolves when a page waits; at the latest when `signal` aborts. */
  shown(signal: AbortSignal): Promise<void>;

  /**
   * Begins a sign-in that was asked for, or joins the one under way. A page that is `handed` over as an address is
   * not opened. `undefined` if there is no page, because another process signs in, or has just done so.
   */
  begin(handed: boolean): Promise<SignInPage | undefined>;

  /** Whether a person has signed in since `ask` last lacked a sign-in. Reads the keychain once. */
  signedIn(): Promise<boolean>;

  /** To be called when another process may have completed the sign-in: requests that wait for the page continue. */
  lookAgain(): Promise<void>;
}

/** After this long, a sign-in of another process is assumed to wait for the person. */
const pageMs = 10_000;
/** A process that signs in notifies all proxies that it can reach. This is for the others. */
const lookEveryMs = 2_000;

export function signInService(account: Account, options: SignInServiceOptions): SignInService {
  const { vault, marks, clock, signInLock } = account;
  const { mode, openBrowser, isTimely, assistant, signal } = options;
  const watching = new Set<() => void>();
  let page: SignInPage | undefined;
  let asking: Promise<TokenRecord> | undefined;
  let lookAgain: (() => Promise<void>) | undefined;
  /** The access token that there was when a person was needed. */
  let lost: string | undefined;
  let policy: SignIn | undefined;
  let starting: Promise<SignInPage | undefined> | undefined;

  /** `unasked` fails where there is no browser; the others leave the page's address to be followed. */
  function begin(
    known: Known,
    isGood: (record: TokenRecord | undefined) => boolean,
    how: 'unasked' | 'opened' | 'handed',
  ): Promise<TokenRecord> {
    if (asking) return asking;
    const given = new AbortController();
    const ended = AbortSignal.any([signal, given.signal]);
    const show = async ({ link }: AuthorizationPage) => {
      const opened = how !== 'handed' && (await openBrowser(link()));
      if (how === 'unasked' && !opened)
        throw new TokenError('signed_out', 'no browser can be opened on this computer');
      const done = mine.then(
        () => true,
        () => false,
      );
      page = { link, opened, done, giveUp: () => given.abort() };
      watching.forEach((tell) => tell());
      return undefined;
    };
    const own = signInLock.hold(`sign in ${vault.account}`, async () => {
      const found = await vault.access();
      if (found && isGood(found)) return found;
      const { signInAccount } = await import('./sign-in.ts');
      return signInAccount(account, { show, signal: ended, known, assistant: assistant?.() });
    });
    const elsewhere = Promise.withResolvers<TokenRecord>();
    const settled = new AbortController();
    const mine = Promise.race([own, elsewhere.promise]).finally(() => {
      asking = undefined;
      page = undefined;
      lookAgain = undefined;
      settled.abort();
    });
    mine.catch(() => undefined);
    lookAgain = async () => {
      const found = await vault.access();
      if (!found || !isGood(found)) return;
      elsewhere.resolve(found);
      given.abort();
    };
    asking = mine;
    void lookWhile(AbortSignal.any([ended, settled.signal]), lookAgain);
    return mine;
  }

  async function lookWhile(until: AbortSignal, look: () => Promise<void>): Promise<void> {
    for (;;) {
      await clock.sleep(lookEveryMs, until);
      if (until.aborted) return;
      await look().catch(() => undefined); // A keychain that is away is asked again.
    }
  }

  function signInPolicyOfMode(): SignIn {
    const noteScopes = async ({ challenge, previous }: Known) => {
      const { parseChallenge } = await import('./discovery.ts');
      const words = [previous?.scope, parseChallenge(challenge).scope].join(' ').split(' ');
      await marks.wantScopes([...new Set(words.filter(Boolean))]);
    };
    const isUnderWay = () => asking !== undefined;
    const open: SignIn = async (known, isGood) => begin(known, isGood, 'unasked');
    return signInPolicy({ mode, marks, isTimely, isUnderWay, open, noteScopes, clock });
  }

  /** Whether one who asked for the page has it opened, too. */
  async function opens(): Promise<boolean> {
    if (mode === 'never') return false;
    return mode === 'always' || marks.claimToday();
  }

  /** Two who ask at once share the day's one opening. */
  async function start(handed: boolean): Promise<SignInPage | undefined> {
    lost ??= (await vault.access())?.accessToken;
    const isGood = (record: TokenRecord | undefined) =>
      record !== undefined && record.accessToken !== lost && !isExpired(record, clock.now());
    const how = handed || !(await opens()) ? 'handed' : 'opened';
    const enough = new AbortController();
    const until = AbortSignal.any([signal, enough.signal]);
    try {
      await Promise.race([
        begin({ wider: false }, isGood, how),
        shown(until),
        clock.sleep(pageMs, until),
      ]);
      return page;
    } finally {
      enough.abort();
    }
  }

  async function shown(until: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      if (page || until.aborted) return resolve();
      const tell = () => {
        watching.delete(tell);
        until.removeEventListener('abort', tell);
        resolve();
      };
      watching.add(tell);
      until.addEventListener('abort', tell, { once: true });
    });
  }

  return {
    async ask(known, isGood) {
      lost = known.previous?.accessToken;
      policy ??= signInPolicyOfMode();
      return policy(known, isGood);
    },
    page: () => page,
    shown,
    lookAgain: async () => lookAgain?.(),
    async begin(handed) {
      if (page) return page;
      starting ??= start(handed).finally(() => {
        starting = undefined;
      });
      return starting;
    },
    async signedIn() {
      if (!marks.signedInBefore()) return false;
      const token = await vault.access();
      if (!token || token.accessToken === lost) return false;
      return !isExpired(token, clock.now()) || (await vault.refresh(token.issuer)) !== undefined;
    },
  };
}

export type SignInPolicyOptions = {
  mode: 'auto' | 'always' | 'never';
  marks: SignInMarks;
  /** Whether a person would now expect the browser to open unasked. */
  isTimely: () => boolean;
  /** Whether a page waits already, or is about to. */
  isUnderWay: () => boolean;
  /** Opens the browser and waits for the token, once for all concurrent callers. */
  open: SignIn;
  /** Keeps the scopes that a challenge names for the next sign-in. */
  noteScopes: (known: Known) => Promise<void>;
  clock: Clock;
};

/** How long a request waits in `auto` mode: assistants give up after a minute. */
const waitMs = 45_000;

/**
 * Whether the browser may be opened unasked when a sign-in is required. `always` opens it and lets requests wait;
 * `auto` opens it only for a first sign-in to the connection, once a day over all processes. Otherwise the
 * request fails, and its error says what to do.
 */
export function signInPolicy(options: SignInPolicyOptions): SignIn {
  const { mode, marks, isTimely, isUnderWay, open, noteScopes, clock } = options;

  return async (known, isGood) => {
    const firstEver = async () =>
      mode === 'auto' && !marks.signedInBefore() && (await marks.claimToday());
    if (!isUnderWay()) {
      const allowed = isTimely() && (mode === 'always' || (await firstEver()));
      if (!allowed) {
        if (!known.wider) throw new TokenError('signed_out', 'you are not signed in');
        await noteScopes(known);
        throw new TokenError(
          'narrow',
          'the sign-in does not include the scopes that the server requires',
        );
      }
    }
    const token = open(known, isGood);
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

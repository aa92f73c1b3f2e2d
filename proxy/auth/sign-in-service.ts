import type { Clock } from '#clock/clock';
import type { SignInMode } from '#config/options';
import type { Account } from './account.ts';
import type { SignInMarks } from './sign-in-marks.ts';
import type { AuthorizationPage } from './sign-in.ts';
import { TokenError } from './errors.ts';
import type { Known, SignIn } from './token-source.ts';
import { isExpired, type TokenRecord } from './token-vault.ts';

/** A page that waits for a person to sign in. */
export type WaitingPage = {
  /** A new address that leads there, good for one browser. */
  link: () => URL;
  /** Whether the browser was opened with one; else somebody has to follow the address. */
  opened: boolean;
  /** Whether somebody signed in, once that is clear; it never rejects. */
  done: Promise<boolean>;
  /** Nobody will sign in with it. */
  giveUp: () => void;
};

export type SignInServiceOptions = {
  mode: SignInMode;
  openBrowser: (page: URL) => Promise<boolean>;
  /** Whether this is a moment at which a person expects the browser to open by itself. */
  isTimely: () => boolean;
  signal: AbortSignal;
};

/** Where a person signs in to one connection: one page at a time, over all processes of the machine. */
export interface SignInService {
  /** For a request that needs a person: opens the browser where `--sign-in` lets it do so unasked. */
  ask: SignIn;

  /** The page that waits now. */
  page(): WaitingPage | undefined;

  /** Resolves when a page waits; at the latest when `signal` aborts. */
  shown(signal: AbortSignal): Promise<void>;

  /**
   * Begins a sign-in that somebody asked for, or joins the one under way. A page that is `handed` to
   * somebody is not opened. `undefined` when none came up: another process is at it, or was.
   */
  begin(handed: boolean): Promise<WaitingPage | undefined>;

  /** Whether somebody has signed in since `ask` last missed one. One look at the keychain. */
  signedIn(): Promise<boolean>;

  /** Somebody may have signed in with another process: whoever waits for a page goes on then. */
  lookAgain(): Promise<void>;
}

/** How long another process may take until its sign-in is taken for one that waits for a person. */
const pageMs = 10_000;
/** Who signs in elsewhere says so to every proxy that can be reached; this is for those that cannot. */
const lookEveryMs = 2_000;

export function signInService(account: Account, options: SignInServiceOptions): SignInService {
  const { vault, marks, clock, signInLock } = account;
  const { mode, openBrowser, isTimely, signal } = options;
  const watching = new Set<() => void>();
  let page: WaitingPage | undefined;
  let asking: Promise<TokenRecord> | undefined;
  let lookAgain: (() => Promise<void>) | undefined;
  /** What there was when somebody was needed. */
  let lost: string | undefined;
  let policy: SignIn | undefined;
  let starting: Promise<WaitingPage | undefined> | undefined;

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
        throw new TokenError('signed_out', 'no browser can be opened here');
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
      return signInAccount(account, { show, signal: ended, known });
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
  async function start(handed: boolean): Promise<WaitingPage | undefined> {
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
  /** Whether this is a moment at which a person expects the browser to open by itself. */
  isTimely: () => boolean;
  /** Whether a page waits already, or is about to. */
  isUnderWay: () => boolean;
  /** Opens the browser and waits for the token, once for all who come meanwhile. */
  open: SignIn;
  /** Keeps the scopes that a challenge names for the next sign-in. */
  noteScopes: (known: Known) => Promise<void>;
  clock: Clock;
};

/** How long a request waits in `auto` mode: assistants give up after a minute. */
const waitMs = 45_000;

/**
 * Whether the browser may be opened by itself when only a person can help. `always` opens it and lets
 * requests wait; `auto` only where nobody has ever signed in, once a day over all processes; else the
 * request fails with words that say what to do.
 */
export function signInPolicy(options: SignInPolicyOptions): SignIn {
  const { mode, marks, isTimely, isUnderWay, open, noteScopes, clock } = options;

  return async (known, isGood) => {
    const firstEver = async () =>
      mode === 'auto' && !marks.signedInBefore() && (await marks.claimToday());
    if (!isUnderWay()) {
      const allowed = isTimely() && (mode === 'always' || (await firstEver()));
      if (!allowed) {
        if (!known.wider) throw new TokenError('signed_out', 'nobody is signed in');
        await noteScopes(known);
        throw new TokenError('narrow', 'the sign-in does not cover what the server wants');
      }
    }
    const token = open(known, isGood);
    if (mode === 'always') return token;
    const enough = new AbortController();
    const tooLong = clock.sleep(waitMs, enough.signal).then(() => {
      throw new TokenError(
        known.wider ? 'narrow' : 'signing_in',
        'somebody is about to sign in with the browser',
      );
    });
    tooLong.catch(() => undefined);
    return Promise.race([token, tooLong]).finally(() => enough.abort());
  };
}

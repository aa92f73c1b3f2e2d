import type { Clock } from '#clock/clock';
import type { Known, SignIn } from './stored-token-source.ts';
import { TokenError } from './token-source.ts';
import type { SignInMarks } from './marks.ts';

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

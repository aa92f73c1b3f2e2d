import type { Clock } from '#clock/clock';
import type { RefreshLock } from '#token/refresh-lock';
import type { Known, SignIn } from '#token/stored-token-source';
import type { TokenRecord } from '#token/token-record';
import { TokenError } from '#token/token-source';
import type { TokenVault } from '#token/token-vault';
import type { SignInMarks } from './marks.ts';

export type SignInPolicyOptions = {
  mode: 'auto' | 'always' | 'never';
  marks: SignInMarks;
  /** Lets one process at a time ask; patient, as people read slowly. */
  lock: RefreshLock;
  vault: TokenVault;
  /** Shows the page and waits for the token. */
  ask: (known: Known) => Promise<TokenRecord>;
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
  const { mode, marks, lock, vault, ask, noteScopes, clock } = options;
  let asking: Promise<TokenRecord> | undefined;

  function begin(known: Known, isGood: Parameters<SignIn>[1]): Promise<TokenRecord> {
    asking ??= lock
      .hold(`sign in ${vault.account}`, async () => {
        const found = await vault.access();
        return found && isGood(found) ? found : ask(known);
      })
      .finally(() => {
        asking = undefined;
      });
    asking.catch(() => undefined);
    return asking;
  }

  return async (known, isGood) => {
    if (mode === 'always') return begin(known, isGood);
    if (!asking) {
      const allowed = mode === 'auto' && !marks.signedInBefore() && (await marks.claimToday());
      if (!allowed) {
        if (known.wider) await noteScopes(known);
        throw new TokenError(
          'signed_out',
          known.wider ? 'the sign-in does not cover what the server wants' : 'nobody is signed in',
        );
      }
    }
    const enough = new AbortController();
    const tooLong = clock.sleep(waitMs, enough.signal).then(() => {
      throw new TokenError('signing_in', 'somebody is about to sign in with the browser');
    });
    tooLong.catch(() => undefined);
    return Promise.race([begin(known, isGood), tooLong]).finally(() => enough.abort());
  };
}

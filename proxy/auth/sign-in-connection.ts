import type { Account } from './account.ts';
import type { SignedIn, SignInProgress } from './accounts-door.ts';
import { givenUp } from './given-up.ts';
import type { ShowPage } from './sign-in.ts';
import { signInAccount } from './sign-in-account.ts';

export type SignInConnectionPorts = {
  openBrowser: (url: URL) => Promise<boolean>;
  progress: (progress: SignInProgress) => void;
  signal: AbortSignal;
};

/** Signs in with the browser, as far as a face without a terminal can; `signal` gives it up. */
export async function signInConnection(
  account: Account,
  { openBrowser, progress, signal }: SignInConnectionPorts,
): Promise<SignedIn> {
  progress({ step: 'discovering' });
  const show: ShowPage = async (page) => {
    const browserOpened = await openBrowser(page.link());
    progress({ step: 'waiting', page: page.link().href, browserOpened });
    return undefined;
  };
  const signingIn = signInAccount(account, { show, signal, rebind: true });
  const { issuer, scope, expiresAt, signedInAs } = await Promise.race([
    signingIn,
    givenUp(signal, signingIn),
  ]);
  progress({ step: 'storing' });
  // It may be another person than before, who sees other tools.
  await account.forgetKept();
  return {
    issuer,
    ...(signedInAs !== undefined && { signedInAs }),
    ...(scope !== undefined && { scopes: scope.split(' ').filter(Boolean) }),
    ...(expiresAt !== undefined && { expiresAt }),
  };
}

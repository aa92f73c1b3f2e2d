import { signInAccount } from '#accounts/sign-in-account';
import type { Account } from '#accounts/account';
import type { ShowPage } from '#accounts/sign-in';
import { pastedRedirect } from '#loopback/pasted-redirect';

export type Terminal = {
  /** Standard output. */
  say: (line: string) => void;
  /** Standard error. */
  tell: (line: string) => void;
  /** What the person types. */
  lines: () => AsyncIterable<string>;
  openBrowser: (url: URL) => Promise<boolean>;
  signal: AbortSignal;
};

/**
 * `latchkey login`: opens the browser, or prints the page's address and takes the redirect from the
 * terminal where there is no browser on this machine.
 */
export async function login(account: Account, terminal: Terminal): Promise<void> {
  const { say, tell, lines, openBrowser, signal } = terminal;
  const { connection } = account;
  const show: ShowPage = async (url, redirectUri, isOurs) => {
    if (await openBrowser(url)) {
      tell(`the browser opens; if it does not, open this page:\n${url.href}`);
      return undefined;
    }
    tell(`open this page in a browser, on any machine:\n${url.href}`);
    tell(
      `then paste here the address that it ends at (${redirectUri}?…), also if it shows an error`,
    );
    return pastedRedirect(lines(), redirectUri, isOurs, tell);
  };
  const { issuer, scope } = await signInAccount(account, { show, signal, rebind: true });
  const what = scope === undefined ? '' : `, for ${scope}`;
  say(`signed in to ${connection.name} (${connection.url}) at ${issuer}${what}`);
}

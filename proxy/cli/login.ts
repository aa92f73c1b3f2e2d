import { givenUp } from '#auth/given-up';
import { signInAccount } from '#auth/sign-in-account';
import type { Account } from '#auth/account';
import type { ShowPage } from '#auth/sign-in';
import { pastedRedirect } from '#auth/pasted-redirect';

export type Terminal = {
  /** Standard output. */
  say: (line: string) => void;
  /** Standard error. */
  tell: (line: string) => void;
  /** What the person types. */
  lines: () => AsyncIterable<string>;
  openBrowser: (url: URL) => Promise<boolean>;
};

/**
 * `latchkey login`: opens the browser, or prints the page's address and takes the redirect from the
 * terminal where there is no browser on this machine.
 */
export async function login(
  account: Account,
  terminal: Terminal,
  signal: AbortSignal,
): Promise<void> {
  const { connection } = account;
  const show: ShowPage = async (page, redirectUri, isOurs) => {
    if (await terminal.openBrowser(page.link())) {
      terminal.tell('the browser opens; if it does not, open this page on this machine:');
      terminal.tell(page.link().href);
      terminal.tell('waiting for you to finish there, up to 10 minutes; Ctrl-C gives up');
      return undefined;
    }
    terminal.tell('open this page in a browser, on any machine:');
    terminal.tell(page.url.href);
    terminal.tell(
      `then paste here the address that it ends at (${redirectUri}?…), also if it shows an error`,
    );
    return pastedRedirect(terminal.lines(), redirectUri, isOurs, (line) => terminal.tell(line));
  };
  const signingIn = signInAccount(account, { show, signal, rebind: true });
  const { issuer, scope, signedInAs } = await Promise.race([signingIn, givenUp(signal, signingIn)]);
  // It may be another person than before, who sees other tools.
  await account.forgetKept();
  const what = scope === undefined ? '' : `, for ${scope}`;
  const { name, url, credentials } = connection;
  terminal.say(`signed in to ${name} (${url}) at ${issuer}${what}`);
  if (credentials.kind === 'client_credentials')
    terminal.say(`signed in as the OAuth client ${credentials.clientId}`);
  else if (signedInAs !== undefined) terminal.say(`signed in as ${signedInAs}`);
  else terminal.say('the server does not name the account that was signed in');
}

import { signsIn, type Account } from '#auth/account';
import { givenUp, signInAccount, type ShowPage } from '#auth/sign-in';
import { pastedRedirect } from '#auth/authorization-request';
import { signOutConnection } from '#auth/sign-out';
import { UsageError } from '#config/errors';
import { connectionOptions, type Command, type CommandInput } from './command.ts';
import type { CommandHost } from './command-host.ts';

/** `latchkey login NAME`. */
export const loginCommand: Command = {
  name: 'login',
  operands: 'NAME|URL',
  arity: [1, 1],
  summary: 'sign in with the browser',
  about: `Signs in with the browser and stores the tokens in the keychain. On a computer without a browser, for example over
SSH, it prints the address of the sign-in page and asks for the address that the browser shows at the end.`,
  flags: {},
  options: connectionOptions,
  examples: ['latchkey login acme', 'latchkey login https://cloud.example.com/mcp/acme/sales'],
  async run(input, host) {
    const account = await namedAccount(input, host);
    await login(account, host, host.stop());
    // Running proxies need not wait; that none can be asked is no failure.
    const options = host.options(input.options);
    await host.askProxies('sign_in_done', account.connection, options).catch(() => 0);
    return 0;
  },
};

/** `latchkey logout NAME`. */
export const logoutCommand: Command = {
  name: 'logout',
  operands: 'NAME|URL',
  arity: [1, 1],
  summary: 'sign out and revoke the tokens',
  about: `Revokes the tokens at the server and deletes them from this computer. If the server cannot be reached, the command
still deletes them, and the exit code is 1.`,
  flags: {},
  options: connectionOptions,
  examples: ['latchkey logout acme', 'latchkey logout https://cloud.example.com/mcp/acme/sales'],
  async run(input, host) {
    const account = await namedAccount(input, host);
    return (await logout(account, host)) ? 0 : 1;
  },
};

/**
 * The account that a command was asked about.
 *
 * @throws {UsageError} when the connection has an API key
 */
async function namedAccount(
  { operands: [target = ''], options: given }: CommandInput,
  host: CommandHost,
): Promise<Account> {
  const options = host.options(given);
  const connection = await host.connection(target, options);
  if (signsIn(connection)) return host.account(connection, options);
  throw new UsageError(
    `${connection.name} uses an API key, so there is nothing to sign in to`,
    'revoke the key in the dashboard, under Servers',
  );
}

type Terminal = {
  /** Standard output. */
  print: (line: string) => void;
  /** Standard error. */
  warn: (line: string) => void;
  lines: CommandHost['lines'];
  openBrowser: (url: URL) => Promise<boolean>;
  /** What people call the assistant that will use the connection. */
  assistant?: string | undefined;
  /** What the page says to do next, where more follows. */
  next?: string | undefined;
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
  const show: ShowPage = async (page, redirectUri, isOurs, over) => {
    if (await terminal.openBrowser(page.link())) {
      terminal.warn('opening your browser; if it does not open, open this page on this computer:');
      terminal.warn(page.link().href);
      terminal.warn('waiting up to 10 minutes for you to sign in; press Ctrl-C to cancel');
      return undefined;
    }
    terminal.warn('open this page in a browser on any computer:');
    terminal.warn(page.url.href);
    terminal.warn(
      "after you click Allow, copy the browser's address and paste it here; an error page is fine:",
    );
    return pastedRedirect(terminal.lines(over), redirectUri, isOurs, (line) => terminal.warn(line));
  };
  const signingIn = signInAccount(account, {
    show,
    signal,
    rebind: true,
    assistant: terminal.assistant,
    next: terminal.next,
  });
  const { issuer, scope, signedInAs } = await Promise.race([signingIn, givenUp(signal, signingIn)]);
  // A different person may have signed in, who sees other tools.
  await account.forgetCached();
  const what = scope === undefined ? '' : `, for ${scope}`;
  const { name, url, credentials } = connection;
  terminal.print(`signed in to ${name} (${url}) at ${issuer}${what}`);
  if (credentials.kind === 'client_credentials')
    terminal.print(`signed in as the OAuth client ${credentials.clientId}`);
  else if (signedInAs !== undefined) terminal.print(`signed in as ${signedInAs}`);
  else terminal.print('the server does not name the signed-in account');
}

/** `latchkey logout`: what could not be taken back at the server is said, and the exit code is 1. */
async function logout(
  account: Account,
  terminal: { print: (line: string) => void; warn: (line: string) => void },
): Promise<boolean> {
  const { connection } = account;
  const { wasSignedIn, notRevoked } = await signOutConnection(account);
  if (!wasSignedIn) terminal.print(`you were not signed in to ${connection.name}`);
  else if (!notRevoked)
    terminal.print(`signed out of ${connection.name}; the tokens were revoked and deleted`);
  else {
    terminal.print(`signed out of ${connection.name} on this computer`);
    terminal.warn(`latchkey: the server did not revoke the access: ${notRevoked.message}`);
    terminal.warn('hint: withdraw the consent on the account page of the server');
  }
  return notRevoked === undefined;
}

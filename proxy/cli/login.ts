import type { ShowPage } from '#auth/authorization-page';
import { pastedRedirect } from '#auth/authorization-request';
import type { Connection } from '#config/connection';
import type { Connections } from '#connections/connections';
import { endpointOf } from '#connections/list-url';
import { connectionOptions, type Command, type CommandInput } from './command.ts';
import { connectionsOf, type CommandHost } from './command-host.ts';

/** `latchkey login NAME`. */
export const loginCommand: Command = {
  name: 'login',
  operands: 'NAME|URL',
  summary: 'sign in with the browser',
  about: `Signs in with the browser and stores the tokens in the keychain. Without a browser, for example over SSH, it prints the
address of the sign-in page. Open that on any computer, and paste the address that the browser shows at the end.`,
  flags: {},
  options: connectionOptions,
  examples: ['latchkey login acme', 'latchkey login https://latchkey.example.com/mcp/acme/sales'],
  async run(input, host) {
    const [target = ''] = input.operands;
    const connection = await host.connection(target, host.options(input.options));
    await login(connection, connectionsOf(host, input.options), host, host.stop());
    return 0;
  },
};

/** `latchkey logout NAME`. */
export const logoutCommand: Command = {
  name: 'logout',
  operands: 'NAME|URL',
  summary: 'sign out and revoke the tokens',
  about: `Revokes the tokens at the server and deletes them from this computer. If the server cannot be reached, the command
still deletes them, and the exit code is 1.`,
  flags: {},
  options: connectionOptions,
  examples: ['latchkey logout acme', 'latchkey logout https://latchkey.example.com/mcp/acme/sales'],
  async run(input, host) {
    return (await logout(input, host)) ? 0 : 1;
  },
};

export type Terminal = {
  /** Standard output. */
  print: (line: string) => void;
  /** Standard error. */
  warn: (line: string) => void;
  lines: CommandHost['lines'];
  openBrowser: (url: URL) => Promise<boolean>;
  /** The display name of the assistant that will use the connection. */
  assistant?: string | undefined;
  /** The next step that the page shows, if the command continues after the sign-in. */
  next?: string | undefined;
};

/** Shows the page of a sign-in in the browser, or prints its address and asks for the redirect. */
export function terminalPage(terminal: Pick<Terminal, 'warn' | 'lines' | 'openBrowser'>): ShowPage {
  return async (page, redirectUri, isOurs, over) => {
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
}

/**
 * Runs `latchkey login`: opens the browser or, if there is none on this machine, prints the page's address and reads the
 * redirect from the terminal.
 */
export async function login(
  connection: Connection,
  connections: Pick<Connections, 'signIn'>,
  terminal: Terminal,
  signal: AbortSignal,
): Promise<void> {
  const show = terminalPage(terminal);
  const { assistant, next } = terminal;
  const { name, url, credentials } = connection;
  const tell = (sentence: string) => terminal.warn(sentence);
  const how = { show, signal, assistant, next, tell };
  const { issuer, scopes, signedInAs, provider, also = [] } = await connections.signIn(name, how);
  const what = scopes === undefined ? '' : `, for ${scopes.join(' ')}`;
  terminal.print(`signed in to ${name} (${url}) at ${issuer}${what}`);
  if (credentials.kind === 'client_credentials')
    terminal.print(
      credentials.assertion === undefined
        ? `signed in as the OAuth client ${credentials.clientId}`
        : `signed in as the workload of ${credentials.assertion}`,
    );
  else if (signedInAs !== undefined) terminal.print(`signed in as ${signedInAs}`);
  else terminal.print('the server does not name the signed-in account');
  if (provider !== undefined)
    terminal.print(`by the company sign-in of ${provider}, which your other connections share`);
  if (also.length > 0) terminal.print(`also signed in to ${also.join(', ')}`);
}

/** The remedy for access that the server did not revoke. Only the dashboard of Latchkey has a known address. */
export function endAccessHint(url: string): string {
  return endpointOf(url)
    ? `end its access in the dashboard: ${new URL(url).origin}/account`
    : 'withdraw the consent on the account page of the server';
}

/** Runs `latchkey logout`. Resolves to `false` if the server did not revoke the access. */
async function logout(
  { operands: [target = ''], options: given }: CommandInput,
  host: CommandHost,
): Promise<boolean> {
  const { name, url } = await host.connection(target, host.options(given));
  const { wasSignedIn, notRevoked, provider } = await connectionsOf(host, given).signOut(target);
  if (!wasSignedIn) host.print(`you were not signed in to ${name}`);
  else if (!notRevoked) host.print(`signed out of ${name}; the tokens were revoked and deleted`);
  else {
    host.print(`signed out of ${name} on this computer`);
    host.warn(`latchkey: the server did not revoke the access: ${notRevoked.message}`);
    host.warn(`hint: ${endAccessHint(url)}`);
  }
  if (provider !== undefined)
    host.print(`signed out of ${provider}, too: your other connections need a new sign-in there`);
  return notRevoked === undefined;
}

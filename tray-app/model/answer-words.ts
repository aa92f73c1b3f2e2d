// The messages that the windows show after an operation.

import type {
  CompanySignedIn,
  CompanySignedOut,
  ConnectedServer,
  SetUpServers,
  SignedIn,
  SignedOut,
} from 'latchkey/accounts';
import { companyHost, listOf } from './state.ts';

export function setUpWords({ url, signedInAs, servers, restart, problems }: SetUpServers): string {
  const host = new URL(url).host;
  const connected = servers.filter(({ problem }) => problem === undefined);
  const who = signedInAs === undefined ? '' : ` as ${signedInAs}`;
  const names = connected.map(({ server }) => server.title);
  const none = servers.length === 0 ? 'No server was chosen.' : 'No server was connected.';
  const what = names.length === 0 ? none : `Connected: ${listOf(names)}.`;
  const left = [...servers.flatMap(keptWords), ...problems].map((text) => ` ${text}.`);
  const next = restart.length === 0 ? '' : ` Restart ${listOf(restart)}.`;
  return `You are signed in at ${host}${who}. ${what}${left.join('')}${next}`;
}

/** Sentences about a server that has a problem, or that uses a key instead of the sign-in. */
function keptWords({ name, server, problem, keptKey }: ConnectedServer): readonly string[] {
  const wrong = problem === undefined ? [] : [`${server.title}: ${problem}`];
  if (keptKey === undefined) return wrong;
  const key = {
    in_use: `${name} goes on using its API key`,
    rejected: `To keep using a key, rotate the key of ${name}`,
    missing: `To keep using a key, enter the key of ${name}`,
  };
  return [...wrong, key[keptKey], `To sign in instead, remove ${name}, then set up again`];
}

export function checkedWords(checked: 'api_key' | 'client' | null): string {
  if (checked === 'api_key') return 'the server accepts the key.';
  if (checked === 'client') return 'the server accepts the client.';
  return 'the server requires no authentication.';
}

export const uninstalledWords = {
  restored: 'The file was restored.',
  removed: 'The entry was removed. Other changes to the file stay.',
  absent: 'The entry was not found.',
};

export function removedWords(
  name: string,
  { notRevoked, startedBy }: { notRevoked?: string; startedBy: readonly string[] },
): string {
  const left =
    startedBy.length === 0 ? '' : ` The files of these still name it: ${startedBy.join(', ')}.`;
  if (notRevoked === undefined) return `${name} was removed.${left}`;
  return `${name} was removed from this computer, but the server did not revoke the access: ${notRevoked}.${left}`;
}

export function signedInWords(name: string, { signedInAs, also = [], note }: SignedIn): string {
  const who =
    signedInAs === undefined
      ? `You are signed in to ${name}. The server does not name the account.`
      : `You are signed in to ${name} as ${signedInAs}.`;
  const others = listOf(also);
  const rest = others === '' ? '' : ` That also signed you in to ${others}.`;
  return `${who}${rest}${note === undefined ? '' : ` ${note}.`}`;
}

export function signedOutWords(
  name: string,
  { wasSignedIn, notRevoked, provider }: SignedOut,
): string {
  const shared =
    provider === undefined
      ? ''
      : ` The company sign-in of ${provider} ended, too, for all servers.`;
  if (!wasSignedIn) return `You were not signed in to ${name}.`;
  if (notRevoked === undefined)
    return `Signed out of ${name}. The access was revoked at the server.${shared}`;
  return `Signed out of ${name} on this computer, but the server did not revoke the access: ${notRevoked}. Revoke the access on the server.${shared}`;
}

export function companySignedInWords(signedIn: CompanySignedIn): string {
  const { signedInAs, connections, unsupported } = signedIn;
  const who = signedInAs === undefined ? '' : ` as ${signedInAs}`;
  const to = connections.length === 0 ? '' : `, and to ${listOf(connections)}`;
  const own = unsupported.map((name) => ` ${name} does not accept it: sign in to ${name} itself.`);
  const none = signedIn.refused.map(
    ({ name, problem }) => ` You have no access to ${name}: ${problem}.`,
  );
  const rest = [...own, ...none].join('');
  return `You are signed in at ${companyHost(signedIn)}${who}${to}.${rest}`;
}

export function companySignedOutWords(signedOut: CompanySignedOut): string {
  const { connections, notRevoked } = signedOut;
  const from = connections.length === 0 ? '' : `, and of ${listOf(connections)}`;
  const left =
    notRevoked.length === 0
      ? ''
      : ` These servers did not revoke the access: ${listOf(notRevoked)}. It ends when it expires.`;
  return `Signed out at ${companyHost(signedOut)}${from}.${left}`;
}

export function reconnectWords(name: string, proxies: number): string {
  return proxies === 0 ? `No assistant runs ${name} now.` : `Latchkey reconnects to ${name}.`;
}

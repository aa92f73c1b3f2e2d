import { issueChallenge, spendChallenge, type ChallengePorts } from '#people/challenge';
import type { ChallengeStore } from '#people/challenge-store';
import type { AuthorizationClient, ConnectChecks } from './authorization-client.ts';
import type { UpstreamAccess } from './upstream-access.ts';
import { UpstreamAccessError } from './upstream-access-error.ts';
import type { UpstreamTokens } from './upstream-tokens.ts';

/** Who connects which account, in the browser that they are signed in with. */
export interface Connecting {
  readonly access: Pick<UpstreamAccess, 'id' | 'serverId'>;
  readonly userId: string;
  /** Of the browser's session: another session finishes nothing. */
  readonly sessionToken: string;
}

/**
 * Where to send a browser whose person connects their account. The state is a challenge for this access, person and
 * session; the code verifier is derived from it under a key of this server, so nothing is stored meanwhile. Every
 * server has a redirect URI of its own, so that an answer of one authorization server is not taken for another's.
 *
 * RFC 9700 §2.1, §4.4.2.2
 */
export async function beginConnecting(
  connecting: Connecting,
  redirectUri: string,
  { client, ...ports }: ChallengePorts & { client: AuthorizationClient },
): Promise<URL> {
  const state = issueChallenge(purposeOf(connecting), connecting.sessionToken, ports);
  return client.authorizationUrl(checksOf(state, ports), redirectUri);
}

/**
 * What the person's consent gave us, at the URL that their browser came back to.
 *
 * @throws {UpstreamAccessError} `refused` unless this session was sent there for this and comes back first; whatever
 * the authorization server says
 */
export async function finishConnecting(
  connecting: Connecting,
  callback: URL,
  {
    client,
    ...ports
  }: ChallengePorts & { client: AuthorizationClient; challenges: ChallengeStore },
): Promise<UpstreamTokens> {
  const state = callback.searchParams.get('state') ?? '';
  const { sessionToken: cookieToken } = connecting;
  const spent = { challenge: state, purpose: purposeOf(connecting), cookieToken };
  if (!(await spendChallenge(spent, ports))) {
    throw new UpstreamAccessError('refused', 'this answer is of another sign-in, used or too old');
  }
  return client.redeem(callback, checksOf(state, ports));
}

function purposeOf({ access, userId }: Connecting): string {
  return `upstream ${access.serverId} ${access.id} ${userId}`;
}

function checksOf(state: string, { sealing }: Pick<ChallengePorts, 'sealing'>): ConnectChecks {
  return { state, codeVerifier: sealing.mac('upstream code verifier', state) };
}

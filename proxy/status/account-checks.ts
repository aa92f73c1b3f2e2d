import type { Account } from '#auth/account';
import { accountStatus } from '#auth/account-status';
import { discover, type Discovery } from '#auth/discovery';
import { offersIdJag } from '#auth/managed-authorization';
import { isCurrent, isSignedIn, providerServer, storedSignIn } from '#auth/provider-sign-in';
import type { EpochSeconds } from '#clock/clock';
import type { IdentityProvider } from '#config/identity-provider';
import type { OAuthSettings } from '#config/oauth-fields';
import { fail, ok, warn, type Check, type Finding } from './checks.ts';

/** Checks the authorization server of a connection, and its stored tokens. */
export function accountChecks(account: Account, login: string): Check[] {
  const { connection, http, clock } = account;
  const { url, credentials } = connection;
  return [
    {
      name: 'discovery',
      async run() {
        const found = await discover({ url, credentials, publishedBefore: false }, http);
        const published = found.published
          ? 'named by the server'
          : 'assumed, because none is published';
        const lacks = credentials.kind === 'authorization_code' && !found.takesS256;
        return [
          ok('discovery', `authorization server ${found.issuer}, ${published}`),
          ...(lacks
            ? [
                warn(
                  'discovery',
                  `${found.issuer} does not support PKCE with S256`,
                  'contact its administrator',
                ),
              ]
            : []),
          ...providerFindings(await account.provider(), found, { credentials, login }),
        ];
      },
    },
    {
      name: 'provider',
      async run() {
        const provider = await account.provider();
        return provider ? [await signInFinding(provider, account, login)] : [];
      },
    },
    {
      name: 'token',
      async run() {
        const status = await accountStatus(connection, account, clock.now());
        return [tokenFinding(status, clock.now(), login)];
      },
    },
    {
      name: 'redirect',
      async run() {
        if (credentials.kind !== 'authorization_code')
          return [ok('redirect', 'not needed without a browser')];
        const { redirectPort: port } = credentials;
        const listener = await account.listen({ port, attempts: 1 });
        await listener.close();
        return [ok('redirect', port === undefined ? 'a port is free' : `port ${port} is free`)];
      },
    },
  ];
}

/** Whether the company sign-in that is configured works for this server. */
function providerFindings(
  provider: IdentityProvider | undefined,
  discovery: Discovery,
  { credentials, login }: { credentials: OAuthSettings; login: string },
): Finding[] {
  if (!provider || offersIdJag(discovery, credentials)) return [];
  const what = `${discovery.issuer} does not offer the company sign-in of ${provider.issuer}`;
  return [warn('discovery', what, `sign in to the server itself: ${login}`)];
}

/** The person's sign-in at the provider of the company. */
async function signInFinding(
  provider: IdentityProvider,
  { store, http, clock }: Account,
  login: string,
): Promise<Finding> {
  await providerServer(provider, { http });
  const stored = await storedSignIn(provider, store);
  const { issuer } = provider;
  if (!stored) return warn('provider', `not signed in at ${issuer}`, login);
  if (!isSignedIn(stored))
    return warn('provider', `${stored.ended} (${at(stored.endedAt)})`, login);
  const { signedInAs, expiresAt, refreshToken } = stored;
  const who = signedInAs === undefined ? '' : ` as ${signedInAs}`;
  const until = `signed in at ${issuer}${who}, until ${at(expiresAt)}`;
  if (refreshToken !== undefined) return ok('provider', `${until}, renewed automatically`);
  return isCurrent(stored, clock.now())
    ? ok('provider', until)
    : warn('provider', `the sign-in at ${issuer}${who} expired at ${at(expiresAt)}`, login);
}

const at = (time: EpochSeconds) => new Date(time * 1000).toISOString().replace('.000Z', 'Z');

function tokenFinding(
  status: Awaited<ReturnType<typeof accountStatus>>,
  now: number,
  login: string,
): Finding {
  const { state, as, scope, expiresAt, renewable } = status;
  if (state === 'signed_out')
    return as === 'person'
      ? warn('token', 'not signed in', login)
      : fail('token', 'no token is available', login);
  const life =
    expiresAt === undefined
      ? 'none yet, or without expiry'
      : expiresAt <= now
        ? 'expired'
        : `for ${Math.round((expiresAt - now) / 60)} more minutes`;
  const facts = [life, renewable && 'renewed automatically', scope && `scopes ${scope}`];
  return ok('token', `of a ${as}: ${facts.filter(Boolean).join('; ')}`);
}

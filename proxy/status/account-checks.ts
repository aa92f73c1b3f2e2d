import type { Account } from '#auth/account';
import { accountStatus } from '#auth/account-status';
import { discover } from '#auth/discovery';
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
        ];
      },
    },
    {
      name: 'token',
      async run() {
        const status = await accountStatus(connection, account.vault, clock.now());
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

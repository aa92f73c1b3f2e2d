import { randomBytes } from 'node:crypto';
import { expect, test } from 'vitest';
import { replaceUpstreamAccess } from '#server/db/upstream-access';
import { insertOrganization } from '#server/db/organizations';
import { insertServer } from '#server/db/servers';
import { masterKey } from '#server/secrets/master-key';
import type { OpenStores } from '#server/app/stores';
import { tokensPurpose, UpstreamAccessError } from '#server/upstreams/credentials/access';
import {
  type AuthorizationClient,
  timesOf,
} from '#server/upstreams/credentials/authorization-client';
import { PersonTokens, tokensText } from '#server/upstreams/credentials/tokens';
import { everyCommit } from '#support/crashes/every-commit';
import { stillClock } from '#support/still-clock';
import { someUpstreamAccess } from '#support/some-upstream-access';
import { insertUser } from '#server/db/people';
import { replaceUpstreamConnection } from '#server/db/upstream-connections';

const access = someUpstreamAccess;
const sealing = masterKey(randomBytes(32));
const lifeSeconds = 600;
/** The longest time that others wait for a process that claimed the renewal. */
const claimSeconds = 30;

async function connect(stores: OpenStores, userId: string, now: number, turn = 0): Promise<void> {
  const of = { targetId: 'target_web', accessId: access.id, userId };
  const tokens = {
    accessToken: `access-${userId}-${turn}`,
    refreshToken: `refresh-${userId}-${turn}`,
    ...timesOf(lifeSeconds, now),
  };
  await replaceUpstreamConnection(stores.db, {
    ...of,
    id: `upc_${userId}_${turn}`,
    organizationId: 'org',
    sealedTokens: sealing.seal(tokensPurpose(of), tokensText(tokens)),
    createdAt: now,
  });
}

test('renew a person’s token: wherever the server crashes, at most that one person must consent again', async () => {
  const clock = stillClock();
  const start = clock.now();
  const outcomes: Record<string, string> = {};
  /** The refresh tokens that the authorization server got; it accepts each one once. */
  let brought: string[] = [];
  const process = ({ db }: OpenStores) => {
    const none = () => Promise.reject(new Error('no test comes here'));
    const client: AuthorizationClient = {
      authorizationUrl: none,
      redeem: none,
      own: none,
      async refresh(refreshToken) {
        brought.push(refreshToken);
        if (brought.filter((one) => one === refreshToken).length > 1)
          throw new UpstreamAccessError('ended', 'invalid_grant');
        const next = (token: string) => `${token.replace('refresh', 'access')}+`;
        return {
          accessToken: next(refreshToken),
          refreshToken: `${refreshToken}+`,
          ...timesOf(lifeSeconds, clock.now()),
        };
      },
      revoke: none,
    };
    const ports = { db, sealing, clock, clientOf: () => client };
    return new PersonTokens(ports);
  };

  const points = await everyCommit({
    async prepare(stores) {
      await insertOrganization(stores.db, { id: 'org', name: 'acme', createdAt: start });
      const upstream = { kind: 'http', url: access.url } as const;
      const server = { id: 'srv_web', organizationId: 'org', name: 'web', upstream };
      await insertServer(stores.db, { ...server, targetId: access.targetId, createdAt: start });
      for (const id of ['dana', 'eve']) {
        const user = { id, email: `${id}@example.com`, createdAt: start };
        await insertUser(stores.db, user, { organizationId: 'org', role: 'member' });
      }
      await replaceUpstreamAccess(stores.db, access);
      for (const id of ['dana', 'eve']) await connect(stores, id, start);
      clock.advance(lifeSeconds);
    },
    async work(stores) {
      brought = [];
      await process(stores).token(access, 'dana');
    },
    async after({ stores, point }) {
      const after = process(stores);
      clock.advance(claimSeconds);
      const told = await after.token(access, 'dana').catch((error: unknown) => {
        if (error instanceof UpstreamAccessError) return error.code;
        throw error;
      });
      outcomes[`${Object.keys(outcomes).length + 1}: ${point}`] = told;
      const eves = await after.token(access, 'eve');
      const isLost = told === 'not_connected';
      if (isLost) await connect(stores, 'dana', clock.now(), 1);

      expect(eves).toBe('access-eve-0+');
      expect(brought.filter((token) => token === 'refresh-dana-0')).toHaveLength(isLost ? 2 : 1);
      expect(await after.token(access, 'dana')).toBe(isLost ? 'access-dana-1' : 'access-dana-0+');
    },
  });

  expect(points).toHaveLength(4);
  // Only tokens that the authorization server issued, and that were not stored before the crash, are lost.
  expect(outcomes).toEqual({
    '1: before update upstream_connection': 'access-dana-0+',
    '2: after update upstream_connection': 'access-dana-0+',
    '3: before update upstream_connection': 'not_connected',
    '4: after update upstream_connection': 'access-dana-0+',
  });
});

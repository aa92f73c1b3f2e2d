import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import type { PersonCheck } from '#server/accounts/openid-provider';
import { ProviderChecks } from '#server/accounts/provider-checks';
import { checkPurpose } from '#server/accounts/sessions';
import type { OpenStores } from '#server/app/stores';
import { updateProvider } from '#server/db/identity-providers';
import { linkMember } from '#server/db/member-identities';
import { insertOrganization } from '#server/db/organizations';
import { insertUser } from '#server/db/people';
import { linkIdentity } from '#server/db/identities';
import { insertPersonalToken, listPersonalTokens } from '#server/db/personal-tokens';
import { insertCheck, summarizeChecks } from '#server/db/provider-checks';
import { isLoggedOutSince } from '#server/db/provider-sessions';
import { insertSession } from '#server/db/sessions';
import { usualChecking } from '#server/model/provider-checks';
import { masterKey } from '#server/secrets/master-key';
import { newestEvents } from '#support/newest-events';
import { openDatabase } from '#support/open-database';
import { insertSomeProvider } from '#support/some-provider';
import { turnedClock } from '#support/turned-clock';
import { patient } from '#support/patient';

const hour = 3600;
const place = { type: 'organization', organizationId: 'org_acme', providerId: 'idp_acme' } as const;
const sealing = masterKey(new Uint8Array(32));
let clock: ReturnType<typeof turnedClock>;
let stores: OpenStores & AsyncDisposable;
let checks: ProviderChecks;
/** The provider's answer for each refresh token, and the tokens with which the provider was asked. */
let answers: Map<string, PersonCheck>;
let asked: string[];
let failures: unknown[];
/** What happens before the provider of acme answers. */
let meanwhile: () => Promise<void>;

/** Dana and Lee are linked, and the provider issued a refresh token at their last sign-in. */
beforeEach(async () => {
  clock = turnedClock();
  stores = await openDatabase();
  answers = new Map();
  asked = [];
  failures = [];
  meanwhile = async () => {};
  const { db } = stores;
  const createdAt = clock.now();
  await insertOrganization(db, { id: 'org_acme', name: 'acme', createdAt });
  await insertSomeProvider(db, { createdAt });
  for (const name of ['dana', 'lee']) {
    const user = { id: `user_${name}`, email: `${name}@acme.example`, createdAt };
    await insertUser(db, user, { organizationId: 'org_acme', role: 'member' });
    const link = { providerId: 'idp_acme', subject: `${name} there` };
    const member = { organizationId: 'org_acme', userId: user.id };
    await linkMember(db, link, member, createdAt);
    await signIn(name, `rt of ${name}`);
  }
  checks = newChecks();
});
afterEach(async () => {
  await checks.close();
  await stores[Symbol.asyncDispose]();
});

const newChecks = () =>
  new ProviderChecks({
    db: stores.db,
    clientOf: (provider) => ({
      issuer: provider.issuer,
      checking: provider,
      ask: async (token) => {
        asked.push(token);
        await meanwhile();
        return answers.get(token) ?? { outcome: 'known', refreshToken: undefined };
      },
    }),
    identityProvider: {
      issuer: 'https://sso.example',
      checking: usualChecking,
      ask: async (token) => {
        asked.push(token);
        return answers.get(token) ?? { outcome: 'known', refreshToken: undefined };
      },
    },
    sealing,
    clock,
    random: () => 0,
    failed: (error) => failures.push(error),
  });

async function signIn(name: string, token: string): Promise<void> {
  const subject = `${name} there`;
  const sealedToken = sealing.seal(checkPurpose('idp_acme', subject), token);
  const now = clock.now();
  await insertCheck(stores.db, { place, subject, sealedToken }, { now, nextAt: now + hour });
}
async function beginSession(name: string): Promise<void> {
  const now = clock.now();
  await insertSession(stores.db, {
    id: `session_${name}`,
    tokenHash: `hash of ${name}`,
    userId: `user_${name}`,
    address: '',
    userAgent: '',
    createdAt: now,
    usedAt: now,
    expiresAt: now + 30 * 86_400,
    factors: 1,
    through: { organizationId: 'org_acme', providerId: 'idp_acme', amr: [] },
  });
}
const allow = async (name: string, but: object = {}) => {
  await stores.db
    .insertInto('endpoint')
    .values({
      id: 'srv_sales',
      organization_id: 'org_acme',
      name: 'sales',
      title: '',
      description: '',
      instructions: '',
      limits: null,
      created_at: 1,
      disabled_at: null,
    })
    .onConflict((conflict) => conflict.doNothing())
    .execute();
  await stores.db
    .insertInto('oauth_client')
    .values({
      id: 'client_a',
      endpoint_id: 'srv_sales',
      organization_id: null,
      name: 'A',
      scopes: '[]',
      redirect_uris: '[]',
      jwks: null,
      fetched_at: null,
      created_at: 1,
      last_used_at: null,
      revoked_at: null,
    })
    .onConflict((conflict) => conflict.doNothing())
    .execute();
  await stores.db
    .insertInto('oauth_grant')
    .values({
      id: `grant_${name}`,
      person_id: `user_${name}`,
      client_id: 'client_a',
      endpoint_id: 'srv_sales',
      scopes: '[]',
      redirect_host: '127.0.0.1',
      assistant: null,
      authenticated: 0,
      created_at: clock.now(),
      expires_at: clock.now() + 180 * 86_400,
      last_used_at: null,
      revoked_at: null,
      ...but,
    })
    .execute();
};
const sessions = async () =>
  (await stores.db.selectFrom('browser_session').select('person_id').execute()).map(
    (row) => row.person_id,
  );
const activeGrants = async () =>
  (
    await stores.db
      .selectFrom('oauth_grant')
      .select('person_id')
      .where('revoked_at', 'is', null)
      .orderBy('person_id')
      .execute()
  ).map((row) => row.person_id);
const round = async (seconds = 0) => {
  clock.advance(seconds);
  await checks.run();
};
/** Whether assertions about a person that were issued until now are no longer accepted. */
const isOut = (subject: string) =>
  isLoggedOutSince(stores.db, { providerId: 'idp_acme', subject }, clock.now());
const actions = async () =>
  (await newestEvents(stores.db, 20)).map(({ action, target }) => `${action} ${target}`);

test('173: a person who was removed at the provider loses sessions and applications within the hour, and no one else does', async () => {
  for (const name of ['dana', 'lee']) {
    await beginSession(name);
    await allow(name);
  }
  answers.set('rt of dana', { outcome: 'removed' });
  await round(hour - 1);
  const before = await sessions();
  await round(1);

  expect(before.toSorted()).toEqual(['user_dana', 'user_lee']);
  expect(await sessions()).toEqual(['user_lee']);
  expect(await activeGrants()).toEqual(['user_lee']);
  expect(await actions()).toContain('provider.lose-person user:user_dana provider:idp_acme');
  expect([await isOut('dana there'), await isOut('lee there')]).toEqual([true, false]);
  await round(hour);
  expect(asked.toSorted()).toEqual(['rt of dana', 'rt of lee', 'rt of lee']);
});

test('checks: without a session, a person is checked once a day, and only if an application has access', async () => {
  await allow('dana');
  await round(hour);
  await round(22 * hour);
  const before = [...asked];
  await round(hour);

  expect(before).toEqual([]);
  expect(asked).toEqual(['rt of dana']);
});

test('checks: intervals are those of the provider, and a change counts from then on', async () => {
  await updateProvider(stores.db, 'org_acme', 'idp_acme', { sessionCheckMinutes: 5 });
  await beginSession('dana');
  await round(hour);
  await round(5 * 60);

  expect(asked).toEqual(['rt of dana', 'rt of dana']);
});

test('checks: a provider that does not answer removes no one, is asked again after growing pauses, and the page says since when', async () => {
  await beginSession('dana');
  const fault = { code: 'unreachable', detail: '' } as const;
  answers.set('rt of dana', { outcome: 'failed', fault });
  await round(hour);
  const failingSince = clock.now();
  const at: number[] = [];
  for (let second = 0; second < 300; second += 5) {
    await round(5);
    if (asked.length > at.length + 1) at.push(clock.now() - failingSince);
  }
  const during = await summarizeChecks(stores.db, 'idp_acme');
  answers.delete('rt of dana');
  await round(1800);

  expect(at).toEqual([30, 90, 210]);
  expect(during).toMatchObject({ failing: 1, failingSince, failure: 'unreachable' });
  expect(await sessions()).toEqual(['user_dana']);
  expect(await summarizeChecks(stores.db, 'idp_acme')).toMatchObject({ failing: 0 });
});

test('checks: an answer other than invalid_grant removes no one', async () => {
  await beginSession('dana');
  answers.set('rt of dana', {
    outcome: 'failed',
    fault: { code: 'client-refused', detail: 'invalid_client' },
  });
  await round(hour);

  expect(await sessions()).toEqual(['user_dana']);
  expect(await summarizeChecks(stores.db, 'idp_acme')).toMatchObject({ failure: 'client-refused' });
});

test('173: a provider that refuses a token without a reason removes the person if it does so again after five minutes', async () => {
  await beginSession('dana');
  await allow('dana');
  answers.set('rt of dana', { outcome: 'refused' });
  await round(hour);
  const first = await summarizeChecks(stores.db, 'idp_acme');
  await round(299);
  const before = await sessions();
  await round(1);

  expect(first).toMatchObject({ failing: 1, failure: 'refused' });
  expect(before).toEqual(['user_dana']);
  expect([await sessions(), await activeGrants()]).toEqual([[], []]);
  expect(await actions()).toContain('provider.lose-person user:user_dana provider:idp_acme');
});

test.each<[string, PersonCheck]>([
  ['does not answer', { outcome: 'failed', fault: { code: 'unreachable', detail: '' } }],
  ['knows the person', { outcome: 'known', refreshToken: undefined }],
])(
  '173: a refusal without a reason counts for nothing once the provider %s',
  async (_, between) => {
    await beginSession('dana');
    answers.set('rt of dana', { outcome: 'refused' });
    await round(hour);
    answers.set('rt of dana', between);
    await round(300);
    answers.set('rt of dana', { outcome: 'refused' });
    await round(hour);

    expect(await sessions()).toEqual(['user_dana']);
    expect(await summarizeChecks(stores.db, 'idp_acme')).toMatchObject({ failure: 'refused' });
  },
);

test('checks: a token that the provider replaces is used next, by one of two processes', async () => {
  await beginSession('dana');
  answers.set('rt of dana', { outcome: 'known', refreshToken: 'rt two' });
  const other = newChecks();
  clock.advance(hour);
  await Promise.all([checks.run(), other.run()]);
  await round(hour);
  await other.close();

  expect(asked).toEqual(['rt of dana', 'rt two']);
});

test('checks: whoever signs in while the provider refuses the token before keeps the new session', async () => {
  await beginSession('dana');
  await allow('dana');
  answers.set('rt of dana', { outcome: 'removed' });
  // The person signs in again while the answer is on its way.
  meanwhile = () => signIn('dana', 'rt of a new sign-in');
  await round(hour);

  expect(await sessions()).toEqual(['user_dana']);
  expect(await activeGrants()).toEqual(['user_dana']);
});

test('checks: a token that cannot be opened is reported, and holds no one else up', async () => {
  await beginSession('dana');
  await beginSession('lee');
  await stores.db
    .updateTable('provider_check')
    .set({ sealed_token: 'garbage' })
    .where('subject', '=', 'dana there')
    .execute();
  await round(hour);

  expect(failures).toHaveLength(1);
  expect(asked).toEqual(['rt of lee']);
});

test('173: at the provider of the installation, a person who was removed also loses personal tokens, and keeps a session with a password', async () => {
  const { db } = stores;
  const sso = { type: 'installation', issuer: 'https://sso.example' } as const;
  const subject = 'dana there';
  await linkIdentity(db, { issuer: sso.issuer, subject, userId: 'user_dana' });
  const sealedToken = sealing.seal(checkPurpose(sso.issuer, subject), 'sso rt of dana');
  const now = clock.now();
  await insertCheck(db, { place: sso, subject, sealedToken }, { now, nextAt: now + hour });
  await insertPersonalToken(
    db,
    {
      id: 'token_dana',
      userId: 'user_dana',
      hash: 'hash',
      hint: 'pat_…aaaa',
      name: 'script',
      createdAt: now,
      expiresAt: now + 90 * 86_400,
      factors: 1,
    },
    9,
  );
  await allow('dana');
  await beginSession('dana');
  await round(hour);
  const before = asked.filter((token) => token.startsWith('sso'));
  answers.set('sso rt of dana', { outcome: 'removed' });
  await round(23 * hour);

  expect(before).toEqual([]);
  expect(asked).toContain('sso rt of dana');
  expect((await listPersonalTokens(db, 'user_dana'))[0]?.revokedAt).toBe(clock.now());
  expect(await activeGrants()).toEqual([]);
  // Another provider opened this session.
  expect(await sessions()).toEqual(['user_dana']);
  expect(await actions()).toContain('identity.lose-person user:user_dana');
});

test('173: a provider that answers slowly holds up no one who came through another one', async () => {
  const { db } = stores;
  const sso = { type: 'installation', issuer: 'https://sso.example' } as const;
  const subject = 'dana there';
  await linkIdentity(db, { issuer: sso.issuer, subject, userId: 'user_dana' });
  const sealedToken = sealing.seal(checkPurpose(sso.issuer, subject), 'sso rt of dana');
  const now = clock.now();
  await insertCheck(db, { place: sso, subject, sealedToken }, { now, nextAt: now + 2 * hour });
  await allow('dana', { expires_at: now + 365 * 86_400 });
  await beginSession('dana');
  let answer = () => {};
  const answered = new Promise<void>((resolve) => (answer = resolve));
  meanwhile = () => answered;
  clock.advance(hour);
  const slow = checks.run();
  await vi.waitFor(() => expect(asked).toEqual(['rt of dana']), patient);
  await round(24 * hour);
  const before = [...asked];
  answer();
  await slow;

  expect(before).toEqual(['rt of dana', 'sso rt of dana']);
  expect(failures).toEqual([]);
});

test('checks: a provider that the installation does not use any more is not asked', async () => {
  await stores.db
    .insertInto('identity')
    .values({ issuer: 'https://old.example', subject: 'dana there', person_id: 'user_dana' })
    .execute();
  const old = { type: 'installation', issuer: 'https://old.example' } as const;
  const times = { now: clock.now(), nextAt: clock.now() };
  await insertCheck(stores.db, { place: old, subject: 'dana there', sealedToken: 's' }, times);
  await round(hour);

  expect([asked, failures]).toEqual([[], []]);
});

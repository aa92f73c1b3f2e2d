import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { csrfToken, randomToken } from '#server/accounts/sessions';
import { insertPasskey } from '#server/db/authenticators';
import { listGrantsOfPerson } from '#server/db/grants';
import { insertPersonalToken } from '#server/db/personal-tokens';
import { cookieName } from '#server/web/page-request';
import { hiddenFields } from '#support/granting-server';
import { everyRow } from '#support/open-database';
import { pageApp, withoutFooter, type PageApp, type SignedInBrowser } from '#support/page-app';

/** Creates a resource of `owner`; its id, as the route names it, in the path or in the form. */
type Foreign = (owner: SignedInBrowser) => Promise<{ id: string; fields?: Record<string, string> }>;

interface Route {
  /** Whose CSRF token its forms carry: that of a session, or that of a browser in which no one is signed in. */
  readonly guard: 'person' | 'browser';
  readonly body: 'form' | 'json';
  /** Absent if the route names no resource of a person. */
  readonly foreign?: Foreign;
  /** The status for an id of another person; 404 by default. */
  readonly says?: number;
}

let app: PageApp;
beforeAll(async () => {
  app = await pageApp();
});
afterAll(() => app[Symbol.asyncDispose]());

const session: Foreign = async ({ sessionId }) => ({ id: sessionId });
const passkey: Foreign = async ({ userId }) => {
  const made = { userId, name: 'Laptop', publicKey: 'AA', counter: 0, transports: [] };
  const id = `passkey-of-${userId}`;
  const createdAt = app.server.clock.now();
  await insertPasskey(app.server.stores.db, { ...made, id, createdAt, lastUsedAt: undefined });
  return { id };
};
const personalToken: Foreign = async ({ userId }) => {
  const { clock, stores } = app.server;
  const createdAt = clock.now();
  const id = `token-of-${userId}`;
  const made = {
    id,
    userId,
    hash: id,
    hint: 'pat_…aaaa',
    name: 'script',
    createdAt,
    factors: 1 as const,
  };
  await insertPersonalToken(stores.db, { ...made, expiresAt: createdAt + 3600 }, 1);
  return { id };
};
const grant: Foreign = async ({ userId }) => {
  const { client, clock, stores } = app.server;
  await app.server.redeem(await app.server.code());
  const grants = stores.db.updateTable('oauth_grant').where('client_id', '=', client.id);
  await grants.set({ person_id: userId }).execute();
  const [made] = await listGrantsOfPerson(stores.db, userId, clock.now());
  return { id: made?.id ?? 'none' };
};
const withdrawn: Foreign = async (person) => {
  const made = await grant(person);
  const revoked = { is_by_assertion: 1, revoked_at: app.server.clock.now() };
  const { db } = app.server.stores;
  await db
    .updateTable('oauth_grant')
    .set(revoked)
    .where('id', '=', made['id'] ?? '')
    .execute();
  return made;
};
const pending: Foreign = async ({ cookie }) => {
  const query = new URLSearchParams({
    client_id: app.server.client.id,
    response_type: 'code',
    redirect_uri: app.server.redirectUri,
    code_challenge: 'x'.repeat(43),
    code_challenge_method: 'S256',
  });
  const page = await app.get(`/oauth/consent?${query.toString()}`, cookie);
  const { request = '' } = hiddenFields(page.text, '/oauth/consent');
  return { id: '', fields: { request, decision: 'allow' } };
};

/** A form of a person who is signed in, and one that anybody may send. */
const form: Route = { guard: 'person', body: 'form' };
const openForm: Route = { guard: 'browser', body: 'form' };
/** The same for what a script of the page sends. */
const json: Route = { guard: 'person', body: 'json' };
const openJson: Route = { guard: 'browser', body: 'json' };

/** The forms of an organization, by their paths below `/dashboard/:organization`. Whose ids they name: see dashboard-routes.test.ts. */
const dashboardForms = [
  '/activity/:callId',
  '/activity/:callId/pseudonymize',
  '/single-sign-on/test',
  '/deploy/servers/:server',
  '/deploy/servers/:server/publish',
  '/deploy/servers/:server/unpublish',
  '/servers/:server/access',
  '/servers/:server/access/review',
  '/servers/:server/account',
  '/servers/:server/account/disconnect',
  '/servers/:server/account/key',
  '/servers/:server/account/key/try',
  '/servers/:server/upstream',
  '/servers/:server/upstream/headers',
  '/servers/:server/upstream/headers/:header/restore',
  '/servers/:server/upstream/headers/:header/remove',
  '/servers/:server/upstream/headers/:header/forget',
  '/servers/:server/upstream/connections/:userId/end',
  '/servers/:server/tools/access',
  '/servers/:server/tools/one',
  '/servers/:server/tools/review',
  '/servers/:server/tools/rule',
  '/servers/:server/tools/visibility',
  '/people/invite',
  '/people/invite-several',
  '/people/invitations/renew',
  '/people/needs-owner/:resourceId',
  '/people/invitations/:invitationId/revoke',
  '/people/:userId/role',
  '/people/:userId/sign-out',
  '/people/:userId/reset-second-factor',
  '/people/:userId/grant-auditor',
  '/people/:userId/revoke-auditor',
  '/people/:userId/make-owner',
  '/people/:userId/pseudonymize',
  '/people/:userId/offboard',
  '/people/:userId/devices/:deviceId/sign-out',
  '/people/requests/:requestId/grant',
  '/people/requests/:requestId/decline',
  '/groups',
  '/groups/:groupId/add-people',
  '/groups/:groupId/remove-person',
  '/groups/:groupId/map',
  '/groups/:groupId/unmap',
  '/groups/:groupId/delete',
  '/consents/:grantId/withdraw',
  '/consents/:grantId/allow',
  '/applications/:grantId/withdraw',
  '/applications/:grantId/allow',
  '/applications/:grantId/tools',
  '/applications/devices/:deviceId/sign-out',
  '/servers/:server/ask',
  '/servers/:server/ask/withdraw',
  '/clients/new',
  '/clients/new-workload',
  '/clients/:clientId/revoke',
  '/settings',
  '/settings/webhooks',
  '/settings/mail',
  '/settings/mail/test',
  '/settings/mail/retry',
  '/settings/mail/remove',
  '/settings/notices',
  '/settings/webhooks/:webhookId',
  '/settings/webhooks/:webhookId/test',
  '/settings/webhooks/:webhookId/rotate',
  '/settings/webhooks/:webhookId/enable',
  '/settings/webhooks/:webhookId/disable',
  '/settings/webhooks/:webhookId/remove',
  '/sign-in/domains',
  '/sign-in/domains/:domain/prove',
  '/sign-in/domains/:domain/remove',
  '/sign-in/new-provider',
  '/sign-in/providers/:providerId/assertions',
  '/sign-in/scim/new-token',
  '/sign-in/scim/rotate',
  '/sign-in/scim/clear-errors',
  '/sign-in/scim/tokens/:scimTokenId/revoke',
  '/sign-in/providers/:providerId/edit',
  '/sign-in/providers/:providerId/test',
  '/sign-in/providers/:providerId/enable',
  '/sign-in/providers/:providerId/disable',
  '/sign-in/providers/:providerId/remove',
  '/sign-in/providers/:providerId/members/:userId/unlink',
  '/new-server',
  '/new-collection',
  '/servers/:server/members',
  '/servers/:server/members/:member/tools',
  '/servers/:server/members/:member/remove',
  '/servers/:server/name',
  '/servers/:server/settings',
  '/servers/:server/contents',
  '/servers/:server/contents/delete',
  '/servers/:server/disable',
  '/servers/:server/enable',
  '/servers/:server/delete',
  '/servers/:server/try',
  '/servers/:server/new-client',
  '/servers/:server/new-key',
  '/new-agent',
  '/servers/:server/clients/:clientId/settings',
  '/servers/:server/clients/:clientId/revoke',
  '/servers/:server/clients/:clientId/rotate',
  '/servers/:server/clients/:clientId/secrets/:secretId/revoke',
  '/servers/:server/keys/:keyId/revoke',
  '/servers/:server/keys/:keyId/rotate',
  '/servers/:server/keys/:keyId/tools',
  '/agents/:agent/revoke',
  '/agents/:agent/rotate',
  '/agents/:agent/keys/:keyId/revoke',
];

/** Every route of ours that changes something for a browser. */
const pages: Record<string, Route> = {
  'POST /sign-in': openForm,
  'POST /sign-in/code': openForm,
  'POST /sign-out': form,
  'POST /sign-in/passkey': openJson,
  'POST /sign-in/passkey/options': openJson,
  'POST /sign-in/provider': openForm,
  'POST /sign-in/organization': openForm,
  // Everyone may go to the provider of any organization: only the provider says who may enter.
  'POST /sign-in/provider/:providerId': openForm,
  // Everyone who has the link may use it: its token is not an id but a secret.
  'POST /set-up/:linkToken': openForm,
  'POST /reset/:linkToken': openForm,
  'POST /invitation/:linkToken/join': form,
  'POST /invitation/:linkToken/account': openForm,
  'POST /invitation/:linkToken/provider': openForm,
  'POST /account/password': form,
  'POST /account/sessions/:id/end': { ...form, foreign: session },
  'POST /account/sessions/end-others': form,
  'POST /account/passkeys': json,
  'POST /account/passkeys/options': json,
  'POST /account/passkeys/:id/remove': { ...form, foreign: passkey },
  'POST /account/second-factor': form,
  'POST /account/second-factor/confirm': form,
  'POST /account/second-factor/recovery-codes': form,
  'POST /account/second-factor/remove': form,
  'POST /account/provider': form,
  'POST /account/provider/unlink': form,
  'POST /account/grants/:id/withdraw': { ...form, foreign: grant },
  'POST /account/grants/:id/allow': { ...form, foreign: withdrawn },
  'POST /account/tokens': form,
  'POST /account/tokens/:id/revoke': { ...form, foreign: personalToken },
  'POST /new-organization': form,
  'POST /outbound': form,
  'POST /outbound/remove': form,
  // Another person's question is treated like one that was answered before: check 17 requires 403.
  'POST /oauth/consent': { ...form, foreign: pending, says: 403 },
  ...Object.fromEntries(
    dashboardForms.map((path) => [`POST /dashboard/:organization${path}`, form]),
  ),
};

/** Routes for programs: all of them ignore cookies. */
const machines = [
  'POST /api/oauth/token',
  'POST /api/oauth/introspect',
  'POST /api/oauth/revoke',
  'POST /api/oauth/register',
  // A token for the list of servers, never a cookie.
  'DELETE /api/my/devices/:device',
  // A signature proves where the logout comes from.
  'POST /sign-in/provider/backchannel-logout',
  'POST /sign-in/provider/:providerId/backchannel-logout',
];

const pathOf = (route: string, id = 'x') => route.replace('POST ', '').replace(/:\w+/, id);

test('81, 82: page routes: every route that changes something is in one of the two tables', () => {
  // These ignore cookies. The admin API has a table in admin-api-routes.test.ts, SCIM has provisioning.test.ts.
  const others = [/ \/mcp\/:organization\/:server$/, / \/api\/admin\//, / \/scim\/v2\//];
  const found = app.changing.filter((route) => !others.some((other) => other.test(route)));

  expect(found.toSorted()).toEqual([...Object.keys(pages), ...machines].toSorted());
});

test('82: page routes: every route with an id in its path declares whose the id is', () => {
  const named = Object.entries(pages).filter(([route]) => route.includes('/:id'));

  expect(named.filter(([, { foreign }]) => foreign === undefined)).toEqual([]);
});

describe('81: page routes: a state-changing request needs the CSRF token and the server’s own origin', () => {
  const forged = 'The form has expired';
  let people = 0;
  const newBrowser = async ({ guard }: Route) => {
    if (guard === 'person') return app.browser(`user_csrf_${(people += 1)}`);
    const token = randomToken();
    const cookie = `${cookieName('latchkey-browser', app.server.base)}=${token}`;
    return { cookie, csrfToken: csrfToken(token) };
  };
  const send = (
    name: string,
    { body }: Route,
    { cookie, token, headers = {} }: { cookie: string; token?: string; headers?: object },
  ) => {
    const guarded = token === undefined ? {} : { csrf_token: token };
    return app.post({
      path: pathOf(name),
      cookie,
      body: body === 'form' ? new URLSearchParams(guarded).toString() : '{}',
      headers: {
        ...(body === 'json' && {
          'content-type': 'application/json',
          ...(token !== undefined && { 'x-csrf-token': token }),
        }),
        ...headers,
      },
    });
  };

  test.each(Object.entries(pages))('81: %s', async (name, route) => {
    const { cookie, csrfToken: token } = await newBrowser(route);
    const foreign = await newBrowser(route);
    const other = await newBrowser({ ...route, guard: 'person' });
    const from = (headers: object) => send(name, route, { cookie, token, headers });

    const refused = [
      await send(name, route, { cookie }),
      await send(name, route, { cookie, token: foreign.csrfToken }),
      await send(name, route, { cookie, token: other.csrfToken }),
      await send(name, route, { cookie, token: '' }),
      await from({ origin: 'https://evil.example' }),
      await from({ origin: `${app.server.base}.evil.example` }),
      await from({ origin: `${app.server.base}0` }),
      await from({ origin: 'null' }),
      await from({ 'sec-fetch-site': 'cross-site' }),
      await from({ 'sec-fetch-site': 'same-site' }),
    ];
    const right = await from({ 'sec-fetch-site': 'same-origin' });

    expect(refused.map(({ status }) => status)).toEqual(refused.map(() => 403));
    for (const { text } of refused) expect(text).toContain(forged);
    expect(right.text).not.toContain(forged);
  });
});

describe('82: page routes: another person’s resource is not found, and nothing happens to it', () => {
  const owned = Object.entries(pages).filter(([, { foreign }]) => foreign !== undefined);
  const kept = () =>
    everyRow(app.server.stores.connection, { except: ['audit_event', 'audit_order'] });

  test.each(owned)('82: %s', async (name, { foreign, says = 404 }) => {
    const suffix = name.replaceAll(/\W/g, '');
    const owner = await app.browser(`user_owner_${suffix}`, undefined, 2);
    const eve = await app.browser(`user_eve_${suffix}`);
    const { id = '', fields } = (await foreign?.(owner)) ?? {};
    const send = (by: SignedInBrowser, path: string) =>
      app.post({
        path,
        cookie: by.cookie,
        body: new URLSearchParams({ ...fields, csrf_token: by.csrfToken }).toString(),
      });
    const before = kept();

    const theirs = await send(eve, pathOf(name, id));
    const after = kept();
    const unknown = fields ? theirs : await send(eve, pathOf(name, 'nobody-has-this'));
    const own = await send(owner, pathOf(name, id));

    expect(theirs.status).toBe(says);
    expect(after).toEqual(before);
    expect([unknown.status, withoutFooter(unknown.text)]).toEqual([
      says,
      withoutFooter(theirs.text),
    ]);
    expect(own.status).toBe(303);
  });
});

import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { csrfToken, randomToken } from '#server/accounts/sessions';
import { insertPasskey } from '#server/db/authenticators';
import { listGrantsOfPerson } from '#server/db/grants';
import { insertPersonalToken } from '#server/db/personal-tokens';
import { cookieName } from '#server/web/page-request';
import { hiddenFields } from '#support/granting-server';
import { pageApp, type PageApp, type SignedInBrowser } from '#support/page-app';

/** What belongs to somebody, by its id, as this route names it: in the path or in the form. */
type Foreign = (owner: SignedInBrowser) => Promise<{ id: string; fields?: Record<string, string> }>;

interface Route {
  /** Whose guard its forms carry: that of a session, or of a browser that nobody is signed in with. */
  readonly guard: 'person' | 'browser';
  readonly body: 'form' | 'json';
  /** Absent where the route names nothing that could be somebody else's. */
  readonly foreign?: Foreign;
  /** What a route says of an id that is somebody else's; 404 unless given. */
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

/** Every route of ours that changes something for a browser. */
const pages: Record<string, Route> = {
  'POST /sign-in': { guard: 'browser', body: 'form' },
  'POST /sign-in/code': { guard: 'browser', body: 'form' },
  'POST /sign-out': { guard: 'person', body: 'form' },
  'POST /sign-in/passkey': { guard: 'browser', body: 'json' },
  'POST /sign-in/passkey/options': { guard: 'browser', body: 'json' },
  'POST /sign-in/provider': { guard: 'browser', body: 'form' },
  // Whoever has the link may use it: its token is no id but a secret.
  'POST /set-up/:linkToken': { guard: 'browser', body: 'form' },
  'POST /reset/:linkToken': { guard: 'browser', body: 'form' },
  'POST /invitation/:linkToken/join': { guard: 'person', body: 'form' },
  'POST /invitation/:linkToken/account': { guard: 'browser', body: 'form' },
  'POST /invitation/:linkToken/provider': { guard: 'browser', body: 'form' },
  'POST /account/password': { guard: 'person', body: 'form' },
  'POST /account/sessions/:id/end': { guard: 'person', body: 'form', foreign: session },
  'POST /account/sessions/end-others': { guard: 'person', body: 'form' },
  'POST /account/passkeys': { guard: 'person', body: 'json' },
  'POST /account/passkeys/options': { guard: 'person', body: 'json' },
  'POST /account/passkeys/:id/remove': { guard: 'person', body: 'form', foreign: passkey },
  'POST /account/second-factor': { guard: 'person', body: 'form' },
  'POST /account/second-factor/confirm': { guard: 'person', body: 'form' },
  'POST /account/second-factor/recovery-codes': { guard: 'person', body: 'form' },
  'POST /account/second-factor/remove': { guard: 'person', body: 'form' },
  'POST /account/provider': { guard: 'person', body: 'form' },
  'POST /account/provider/unlink': { guard: 'person', body: 'form' },
  'POST /account/grants/:id/withdraw': { guard: 'person', body: 'form', foreign: grant },
  'POST /account/tokens': { guard: 'person', body: 'form' },
  'POST /account/tokens/:id/revoke': { guard: 'person', body: 'form', foreign: personalToken },
  'POST /new-organization': { guard: 'person', body: 'form' },
  'POST /dashboard/:organization/single-sign-on/test': { guard: 'person', body: 'form' },
  'POST /dashboard/:organization/servers/:server/access': { guard: 'person', body: 'form' },
  'POST /dashboard/:organization/servers/:server/access/review': { guard: 'person', body: 'form' },
  'POST /dashboard/:organization/servers/:server/account': { guard: 'person', body: 'form' },
  'POST /dashboard/:organization/servers/:server/account/disconnect': {
    guard: 'person',
    body: 'form',
  },
  'POST /dashboard/:organization/servers/:server/upstream': { guard: 'person', body: 'form' },
  'POST /dashboard/:organization/servers/:server/upstream/headers': {
    guard: 'person',
    body: 'form',
  },
  'POST /dashboard/:organization/servers/:server/upstream/headers/:header/restore': {
    guard: 'person',
    body: 'form',
  },
  'POST /dashboard/:organization/servers/:server/upstream/headers/:header/remove': {
    guard: 'person',
    body: 'form',
  },
  'POST /dashboard/:organization/servers/:server/upstream/headers/:header/forget': {
    guard: 'person',
    body: 'form',
  },
  'POST /dashboard/:organization/servers/:server/upstream/connections/:userId/end': {
    guard: 'person',
    body: 'form',
  },
  'POST /dashboard/:organization/servers/:server/tools/accept': { guard: 'person', body: 'form' },
  'POST /dashboard/:organization/servers/:server/tools/rule': { guard: 'person', body: 'form' },
  'POST /dashboard/:organization/servers/:server/tools/visibility': {
    guard: 'person',
    body: 'form',
  },
  'POST /dashboard/:organization/people/invite': { guard: 'person', body: 'form' },
  'POST /dashboard/:organization/people/invitations/:invitationId/revoke': {
    guard: 'person',
    body: 'form',
  },
  'POST /dashboard/:organization/people/:userId/role': { guard: 'person', body: 'form' },
  'POST /dashboard/:organization/people/:userId/sign-out': { guard: 'person', body: 'form' },
  'POST /dashboard/:organization/people/:userId/reset-second-factor': {
    guard: 'person',
    body: 'form',
  },
  'POST /dashboard/:organization/people/:userId/make-owner': { guard: 'person', body: 'form' },
  'POST /dashboard/:organization/people/:userId/remove': { guard: 'person', body: 'form' },
  'POST /dashboard/:organization/groups': { guard: 'person', body: 'form' },
  'POST /dashboard/:organization/groups/:groupId/add-person': { guard: 'person', body: 'form' },
  'POST /dashboard/:organization/groups/:groupId/remove-person': { guard: 'person', body: 'form' },
  'POST /dashboard/:organization/groups/:groupId/map': { guard: 'person', body: 'form' },
  'POST /dashboard/:organization/groups/:groupId/unmap': { guard: 'person', body: 'form' },
  'POST /dashboard/:organization/groups/:groupId/delete': { guard: 'person', body: 'form' },
  'POST /dashboard/:organization/consents/:grantId/withdraw': { guard: 'person', body: 'form' },
  'POST /dashboard/:organization/settings': { guard: 'person', body: 'form' },
  'POST /dashboard/:organization/settings/webhooks': { guard: 'person', body: 'form' },
  'POST /dashboard/:organization/settings/webhooks/:webhookId': { guard: 'person', body: 'form' },
  'POST /dashboard/:organization/settings/webhooks/:webhookId/test': {
    guard: 'person',
    body: 'form',
  },
  'POST /dashboard/:organization/settings/webhooks/:webhookId/rotate': {
    guard: 'person',
    body: 'form',
  },
  'POST /dashboard/:organization/settings/webhooks/:webhookId/enable': {
    guard: 'person',
    body: 'form',
  },
  'POST /dashboard/:organization/settings/webhooks/:webhookId/disable': {
    guard: 'person',
    body: 'form',
  },
  'POST /dashboard/:organization/settings/webhooks/:webhookId/remove': {
    guard: 'person',
    body: 'form',
  },
  'POST /dashboard/:organization/new-server': { guard: 'person', body: 'form' },
  'POST /dashboard/:organization/servers/:server/settings': { guard: 'person', body: 'form' },
  'POST /dashboard/:organization/servers/:server/disable': { guard: 'person', body: 'form' },
  'POST /dashboard/:organization/servers/:server/enable': { guard: 'person', body: 'form' },
  'POST /dashboard/:organization/servers/:server/delete': { guard: 'person', body: 'form' },
  'POST /dashboard/:organization/servers/:server/try': { guard: 'person', body: 'form' },
  'POST /dashboard/:organization/servers/:server/new-client': { guard: 'person', body: 'form' },
  'POST /dashboard/:organization/servers/:server/new-key': { guard: 'person', body: 'form' },
  'POST /dashboard/:organization/new-agent': { guard: 'person', body: 'form' },
  // Whose these are: see dashboard-routes.test.ts.
  'POST /dashboard/:organization/servers/:server/clients/:clientId/settings': {
    guard: 'person',
    body: 'form',
  },
  'POST /dashboard/:organization/servers/:server/clients/:clientId/revoke': {
    guard: 'person',
    body: 'form',
  },
  'POST /dashboard/:organization/servers/:server/clients/:clientId/rotate': {
    guard: 'person',
    body: 'form',
  },
  'POST /dashboard/:organization/servers/:server/clients/:clientId/secrets/:secretId/revoke': {
    guard: 'person',
    body: 'form',
  },
  'POST /dashboard/:organization/servers/:server/keys/:keyId/revoke': {
    guard: 'person',
    body: 'form',
  },
  'POST /dashboard/:organization/servers/:server/keys/:keyId/rotate': {
    guard: 'person',
    body: 'form',
  },
  'POST /dashboard/:organization/agents/:agent/revoke': { guard: 'person', body: 'form' },
  'POST /dashboard/:organization/agents/:agent/rotate': { guard: 'person', body: 'form' },
  'POST /dashboard/:organization/agents/:agent/keys/:keyId/revoke': {
    guard: 'person',
    body: 'form',
  },
  // Somebody else's question is no other case than one that was answered before: row 17 wants 403.
  'POST /oauth/consent': { guard: 'person', body: 'form', foreign: pending, says: 403 },
};

/** Routes for programs: none of them heeds a cookie. */
const machines = [
  'POST /api/oauth/token',
  'POST /api/oauth/introspect',
  'POST /api/oauth/revoke',
  'POST /api/oauth/register',
];

const pathOf = (route: string, id = 'x') => route.replace('POST ', '').replace(/:\w+/, id);

test('81, 82: page routes: every route that changes something is in one of the two tables', () => {
  // The admin API heeds no cookie, and has a table of its own in admin-api-routes.test.ts.
  const others = [/ \/mcp\/:organization\/:server$/, / \/api\/admin\//];
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
  const plain = (text: string) => text.replaceAll(/<footer.*<\/footer>/g, '');
  const kept = () => {
    const { connection } = app.server.stores;
    const tables = connection.prepare(`select name from sqlite_schema where type = 'table'`).all();
    const names = tables
      .map(({ name }) => String(name))
      .filter((name) => name !== 'audit_event' && name !== 'audit_order');
    return names.map((name) => [name, connection.prepare(`select * from "${name}"`).all()]);
  };

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
    expect([unknown.status, plain(unknown.text)]).toEqual([says, plain(theirs.text)]);
    expect(own.status).toBe(303);
  });
});

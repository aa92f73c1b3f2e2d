import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';

import { revokeClient, updateClient } from '#server/db/clients';
import { insertServer } from '#server/db/servers';
import { createClient } from '#server/admin/create-credentials';
import { allScopes } from '#server/model/scopes';
import { fakeClock } from '#support/fake-clock';
import {
  cookieHash,
  grantingServer,
  type Browser,
  type GrantingServer,
} from '#support/granting-server';
import { updateSettings } from '#server/db/settings';
import { newestEvents } from '#support/newest-events';

const clock = fakeClock();
const site = 'https://client.test/cb';
let server: GrantingServer;
let dana: Browser;
/** A client of `acme/sales` that may have every scope. */
let own: string;
let registered: string;

beforeAll(async () => {
  server = await grantingServer({ clock, args: ['--dynamic-registration'] });
});
afterAll(() => server[Symbol.asyncDispose]());
beforeEach(async () => {
  await updateSettings(server.stores.db, 'org_acme', {
    openClientsAllowed: true,
    secondFactorRequired: false,
  });
  const chosen = { serverId: 'srv_sales', scopes: allScopes, redirectUris: [site] };
  const made = { name: 'Own', jwks: undefined, ...chosen };
  own = (await createClient(made, { db: server.stores.db, clock })).id;
  const answer = await fetch(`${server.base}/api/oauth/register`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ redirect_uris: [site], token_endpoint_auth_method: 'none' }),
  });
  registered = String(Object(await answer.json())['client_id']);
  dana = await server.browser('admin');
});

const setRole = (role: 'admin' | 'member') =>
  server.stores.db
    .updateTable('membership')
    .set({ role })
    .where('person_id', '=', dana.userId)
    .execute();
const asked = (clientId: string) => ({
  client_id: clientId,
  redirect_uri: site,
  scope: 'mcp:tools:read mcp:server:manage',
  resource: `${server.base}/mcp/acme/sales`,
});
const audited = async () => {
  const [newest] = await newestEvents(server.stores.db, 1);
  return newest && `${newest.actor} ${newest.action} ${newest.outcome} ${newest.target}`;
};
const count = async (table: 'authorization_code' | 'consent') => {
  const rows = await server.stores.db.selectFrom(table).select('client_id').execute();
  return rows.length;
};

/** Shows the page, lets `change` happen, and presses Allow. */
async function allowAfter(change: () => Promise<unknown>, but: Record<string, string>) {
  const page = await (await server.authorize(dana, but)).text();
  const before = [await count('authorization_code'), await count('consent')];
  await change();
  const answer = await server.decide(dana, page, 'allow');
  const text = await answer.text();
  const link = /href="(https:\/\/client\.test[^"]+)"/.exec(text)?.[1]?.replaceAll('&amp;', '&');
  const granted = [await count('authorization_code'), await count('consent')];
  const back = link === undefined ? undefined : new URL(link).searchParams;
  return {
    status: answer.status,
    location: answer.headers.get('location'),
    text,
    back: back && { error: back.get('error'), description: back.get('error_description') ?? '' },
    isNothingGranted: JSON.stringify(granted) === JSON.stringify(before),
  };
}

interface Change {
  readonly idOf: () => string;
  readonly scope?: string;
  readonly change: () => Promise<unknown>;
  /** What the page says changed. */
  readonly says: RegExp;
}

const changes: [string, Change][] = [
  [
    'the person left the organization',
    {
      idOf: () => own,
      change: () =>
        server.stores.db.deleteFrom('membership').where('person_id', '=', dana.userId).execute(),
      says: /cannot use acme\/sales/,
    },
  ],
  [
    'the role covers less',
    {
      idOf: () => own,
      change: () => setRole('member'),
      says: /are now fewer than those on the page/,
    },
  ],
  [
    'the role covers nothing of it',
    {
      idOf: () => own,
      scope: 'mcp:server:manage',
      change: () => setRole('member'),
      says: /your role in acme does not allow anything/,
    },
  ],
  [
    'the client may have less',
    {
      idOf: () => own,
      change: () => updateClient(server.stores.db, own, { scopes: ['mcp:tools:read'] }),
      says: /are now fewer than those on the page/,
    },
  ],
  [
    'the organization closed itself to registered clients',
    {
      idOf: () => registered,
      scope: 'mcp:tools:read',
      change: () => updateSettings(server.stores.db, 'org_acme', { openClientsAllowed: false }),
      says: /accepts only applications that its administrators created/,
    },
  ],
  [
    'the organization requires a second factor',
    {
      idOf: () => own,
      change: () => updateSettings(server.stores.db, 'org_acme', { secondFactorRequired: true }),
      says: /second factor/,
    },
  ],
];

describe('105: consent: if rights are lost while the page is open, the answer is an error that says so:', () => {
  test.each(changes)('%s', async (_, { idOf, scope, change, says }) => {
    const clientId = idOf();
    const answer = await allowAfter(change, { ...asked(clientId), ...(scope && { scope }) });

    expect(answer).toMatchObject({ status: 403, location: null, isNothingGranted: true });
    expect(answer.text).toMatch(says);
    expect(answer.text).toContain('changed');
    expect(answer.back?.error).toBe('access_denied');
    expect(answer.back?.description).toContain('changed');
    expect(answer.back?.description).not.toContain('denied access');
    expect(await audited()).toBe(
      `user:${dana.userId} consent.rights-changed refused ${clientId} acme/sales`,
    );
  });

  test('the server was replaced by another one of the same name', async () => {
    const { db } = server.stores;
    const place = { id: 'srv_old', organizationId: 'org_acme', name: 'moved' };
    const upstream = { kind: 'demo' } as const;
    await insertServer(db, { ...place, targetId: 'target_old', upstream, createdAt: clock.now() });
    const replaced = async () => {
      await db.deleteFrom('endpoint').where('id', '=', 'srv_old').execute();
      await insertServer(db, {
        ...place,
        id: 'srv_new',
        targetId: 'target_new',
        upstream,
        createdAt: clock.now(),
      });
    };
    const resource = `${server.base}/mcp/acme/moved`;
    const but = { ...asked(registered), scope: 'mcp:tools:read', resource };
    const answer = await allowAfter(replaced, but);

    expect(answer).toMatchObject({ status: 403, location: null, isNothingGranted: true });
    expect(answer.text).toContain('changed');
    expect(await audited()).toContain('consent.rights-changed refused');
  });
});

test('105: consent: rights gained while the page is open are not granted', async () => {
  await setRole('member');
  const page = await (await server.authorize(dana, asked(own))).text();
  await setRole('admin');
  const decided = await server.decide(dana, page, 'allow');
  const code = new URL(decided.headers.get('location') ?? '').searchParams.get('code') ?? '';
  const rows = await server.stores.db
    .selectFrom('authorization_code')
    .select('scopes')
    .where('client_id', '=', own)
    .execute();

  expect(code).toMatch(/^code_/);
  expect(rows).toEqual([{ scopes: '["mcp:tools:read"]' }]);
});

describe('105: consent: a client changed while the page is open gets nothing, and this is audited:', () => {
  test.each([
    ['it was revoked', () => revokeClient(server.stores.db, own, clock.now())],
    [
      'the redirect URI is no longer its own',
      () => updateClient(server.stores.db, own, { redirectUris: ['https://client.test/new'] }),
    ],
  ])('%s', async (_, change) => {
    const answer = await allowAfter(change, asked(own));

    expect(answer).toMatchObject({
      status: 400,
      location: null,
      back: undefined,
      isNothingGranted: true,
    });
    expect(await audited()).toBe(
      `user:${dana.userId} consent.client-changed refused ${own} acme/sales`,
    );
  });
});

test('105: consent: denying after rights changed counts as denied', async () => {
  const page = await (await server.authorize(dana, asked(own))).text();
  await setRole('member');
  const denied = await server.decide(dana, page, 'deny');

  expect(denied.headers.get('location')).toContain('error_description=the+person+denied+access');
  expect(await audited()).toBe(`user:${dana.userId} consent.deny done ${own} acme/sales`);
});

test('105: consent: a decision after signing out has no effect', async () => {
  const page = await (await server.authorize(dana, asked(own))).text();
  const before = await audited();
  await server.stores.db
    .deleteFrom('browser_session')
    .where('token_hash', '=', cookieHash(dana))
    .execute();
  const answer = await server.decide(dana, page, 'allow');

  expect(answer.headers.get('location') ?? '').not.toContain('code=');
  expect(await audited()).toBe(before);
});

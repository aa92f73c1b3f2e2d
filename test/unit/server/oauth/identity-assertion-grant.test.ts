import { randomUUID } from 'node:crypto';

import type { CryptoKey } from 'jose';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';

import { endByProvider } from '#server/accounts/provider-logouts';
import { findClient, insertClient, putDocumentedClient, updateClient } from '#server/db/clients';
import {
  findGrant,
  listDecisionsOfPerson,
  listGrantsOfPerson,
  revokeGrant,
} from '#server/db/grants';
import { allowAssertedGrant } from '#server/db/assertion-grants';
import { listDevices, signOutDevice } from '#server/db/devices';
import { updateProvider } from '#server/db/identity-providers';
import { findLinkedMember, linkMember } from '#server/db/member-identities';
import { insertDomain, setDomainProof } from '#server/db/organization-domains';
import { insertOrganization } from '#server/db/organizations';
import { changeRole, insertUser } from '#server/db/people';
import { insertServer } from '#server/db/servers';
import { updateSettings } from '#server/db/settings';
import { insertTrustRule } from '#server/db/trust-rules';
import { ownClientDocument, readClientDocument } from '#server/oauth/client-documents';
import { tokenEndpoint } from '#server/oauth/grants';
import { hashSecret, mintSecret } from '#server/secrets/secrets';
import {
  assertionIssuer,
  type AssertionIssuer,
  jwtBearer,
  type Signed,
} from '#support/assertion-issuer';
import {
  authorizationServer,
  refusal,
  type AuthorizationServer,
} from '#support/authorization-server';
import { newestEvents } from '#support/newest-events';
import { insertSomeProvider } from '#support/some-provider';
import { patient } from '#support/patient';

let made: AuthorizationServer;
let company: AssertionIssuer;
let base: string;
/** The client of the whole organization. */
const clientId = 'client_of_acme';
let secret: string;

/** Acme's provider vouches for Dana, who is linked as `dana there`, to a client of the whole organization. */
beforeEach(async () => {
  made = await authorizationServer();
  company = await assertionIssuer();
  base = made.base;
  secret = mintSecret('secret_');
  const { db } = made.stores;
  const now = made.clock.now();
  await insertServer(db, {
    id: 'srv_wiki',
    organizationId: 'org_acme',
    name: 'wiki',
    upstream: { kind: 'demo' },
    targetId: 'target_wiki',
    createdAt: now,
  });
  await insertClient(db, {
    id: clientId,
    name: 'Claude',
    serverId: undefined,
    organizationId: 'org_acme',
    scopes: ['mcp:tools:read', 'mcp:tools:execute', 'mcp:server:manage'],
    redirectUris: [],
    jwks: undefined,
    authenticationRequired: true,
    secretHash: hashSecret(secret),
    secretHint: 'secret_…',
    createdAt: now,
  });
  await insertSomeProvider(db, { issuer: company.issuer, assertionsAllowed: true, createdAt: now });
  await insertDomain(
    db,
    { organizationId: 'org_acme', domain: 'example.com', verificationToken: 't', createdAt: now },
    5,
  );
  await setDomainProof(db, 'org_acme', 'example.com', { by: 'operator', at: now });
  await link('dana there');
});
afterEach(async () => {
  await company[Symbol.asyncDispose]();
  await made[Symbol.asyncDispose]();
});

const link = (subject: string) =>
  linkMember(
    made.stores.db,
    { providerId: 'idp_acme', subject },
    { organizationId: 'org_acme', userId: 'user_dana' },
    made.clock.now(),
  );

/** A valid assertion except for these claims and header members. */
const assertion = ({ claims = {}, header = {} }: Signed = {}, key?: CryptoKey | Uint8Array) => {
  const now = made.clock.now();
  const right = {
    sub: 'dana there',
    aud: base,
    client_id: clientId,
    jti: randomUUID(),
    iat: now,
    exp: now + 300,
    resource: `${base}/mcp/acme/sales`,
    ...claims,
  };
  return company.sign({ claims: right, header: { typ: 'oauth-id-jag+jwt', ...header } }, key);
};

type Fields = Readonly<Record<string, string | undefined>>;

const ask = async (text: string, but: Fields = {}) => {
  const fields = {
    grant_type: jwtBearer,
    assertion: text,
    client_id: clientId,
    client_secret: secret,
    ...but,
  };
  const form = new Map(
    Object.entries(fields).filter((entry): entry is [string, string] => entry[1] !== undefined),
  );
  const url = `${base}/api/oauth/token`;
  const { tokens } = await tokenEndpoint({ form, method: 'POST', url, headers: {} }, made.ports);
  return tokens;
};
const grantsOfDana = () => listGrantsOfPerson(made.stores.db, 'user_dana', made.clock.now());
const change = (to: Parameters<typeof updateProvider>[3]) =>
  updateProvider(made.stores.db, 'org_acme', 'idp_acme', to);

test('identity assertion: it gives a token of the person for the server, and no refresh token', async () => {
  const tokens = await ask(await assertion());
  const [grant] = await grantsOfDana();

  expect(tokens).toEqual({
    access_token: expect.stringMatching(/^eyJ/),
    token_type: 'Bearer',
    expires_in: 3600,
    scope: 'mcp:tools:read mcp:tools:execute',
  });
  expect(await made.claims(tokens.access_token)).toMatchObject({
    subject: 'user_dana',
    clientId,
    audience: `${base}/mcp/acme/sales`,
    grantId: grant?.id,
  });
  expect(await made.admitted(tokens.access_token)).toBeDefined();
  expect(grant).toMatchObject({ clientName: 'Claude', serverPath: 'acme/sales' });
});

test('identity assertion: further ones renew one grant, which the audit log has once', async () => {
  await ask(await assertion());
  await ask(await assertion());
  await ask(await assertion({ claims: { resource: `${base}/mcp/acme/wiki` } }));

  expect(await grantsOfDana()).toHaveLength(2);
  const audited = await made.audited();
  expect(audited.filter((action) => action === 'grant.assert')).toHaveLength(2);
});

test.each<[string, Fields, string | undefined, string]>([
  ['nothing', {}, undefined, 'mcp:tools:read mcp:tools:execute'],
  ['the request', { scope: 'mcp:tools:read' }, undefined, 'mcp:tools:read'],
  ['the assertion', {}, 'mcp:tools:execute other', 'mcp:tools:execute'],
  [
    'both',
    { scope: 'mcp:tools:read mcp:tools:execute openid' },
    'mcp:tools:read mcp:server:manage',
    'mcp:tools:read',
  ],
])(
  'identity assertion: the scopes are limited by %s, the client and the role',
  async (_, but, scope, expected) => {
    const tokens = await ask(await assertion({ claims: { scope } }), but);

    expect(tokens.scope).toBe(expected);
  },
);

test('identity assertion: one for several servers works once, for the one that the request names', async () => {
  const resources = ['sales', 'wiki'].map((name) => `${base}/mcp/acme/${name}`);
  const several = await assertion({ claims: { resource: resources } });
  const [, wiki = ''] = resources;
  const tokens = await ask(several, { resource: wiki });

  expect((await made.claims(tokens.access_token)).audience).toBe(wiki);
  await expect(ask(several, { resource: resources[0] })).rejects.toMatchObject(
    refusal('invalid_grant'),
  );
});

test('identity assertion: of twenty concurrent uses one succeeds', async () => {
  const once = await assertion();
  const all = await Promise.allSettled(Array.from({ length: 20 }, () => ask(once)));

  expect(all.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
});

test('identity assertion: of twenty concurrent uses of a later one, too, and each of twenty later ones works', async () => {
  await ask(await assertion());
  const once = await assertion();
  const same = await Promise.allSettled(Array.from({ length: 20 }, () => ask(once)));
  const others = await Promise.all(Array.from({ length: 20 }, async () => ask(await assertion())));

  expect(same.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
  expect(new Set(others.map((one) => one.access_token)).size).toBe(20);
  expect(await grantsOfDana()).toHaveLength(1);
});

test('identity assertion: a later one gives less, once the person may do less', async () => {
  const { db } = made.stores;
  const before = await ask(await assertion());
  await updateClient(db, clientId, { scopes: ['mcp:tools:read'] });
  const after = await ask(await assertion());
  await db.updateTable('endpoint').set({ access: 'groups' }).where('name', '=', 'sales').execute();

  expect([before.scope, after.scope]).toEqual([
    'mcp:tools:read mcp:tools:execute',
    'mcp:tools:read',
  ]);
  await expect(ask(await assertion())).rejects.toMatchObject(refusal('invalid_grant'));
});

test('identity assertion: a refused one can still be used, and a used one never again', async () => {
  const text = await assertion();
  await change({ assertionServers: ['srv_wiki'] });
  await expect(ask(text)).rejects.toMatchObject(refusal('invalid_grant'));
  await change({ assertionServers: [] });
  await ask(text);

  await made.clock.advance(329);
  await expect(ask(text)).rejects.toMatchObject({ message: 'the assertion was used before' });
  await made.clock.advance(1);
  await expect(ask(text)).rejects.toMatchObject({ message: 'the assertion has expired' });
});

test('identity assertion: the first one links a member by a verified address, under the conditions of a sign-in', async () => {
  const { db } = made.stores;
  await insertUser(
    db,
    { id: 'user_eve', email: 'eve@example.com', createdAt: 1 },
    { organizationId: 'org_acme', role: 'member' },
  );
  const eve = { sub: 'eve there', email: 'Eve@example.com' };
  const subject = { providerId: 'idp_acme', subject: 'eve there' };
  await expect(ask(await assertion({ claims: eve }))).rejects.toMatchObject(
    refusal('invalid_grant'),
  );
  await expect(
    ask(await assertion({ claims: { ...eve, email_verified: 'true' } })),
  ).rejects.toMatchObject(refusal('invalid_grant'));
  expect(await findLinkedMember(db, subject)).toBeUndefined();
  const tokens = await ask(await assertion({ claims: { ...eve, email_verified: true } }));

  expect((await made.claims(tokens.access_token)).subject).toBe('user_eve');
  expect(await findLinkedMember(db, subject)).toBe('user_eve');
  expect(await made.audited()).toContain('provider.link');
});

test('identity assertion: someone who is no member does not join, even where a sign-in lets people join', async () => {
  await change({ joiningRole: 'member' });
  const claims = { sub: 'new', email: 'new@example.com', email_verified: true };

  await expect(ask(await assertion({ claims }))).rejects.toMatchObject(refusal('invalid_grant'));
});

test.each([
  ['email-missing', {}],
  ['email-unverified', { email: 'dana@example.com' }],
  ['domain-unproved', { email: 'dana@elsewhere.example', email_verified: true }],
  ['no-member', { email: 'nobody@example.com', email_verified: true }],
  ['other-account', { email: 'dana@example.com', email_verified: true }],
])(
  'identity assertion: the audit log of the organization says that a first link was refused: %s',
  async (why, about) => {
    const claims = { sub: 'someone else', ...about };
    await expect(ask(await assertion({ claims }))).rejects.toMatchObject({
      message: 'the assertion is about no member of the organization',
    });
    await expect
      .poll(() => newestEvents(made.stores.db, 1), patient)
      .toMatchObject([
        {
          action: 'provider.link',
          actor: 'anonymous',
          organization: 'acme',
          outcome: 'refused',
          target: `provider:idp_acme ${why}`,
        },
      ]);
  },
);

test('189: identity assertion: one that was used stays used when the keys of its issuer are at another place', async () => {
  const text = await assertion();
  await ask(text);
  await change({ keysUrl: company.keysUrl });

  await expect(ask(text)).rejects.toMatchObject({ message: 'the assertion was used before' });
  expect(await ask(await assertion())).toMatchObject({ token_type: 'Bearer' });
});

test('identity assertion: one for servers of two organizations is used up for all that trust these keys, too', async () => {
  const resource = `${base}/mcp/acme/sales`;
  const spent = async (others: readonly string[]) => {
    await made.stores.db.deleteFrom('spent_challenge').execute();
    await ask(await assertion({ claims: { resource: [resource, ...others] } }), { resource });
    return (await made.stores.db.selectFrom('spent_challenge').selectAll().execute()).length;
  };
  const other = [`${base}/mcp/other/sales`];
  const same = [`${base}/mcp/acme/wiki`, 'https://elsewhere.example/mcp/other/sales'];

  expect([await spent(other), await spent(other), await spent(same)]).toEqual([2, 2, 1]);
});

test('identity assertion: only our own proxy names its device', async () => {
  const device = { device_id: 'd'.repeat(22), device_name: 'laptop', device_system: 'Linux' };
  await ask(await assertion(), device);

  expect(await listDevices(made.stores.db, { userId: 'user_dana' }, made.clock.now())).toEqual([]);
});

describe('identity assertion of our own proxy', () => {
  const device = { device_id: 'd'.repeat(22), device_name: 'laptop', device_system: 'Linux' };
  const desk = { device_id: 'e'.repeat(22), device_name: 'desk', device_system: 'macOS' };
  let own: string;
  beforeEach(async () => {
    own = ownClientDocument(base).client_id;
    const client = readClientDocument(own, JSON.stringify(ownClientDocument(base)));
    await putDocumentedClient(made.stores.db, client, made.clock.now());
    await change({ assertionClients: [own] });
  });
  const asProxy = async (
    fields: Readonly<Record<string, string>>,
    claims: Signed['claims'] = {},
  ) => {
    const text = await assertion({ claims: { client_id: own, ...claims } });
    const form = { grant_type: jwtBearer, assertion: text, client_id: own, ...fields };
    const url = `${base}/api/oauth/token`;
    const resolveClient: typeof made.ports.resolveClient = async (id) => {
      const found = await findClient(made.stores.db, id);
      if (!found) throw new TypeError('no client');
      return found;
    };
    const request = {
      form: new Map(Object.entries(form)),
      method: 'POST',
      url,
      headers: {},
    } as const;
    return (await tokenEndpoint(request, { ...made.ports, resolveClient })).tokens;
  };
  const devices = () => listDevices(made.stores.db, { userId: 'user_dana' }, made.clock.now());

  test('188: the grant belongs to the device, and ends with its sign-out alone, until the person signs in at the provider again', async () => {
    const { db } = made.stores;
    const first = await asProxy(device);
    const other = await asProxy(desk);
    const again = await asProxy(device);
    const listed = await devices();
    const laptop = listed.find(({ name }) => name === 'laptop');
    await signOutDevice(db, laptop?.id ?? '', { userId: 'user_dana' }, made.clock.now());
    const signedOutAt = made.clock.now();
    const admitted = await Promise.all(
      [first, again, other].map(({ access_token: token }) => made.admitted(token)),
    );

    expect(listed.map(({ name, system, grants }) => [name, system, grants.length])).toEqual(
      expect.arrayContaining([
        ['laptop', 'Linux', 1],
        ['desk', 'macOS', 1],
      ]),
    );
    expect(admitted.map((one) => one !== undefined)).toEqual([false, false, true]);
    for (const claims of [{}, { auth_time: signedOutAt - 60 }]) {
      await expect(asProxy(device, claims)).rejects.toMatchObject({
        code: 'invalid_grant',
        message: 'signed out: this device was signed out after the person signed in',
      });
    }
    expect(await asProxy(desk)).toMatchObject({ token_type: 'Bearer' });
    await made.clock.advance(5);
    const back = await asProxy(device, { auth_time: signedOutAt + 2 });
    expect(await made.admitted(back.access_token)).toBeDefined();
  });
});

test('identity assertion: what the person withdrew is refused until they allow it again', async () => {
  const { db } = made.stores;
  const tokens = await ask(await assertion());
  const [grant] = await grantsOfDana();
  await revokeGrant(db, grant?.id ?? '', made.clock.now());

  expect(await made.admitted(tokens.access_token)).toBeUndefined();
  await expect(ask(await assertion())).rejects.toMatchObject({
    code: 'invalid_grant',
    message: 'access of this client was withdrawn: allow it again',
  });
  await made.clock.advance(400 * 86_400);
  await expect(ask(await assertion())).rejects.toMatchObject(refusal('invalid_grant'));
  const [withdrawn] = await listDecisionsOfPerson(db, 'user_dana', made.clock.now());
  await allowAssertedGrant(db, withdrawn?.id ?? '');
  expect(await ask(await assertion())).toMatchObject({ token_type: 'Bearer' });
});

test('identity assertion: one from before the person was logged out is refused, even once another one made a grant', async () => {
  const { clock, stores } = made;
  const at = { type: 'organization', organizationId: 'org_acme', providerId: 'idp_acme' } as const;
  const tokens = await ask(await assertion());
  const [one, two] = [await assertion(), await assertion()];
  const issuedAt = clock.now();
  const logout = { tokenId: 'logout', subject: 'dana there', issuedAt, expiresAt: issuedAt + 60 };
  await endByProvider({ place: at, organization: 'acme' }, logout, { ...stores, clock });
  const why = 'the assertion was issued before the person was logged out';
  await expect(ask(one)).rejects.toMatchObject({ code: 'invalid_grant', message: why });
  expect([await grantsOfDana(), await made.admitted(tokens.access_token)]).toEqual([[], undefined]);
  await clock.advance(1);

  expect(await ask(await assertion())).toMatchObject({ token_type: 'Bearer' });
  await expect(ask(two)).rejects.toMatchObject({ code: 'invalid_grant', message: why });
});

test('identity assertion: it ends when the organization switches assertions off', async () => {
  const tokens = await ask(await assertion());
  await change({ assertionsAllowed: false });

  expect(await made.admitted(tokens.access_token)).toBeUndefined();
  await expect(ask(await assertion())).rejects.toMatchObject(refusal('invalid_grant'));
  expect(await findGrant(made.stores.db, (await grantsOfDana())[0]?.id ?? '')).toBeUndefined();
});

test('identity assertion: a lower role lowers the next token', async () => {
  await changeRole(made.stores.db, 'org_acme', 'user_dana', { from: 'member', to: 'viewer' });
  const scope = 'mcp:server:manage';

  await expect(ask(await assertion({ claims: { scope } }))).rejects.toMatchObject(
    refusal('invalid_grant'),
  );
});

test('identity assertion: where a second factor is required, the provider must say that there was one', async () => {
  await updateSettings(made.stores.db, 'org_acme', { secondFactorRequired: true });

  await expect(ask(await assertion())).rejects.toMatchObject(refusal('invalid_grant'));
  await expect(ask(await assertion({ claims: { amr: ['pwd'] } }))).rejects.toMatchObject(
    refusal('invalid_grant'),
  );
  expect(await ask(await assertion({ claims: { amr: ['pwd', 'mfa'] } }))).toBeDefined();
});

test('identity assertion: the client of one server exchanges it there, with its secret', async () => {
  const { client } = made;
  const own = { client_id: client.id, client_secret: client.secret };
  const claims = { client_id: client.id };

  expect(await ask(await assertion({ claims }), own)).toMatchObject({ expires_in: 3600 });
  await expect(
    ask(await assertion({ claims: { ...claims, resource: `${base}/mcp/acme/wiki` } }), own),
  ).rejects.toMatchObject(refusal('invalid_grant'));
  await expect(
    ask(await assertion({ claims }), { ...own, client_secret: undefined }),
  ).rejects.toMatchObject(refusal('invalid_client'));
});

describe('identity assertion: a client that registered itself', () => {
  const id = 'client_by_itself';
  beforeEach(() =>
    insertClient(made.stores.db, {
      id,
      name: 'Cursor',
      serverId: undefined,
      scopes: ['mcp:tools:read'],
      redirectUris: ['http://127.0.0.1/callback'],
      jwks: undefined,
      secretHash: undefined,
      secretHint: undefined,
      createdAt: made.clock.now(),
    }),
  );
  const asItself = { client_id: id, client_secret: undefined };
  const claims = { client_id: id };

  test('may use it only if the organization lists it', async () => {
    await expect(ask(await assertion({ claims }), asItself)).rejects.toMatchObject(
      refusal('unauthorized_client'),
    );
    await change({ assertionClients: [id] });
    expect(await ask(await assertion({ claims }), asItself)).toMatchObject({
      scope: 'mcp:tools:read',
    });
    await expect(ask(await assertion())).rejects.toMatchObject(refusal('unauthorized_client'));
  });

  test('may use it where clients that registered themselves are otherwise suspended', async () => {
    await updateSettings(made.stores.db, 'org_acme', { openClientsAllowed: false });
    await change({ assertionClients: [id] });
    const tokens = await ask(await assertion({ claims }), asItself);

    expect(await made.admitted(tokens.access_token)).toEqual(['mcp:tools:read']);
  });
});

test('identity assertion: the document of a client is read only if the organization lists its URL', async () => {
  const id = 'https://assistant.example/client.json';
  const asked: unknown[] = [];
  const { db } = made.stores;
  const resolveClient: typeof made.ports.resolveClient = async (named, person) => {
    asked.push([named, person]);
    const redirectUris = ['https://assistant.example/callback'];
    const described = { id: named, name: 'Assistant', redirectUris, jwks: undefined };
    await putDocumentedClient(db, described, made.clock.now());
    const found = await findClient(db, named);
    if (!found) throw new TypeError('no client');
    return found;
  };
  const exchange = async () => {
    const form = new Map([
      ['grant_type', jwtBearer],
      ['assertion', await assertion({ claims: { client_id: id } })],
      ['client_id', id],
    ]);
    const url = `${base}/api/oauth/token`;
    const ports = { ...made.ports, resolveClient };
    return tokenEndpoint({ form, method: 'POST', url, headers: {} }, ports);
  };
  await expect(exchange()).rejects.toMatchObject(refusal('invalid_client'));
  expect(asked).toEqual([]);
  await change({ assertionClients: [id] });

  expect(await exchange()).toMatchObject({ tokens: { token_type: 'Bearer' } });
  expect(asked).toEqual([[id, { userId: 'idp_acme' }]]);
});

test('identity assertion: the client of an organization can use no other grant', async () => {
  const own = { assertion: undefined, code: 'x', refresh_token: 'x' };
  for (const grant of ['authorization_code', 'refresh_token', 'client_credentials']) {
    await expect(ask('', { ...own, grant_type: grant })).rejects.toMatchObject(
      refusal('unauthorized_client'),
    );
  }
});

test('identity assertion: an issuer that signs for workloads of the organization does not vouch for people', async () => {
  await insertTrustRule(made.stores.db, {
    clientId,
    issuer: company.issuer,
    keysUrl: undefined,
    jwks: undefined,
    audience: undefined,
    subject: 'x',
    claim: undefined,
    longestLifeSeconds: 3600,
    isSingleUse: true,
  });

  await expect(ask(await assertion())).rejects.toMatchObject(refusal('invalid_grant'));
});

test('identity assertion: another organization needs a provider of its own, even of the same issuer', async () => {
  const { db } = made.stores;
  await insertOrganization(db, { id: 'org_other', name: 'other', createdAt: 1 });
  await insertServer(db, {
    id: 'srv_other',
    organizationId: 'org_other',
    name: 'sales',
    upstream: { kind: 'demo' },
    targetId: 'target_other',
    createdAt: 1,
  });
  await insertUser(
    db,
    { id: 'user_dana', email: 'dana@example.com', createdAt: 1 },
    { organizationId: 'org_other', role: 'owner' },
  );
  const resource = `${base}/mcp/other/sales`;

  await expect(ask(await assertion({ claims: { resource } }))).rejects.toMatchObject(
    refusal('invalid_grant'),
  );
});

test('identity assertion: the audit log names the person, the client and the server', async () => {
  await made.clock.advance(1000);
  await ask(await assertion());
  const events = await newestEvents(made.stores.db, 5);

  expect(events.map(({ actor, action, target }) => ({ actor, action, target }))).toContainEqual({
    actor: 'user:user_dana',
    action: 'grant.assert',
    target: `${clientId} acme/sales`,
  });
});

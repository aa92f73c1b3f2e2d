import { afterEach, beforeEach, expect, test } from 'vitest';

import { clientList, clientRead, clientRevoke } from '#server/admin/clients';
import { clientRotate } from '#server/admin/client-secrets';
import { providerUpdateAssertions } from '#server/admin/identity-assertions';
import { providerCheck, providerCreate } from '#server/admin/identity-providers';
import { serverCreate } from '#server/admin/servers';
import { organizationClientCreate, workloadCreate, workloadUpdate } from '#server/admin/workloads';
import { listProviders } from '#server/db/identity-providers';
import { findOrganization } from '#server/db/organizations';
import { findTrustRule } from '#server/db/trust-rules';
import { administered, type Administered } from '#support/administered';

const organization = 'acme';
const issuer = 'https://127.0.0.1:9';
let at: Administered;
beforeEach(async () => {
  at = await administered();
});
afterEach(() => at[Symbol.asyncDispose]());

/** A provider without a client, which only vouches. */
const provider = async () => {
  const { id } = await at.perform(providerCreate, { organization, name: 'Vendor', issuer });
  return { organization, providerId: id };
};
const client = () => at.perform(organizationClientCreate, { organization, name: 'Claude' });
const rule = { organization, name: 'CI', issuer, subject: 'repo:acme/app:*' };

test('provider without a client: no one signs in through it, and it vouches for no one until an owner says so', async () => {
  const place = await provider();
  const acme = (await findOrganization(at.stores.db, organization))?.id ?? '';
  const [stored] = await listProviders(at.stores.db, acme);

  expect(stored).toMatchObject({ clientId: '', sealedSecret: '', assertionsAllowed: false });
  await expect(at.perform(providerCheck, place)).rejects.toMatchObject({ code: 'conflict' });
  const half = { organization, name: 'X', issuer: `${issuer}/x` };
  for (const one of [{ clientId: 'latchkey' }, { clientSecret: 'secret' }]) {
    await expect(at.perform(providerCreate, { ...half, ...one })).rejects.toMatchObject({
      code: 'invalid',
    });
  }
});

test('assertions of a provider: omitted fields keep their value, and servers are named', async () => {
  const place = await provider();
  await at.perform(serverCreate, { organization, name: 'wiki', upstream: { kind: 'demo' } });
  const { clientId } = await client();
  const change = (fields: object) => at.perform(providerUpdateAssertions, { ...place, ...fields });
  const first = await change({
    assertionsAllowed: true,
    assertionClients: [clientId, clientId, 'https://assistant.example/client.json'],
    assertionServers: ['wiki'],
    nativeClientId: 'latchkey',
    keysUrl: `${issuer}/keys`,
  });

  expect(first).toMatchObject({
    assertionsAllowed: true,
    assertionClients: [clientId, 'https://assistant.example/client.json'],
    assertionServers: ['wiki'],
    nativeClientId: 'latchkey',
    keysUrl: `${issuer}/keys`,
  });
  expect(await change({ assertionsAllowed: false })).toEqual({
    ...first,
    assertionsAllowed: false,
  });
  const nothing = { assertionClients: [], assertionServers: [''], nativeClientId: '', keysUrl: '' };
  expect(await change(nothing)).toMatchObject({
    assertionClients: [],
    assertionServers: [],
    nativeClientId: null,
    keysUrl: null,
  });
});

test.each<[string, object]>([
  ['a client that does not exist', { assertionClients: ['client_none'] }],
  ['a server that does not exist', { assertionServers: ['none'] }],
  ['a URL of keys that is not https', { keysUrl: 'http://keys.example' }],
  ['a URL of keys at a private address', { keysUrl: 'https://10.0.0.1/keys' }],
])('assertions of a provider: %s is refused', async (_, fields) => {
  const place = await provider();

  await expect(at.perform(providerUpdateAssertions, { ...place, ...fields })).rejects.toMatchObject(
    { code: 'invalid' },
  );
});

test('client of an organization: it is listed without a server, and its secret rotates', async () => {
  const made = await client();
  const { items } = await at.perform(clientList, { organization });

  expect(made.clientSecret).toMatch(/^secret_/);
  expect(items.find(({ clientId }) => clientId === made.clientId)).toMatchObject({
    server: '',
    authentication: 'secret',
    redirectUris: [],
  });
  const named = { organization, clientId: made.clientId };
  expect((await at.perform(clientRotate, named)).clientSecret).toMatch(/^secret_/);
  expect((await at.perform(clientRevoke, named)).revokedAt).not.toBeNull();
});

test('workload: its client has a rule in place of a secret', async () => {
  const { clientId } = await at.perform(workloadCreate, {
    ...rule,
    claim: 'repository_owner_id=42=x',
  });
  const named = { organization, clientId };

  expect(await at.perform(clientRead, named)).toMatchObject({
    authentication: 'workload',
    trustedIssuer: issuer,
    trustedSubject: 'repo:acme/app:*',
    secretHint: null,
  });
  expect(await findTrustRule(at.stores.db, clientId)).toMatchObject({
    claim: { name: 'repository_owner_id', value: '42=x' },
    longestLifeSeconds: 3600,
    isSingleUse: true,
  });
  await expect(at.perform(clientRotate, named)).rejects.toMatchObject({ code: 'conflict' });
  const { organization: _, name: __, ...changed } = { ...rule, subject: 'other' };
  await at.perform(workloadUpdate, { ...named, ...changed, isSingleUse: 'no' });
  expect(await findTrustRule(at.stores.db, clientId)).toMatchObject({
    subject: 'other',
    claim: undefined,
    isSingleUse: false,
  });
  const other = { organization, clientId: (await client()).clientId };
  await expect(at.perform(workloadUpdate, { ...other, ...changed })).rejects.toMatchObject({
    code: 'conflict',
  });
});

test.each([['repo:acme*'], ['*'], [':*'], ['repo:*:ref'], ['repo:acme/app:**'], ['repo:acme/*/x']])(
  'workload: the subject %s is refused, because it could mean anything',
  async (subject) => {
    await expect(at.perform(workloadCreate, { ...rule, subject })).rejects.toMatchObject({
      code: 'invalid',
    });
  },
);

test('workload: an issuer with its own keys need not be reachable, but keys and a URL of keys are one too many', async () => {
  const jwks = { keys: [{ kty: 'OKP', crv: 'Ed25519', x: 'x' }] };
  const inside = { ...rule, issuer: 'https://kubernetes.default.svc', jwks };

  expect(await at.perform(workloadCreate, inside)).toMatchObject({
    trustedIssuer: 'https://kubernetes.default.svc',
  });
  await expect(
    at.perform(workloadCreate, { ...inside, keysUrl: `${issuer}/keys` }),
  ).rejects.toMatchObject({ code: 'invalid' });
});

test('issuers: one of a provider is none of workloads, and the reverse', async () => {
  const place = await provider();
  await expect(at.perform(workloadCreate, rule)).rejects.toMatchObject({ code: 'invalid' });
  const { clientId } = await at.perform(workloadCreate, { ...rule, issuer: `${issuer}/ci` });
  const second = { organization, name: 'Second', issuer: `${issuer}/ci` };

  await expect(at.perform(providerCreate, second)).rejects.toMatchObject({ code: 'invalid' });
  await at.perform(clientRevoke, { organization, clientId });
  expect((await at.perform(providerCreate, second)).id).toMatch(/^idp_/);
  expect(
    (await at.perform(providerUpdateAssertions, { ...place, assertionsAllowed: true })).id,
  ).toBe(place.providerId);
});

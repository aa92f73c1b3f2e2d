import { afterEach, beforeEach, expect, test } from 'vitest';
import { operator, perform } from '#server/admin/operation';
import { serverUpdate } from '#server/admin/servers';
import { accessRead, accessSet } from '#server/admin/upstream-access';
import { findServer } from '#server/db/servers';
import { findUpstreamAccess } from '#server/db/upstream-access';
import { masterKey } from '#server/secrets/master-key';
import { upstreamSetup } from '#server/upstreams/credentials/setup';
import { administered, type Administered } from '#support/administered';
import { newestEvents } from '#support/newest-events';
import { tokenUpstream, type TokenUpstream } from '#support/token-upstream';

const at = { organization: 'acme', server: 'web' };
let place: Administered;
let upstream: TokenUpstream;

beforeEach(async () => {
  place = await administered();
  upstream = await tokenUpstream();
});
afterEach(async () => {
  await upstream[Symbol.asyncDispose]();
  await place[Symbol.asyncDispose]();
});

/** A server that was started without any `--outbound-host`. */
const guarded = () => ({
  ...place.ports,
  upstreamSetup: upstreamSetup({
    base: 'https://latchkey.example',
    sealing: masterKey(new Uint8Array(32)),
    guard: { allowedHosts: [], resolve: async () => [{ address: '10.0.0.1', family: 4 }] },
  }),
});
const point = (actor = operator) =>
  place.perform(serverUpdate, { ...at, upstream: { kind: 'http', url: upstream.url } }, actor);
const wish = { ...at, kind: 'authorization_code', clientId: 'ours' };

test('76: an administrator reaches no server inside the network, and no such server gets a request', async () => {
  const admin = await place.person('admin');
  await point(admin);

  await expect(perform(accessSet, wish, admin, guarded())).rejects.toMatchObject({
    code: 'invalid',
    fields: [
      {
        field: 'issuer',
        problem: expect.stringMatching(
          /public internet: check the spelling, or ask the operator to allow it: latchkey-server outbound allow/,
        ),
      },
    ],
  });
  expect(upstream.seen).toEqual([]);
});

test('76: the operator’s permission is for that port of a host, and no other', async () => {
  await point();

  // The MCP server is at the port that the operator named, but its authorization server is at another one.
  await expect(perform(accessSet, wish, operator, guarded())).rejects.toMatchObject({
    code: 'invalid',
    fields: [{ problem: expect.stringContaining(`${new URL(upstream.issuer).host} is not on`) }],
  });
  const named = { ...wish, issuer: upstream.issuer };
  await perform(accessSet, named, operator, guarded());
  const kept = (await findServer(place.stores.db, 'acme', 'web'))?.target.upstream;
  const access = await findUpstreamAccess(
    place.stores.db,
    kept?.kind === 'http' ? (kept.accessId ?? '') : '',
  );
  const places = [upstream.url, upstream.issuer].map((url) => new URL(url).host);
  expect(access?.vouchedHosts).toEqual(places);
});

test('an administrator can save again what the operator allowed', async () => {
  await point();
  await perform(accessSet, { ...wish, issuer: upstream.issuer }, operator, guarded());
  const again = { ...wish, scopes: ['read'] };
  const shown = await perform(accessSet, again, await place.person('admin'), guarded());

  expect(shown).toMatchObject({ issuer: upstream.issuer, scopes: ['read'] });
});

test.each([
  [{ kind: 'authorization_code' }, 'clientId'],
  [{ kind: 'client_credentials' }, 'clientId'],
  [{ kind: 'client_credentials', clientId: 'ours' }, 'clientSecret'],
  [{ ...wish, issuer: 'https://as.evil' }, 'issuer'],
  [{ ...wish, scopes: ['two words'] }, 'scopes.0'],
  [{ ...wish, clientSecret: 'line\nbreak' }, 'clientSecret'],
])('%o is refused with the field %s', async (input, field) => {
  await point();

  await expect(place.perform(accessSet, { ...at, ...input })).rejects.toMatchObject({
    code: 'invalid',
    fields: [{ field }],
  });
});

test('an unregistered client is registered once, and saving again keeps it', async () => {
  await using registering = await tokenUpstream({ registers: true });
  await place.perform(serverUpdate, { ...at, upstream: { kind: 'http', url: registering.url } });
  const set = { ...at, kind: 'authorization_code', issuer: registering.issuer };
  const first = await place.perform(accessSet, set);
  const again = await place.perform(accessSet, { ...set, scopes: ['read'] });

  expect(first).toMatchObject({ hasClientSecret: true, issuer: registering.issuer });
  expect(first.clientId).toMatch(/^[\w-]{10,}$/);
  expect(again).toMatchObject({ clientId: first.clientId, hasClientSecret: true });
});

test('a client secret is in no answer, and in no record', async () => {
  await point();
  const clientSecret = 'a secret that somebody typed';
  const set = await place.perform(accessSet, { ...wish, clientSecret });
  const read = await place.perform(accessRead, at);
  const kept = place.stores.connection.prepare('select * from upstream_access').all();
  const audit = await newestEvents(place.stores.db, 100);

  expect(set.hasClientSecret).toBe(true);
  expect(JSON.stringify([set, read, kept, audit])).not.toContain(clientSecret);
});

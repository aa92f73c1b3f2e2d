import { randomUUID } from 'node:crypto';

import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';

import {
  deletePersonKey,
  findPersonKey,
  listPersonKeys,
  notePersonKeyAccepted,
  notePersonKeyProved,
  notePersonKeyRefused,
  replacePersonKey,
  setPersonKeyRule,
  type NewPersonKey,
} from '#server/db/person-keys';
import { insertOrganization } from '#server/db/organizations';
import { insertUser, removeMember } from '#server/db/people';
import { findServer, insertServer, updateServer } from '#server/db/servers';
import type { Db } from '#server/db/transaction';
import { listMissingAccounts } from '#server/db/upstream-connections';
import { onEachDatabase, type TestDatabase } from '#support/databases';

const rule = { header: 'x-key', template: '{key}', label: 'Token', tool: 'whoami' };
const place = 'https://one.example';

await onEachDatabase('people’s own keys', ({ open }) => {
  let stores: TestDatabase;
  let db: Db;
  let organization: string;
  let organizationId: string;
  let serverId: string;
  let targetId: string;
  let eve: string;
  let dana: { readonly targetId: string; readonly userId: string };
  let first: NewPersonKey;
  beforeAll(async () => {
    stores = await open();
    ({ db } = stores);
  });
  afterAll(() => stores[Symbol.asyncDispose]());
  beforeEach(async () => {
    const id = randomUUID();
    organization = `acme-${id}`;
    organizationId = `org_${id}`;
    serverId = `srv_${id}`;
    targetId = `target_${id}`;
    eve = `eve_${id}`;
    dana = { targetId, userId: `dana_${id}` };
    first = {
      ...dana,
      organizationId,
      place,
      sealedKey: 'sealed 1',
      hint: undefined,
      setAt: 10,
      provedAt: 10,
      replaces: undefined,
    };
    await insertOrganization(db, { id: organizationId, name: organization, createdAt: 1 });
    for (const userId of [dana.userId, eve]) {
      const user = { id: userId, email: `${userId}@example.com`, createdAt: 1 };
      await insertUser(db, user, { organizationId, role: 'member' });
    }
    const upstream = { kind: 'http', url: `${place}/mcp` } as const;
    const ids = { id: serverId, targetId, organizationId };
    await insertServer(db, { ...ids, name: 'crm', upstream, createdAt: 1 });
    await setPersonKeyRule(db, targetId, rule);
  });
  const moveTo = (url: string) => updateServer(db, serverId, { upstream: { kind: 'http', url } });

  test('a key is stored for one person, and found for no other', async () => {
    const before = await listMissingAccounts(db, dana.userId, [serverId]);

    expect(await replacePersonKey(db, first)).toBe(true);

    expect(before).toEqual(new Map([[serverId, 'key']]));
    expect(await findPersonKey(db, dana)).toMatchObject({ sealedKey: 'sealed 1', provedAt: 10 });
    expect(await findPersonKey(db, { targetId, userId: eve })).toBeUndefined();
    expect((await listMissingAccounts(db, dana.userId, [serverId])).size).toBe(0);
    expect(await listPersonKeys(db, targetId)).toMatchObject([
      { email: `${dana.userId}@example.com` },
    ]);
  });

  test('of two keys that replace the same one, only the first is stored', async () => {
    await replacePersonKey(db, first);
    const { version: replaces = -1 } = (await findPersonKey(db, dana)) ?? {};

    expect(await replacePersonKey(db, { ...first, sealedKey: 'sealed 2', replaces })).toBe(true);
    expect(await replacePersonKey(db, { ...first, sealedKey: 'sealed 3', replaces })).toBe(false);
    expect(await replacePersonKey(db, first)).toBe(false);
    expect(await findPersonKey(db, dana)).toMatchObject({ sealedKey: 'sealed 2' });
  });

  test('the key before one that is not proved is kept until that is proved', async () => {
    await replacePersonKey(db, first);
    const at = async () => (await findPersonKey(db, dana)) ?? { ...dana, version: -1 };
    const unproved = { ...first, provedAt: undefined, sealedKey: 'sealed 2' };
    await replacePersonKey(db, { ...unproved, replaces: (await at()).version });
    const kept = await at();
    await notePersonKeyRefused(db, kept, 20);
    await replacePersonKey(db, { ...unproved, sealedKey: 'sealed 3', replaces: kept.version });
    const again = await at();
    await notePersonKeyProved(db, again, 30);

    expect(kept).toMatchObject({ sealedPrevious: 'sealed 1' });
    expect(again).toMatchObject({ sealedKey: 'sealed 3', sealedPrevious: 'sealed 1' });
    const proved = await at();
    expect(proved).toMatchObject({ sealedKey: 'sealed 3', provedAt: 30 });
    expect(proved).not.toHaveProperty('sealedPrevious');
  });

  test('a refusal is noted for the key that was refused, not for the one after it', async () => {
    await replacePersonKey(db, first);
    const refused = (await findPersonKey(db, dana)) ?? { ...dana, version: -1 };
    await notePersonKeyRefused(db, refused, 20);
    const seen = await findPersonKey(db, dana);
    const missing = (await listMissingAccounts(db, dana.userId, [serverId])).get(serverId);
    await notePersonKeyAccepted(db, { ...refused, refusedAt: 20 }, 25);
    const accepted = await findPersonKey(db, dana);
    await replacePersonKey(db, { ...first, sealedKey: 'sealed 2', replaces: refused.version });
    await notePersonKeyRefused(db, refused, 30);

    expect([seen?.refusedAt, missing, accepted?.refusedAt]).toEqual([20, 'key', undefined]);
    expect(await findPersonKey(db, dana)).not.toHaveProperty('refusedAt');
  });

  test.each<[string, () => Promise<unknown>]>([
    ['the person leaves', () => removeMember(db, organizationId, dana.userId, 'member')],
    ['the server moves to another origin', () => moveTo('https://two.example/mcp')],
    ['the server moves to another port', () => moveTo('https://one.example:8443/mcp')],
    ['the server requires no key any more', () => setPersonKeyRule(db, targetId, undefined)],
    ['its owner removes it', () => deletePersonKey(db, dana)],
  ])('a key is gone when %s', async (_title, act) => {
    await replacePersonKey(db, first);

    await act();

    const rows = await db
      .selectFrom('person_key')
      .selectAll()
      .where('target_id', '=', targetId)
      .execute();
    expect(rows).toEqual([]);
  });

  test.each<[string, () => Promise<unknown>]>([
    ['the person left', () => removeMember(db, organizationId, dana.userId, 'member')],
    ['the server moved', () => moveTo('https://two.example/mcp')],
    ['the server requires none', () => setPersonKeyRule(db, targetId, undefined)],
  ])('a key that was tried is not stored when %s in the meantime', async (_title, act) => {
    await act();

    expect(await replacePersonKey(db, first)).toBe(false);
  });

  test('another path of the origin keeps the key; another header makes it unproved', async () => {
    await replacePersonKey(db, first);
    await moveTo(`${place}/v2`);
    await setPersonKeyRule(db, targetId, { ...rule, label: 'Key' });
    const kept = await findPersonKey(db, dana);
    await setPersonKeyRule(db, targetId, { ...rule, header: 'x-other' });

    expect(kept).toMatchObject({ provedAt: 10 });
    expect(await findPersonKey(db, dana)).not.toHaveProperty('provedAt');
    const server = await findServer(db, organization, 'crm');
    expect(server?.target.personKey).toMatchObject({ header: 'x-other', label: 'Token' });
  });

  test('only an upstream that headers reach can require a key', async () => {
    await updateServer(db, serverId, { upstream: { kind: 'demo' } });
    const server = await findServer(db, organization, 'crm');

    expect(server?.target.personKey).toBeUndefined();
    expect(await setPersonKeyRule(db, targetId, rule)).toBe(false);
  });
});

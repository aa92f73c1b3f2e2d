import { randomUUID } from 'node:crypto';

import { sql } from 'kysely';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { z } from 'zod';

import { everyRefusal } from '#server/audit/counted-refusals';
import { acceptInvitation, insertInvitation } from '#server/db/invitations';
import { insertDomain, setDomainProof } from '#server/db/organization-domains';
import { findMember, findUserByEmail, insertUser } from '#server/db/people';
import { insertScimToken, listScimTokens } from '#server/db/scim-tokens';
import { updateSettings } from '#server/db/settings';
import type { ScimPorts, ScimRequest } from '#server/scim/context';
import { createGroup, getGroup, listGroups } from '#server/scim/groups';
import { readListQuery } from '#server/scim/listing';
import { createUser, removeUser, getUser, patchUser } from '#server/scim/users';
import { onEachDatabase, type TestDatabase } from '#support/databases';
import { madeAt, makeOrganization } from '#support/made-records';

const now = madeAt + 10_000_000;
const mostMembersRead = 60;
const org = 'org_acme';
const request: ScimRequest = {
  tenant: { organizationId: org, organization: 'acme', tokenId: 'scimtoken_a' },
  location: (path) => `https://mcp.example${path}`,
  address: '127.0.0.1',
  requestId: 'request_a',
};
const everything = { only: undefined, without: new Set<string>() };

await onEachDatabase('requests of a directory', ({ open }) => {
  let database: TestDatabase;
  /** What happens while the domain of an address is looked up. */
  let meanwhile: () => Promise<unknown>;
  let ports: ScimPorts;
  beforeEach(async () => {
    database = await open();
    meanwhile = async () => {};
    const clock = { now: () => now };
    ports = {
      mostMembersRead,
      db: database.db,
      clock,
      refusals: everyRefusal({ db: database.db, clock }),
      providerSetup: {
        async checkDomain() {
          await meanwhile();
          return 'found';
        },
      },
    };
    await makeOrganization(database, 'acme');
    await insertUser(
      database.db,
      { id: 'user_lee', email: 'lee@example.com', createdAt: madeAt },
      { organizationId: org, role: 'owner' },
    );
    await insertDomain(
      database.db,
      {
        organizationId: org,
        domain: 'acme.example',
        verificationToken: 'token',
        createdAt: madeAt,
      },
      10,
    );
    // The proof is old, so the domain is looked up again.
    await setDomainProof(database.db, org, 'acme.example', { by: 'dns', at: madeAt });
    await insertScimToken(
      database.db,
      {
        id: 'scimtoken_a',
        organizationId: org,
        hash: 'hash',
        hint: 'scim_…aaaa',
        createdBy: 'operator',
        createdAt: now,
        expiresAt: undefined,
      },
      { most: 2 },
    );
  });
  afterEach(() => database[Symbol.asyncDispose]());

  const patch = (id: string, path: string, value: unknown) =>
    patchUser(id, { Operations: [{ op: 'replace', path, value }] }, request, ports);
  const isMember = async (email: string) => {
    const user = await findUserByEmail(database.db, email);
    return user !== undefined && (await findMember(database.db, org, user.id)) !== undefined;
  };

  test('user: an address that changes while another one is proved gets no account', async () => {
    const { id } = await createUser(
      { userName: 'dana@acme.example', active: false },
      request,
      ports,
    );
    let times = 0;
    meanwhile = async () => {
      times += 1;
      if (times === 1) await patch(id, 'userName', 'dana@victim.example');
    };
    await patch(id, 'active', true);

    expect(times).toBe(1);
    expect(await findUserByEmail(database.db, 'dana@victim.example')).toBeUndefined();
    expect(await findUserByEmail(database.db, 'dana@acme.example')).toBeUndefined();
    expect(await getUser(id, everything, request, ports)).toMatchObject({
      active: true,
      userName: 'dana@victim.example',
    });
  });

  test('user: another address of the same domain that comes meanwhile gets the account', async () => {
    const { id } = await createUser(
      { userName: 'dana@acme.example', active: false },
      request,
      ports,
    );
    meanwhile = () => patch(id, 'userName', 'dee@acme.example');
    await patch(id, 'active', true);

    expect(await isMember('dee@acme.example')).toBe(true);
    expect(await findUserByEmail(database.db, 'dana@acme.example')).toBeUndefined();
  });

  test('user: no invitation lets in again whom the directory deletes', async () => {
    const { db } = database;
    const user = { userName: 'dana@acme.example', active: true };
    const { id } = await createUser(user, request, ports);
    const userId = (await findUserByEmail(db, 'dana@acme.example'))?.id ?? '';
    const offer = { organizationId: org, role: 'admin', groupIds: [], note: '' } as const;
    const by = { createdBy: 'operator', createdAt: now, expiresAt: now + 60 };
    const email = 'Dana@acme.example';
    await insertInvitation(db, { ...offer, ...by, id: 'invitation_a', tokenHash: 'hash', email });

    const before = await isMember('dana@acme.example');
    await removeUser(id, request, ports);

    expect(before).toBe(true);
    expect(await acceptInvitation(db, 'hash', { id: userId }, now)).toBe('invalid');
  });

  /** Dana, an admin whom the directory manages, creates the directory's token. There is also a token of the operator. */
  async function withToken(): Promise<{ readonly id: string; readonly ofDana: ScimRequest }> {
    const { db } = database;
    const dana = { id: 'user_dana', email: 'dana@acme.example', createdAt: madeAt };
    await insertUser(db, dana, { organizationId: org, role: 'admin' });
    await insertScimToken(
      db,
      {
        id: 'scimtoken_d',
        organizationId: org,
        hash: 'hash of d',
        hint: 'scim_…dddd',
        createdBy: 'user:user_dana',
        createdAt: now,
        expiresAt: undefined,
      },
      { most: 2 },
    );
    const tenant = { ...request.tenant, tokenId: 'scimtoken_d' };
    const { id } = await createUser({ userName: 'dana@acme.example' }, request, ports);
    return { id, ofDana: { ...request, tenant } };
  }
  const deactivate = (id: string, by: ScimRequest) =>
    patchUser(id, { Operations: [{ op: 'replace', path: 'active', value: false }] }, by, ports);
  const tokens = async () =>
    (await listScimTokens(database.db, org))
      .map(({ id, revokedAt, isCreatorGone }) => ({ id, revokedAt, isCreatorGone }))
      .toSorted((one, other) => (one.id < other.id ? -1 : 1));
  const announced = async () => {
    const rows = await database.db
      .selectFrom('audit_event')
      .select(['action', 'target'])
      .where('action', 'like', 'leaver.%')
      .execute();
    return rows.map(({ action, target }) => `${action} ${target}`);
  };

  test('token: is revoked when its creator leaves, even by itself, and the audit log says so', async () => {
    const { id, ofDana } = await withToken();
    await deactivate(id, ofDana);

    expect(await tokens()).toEqual([
      { id: 'scimtoken_a', revokedAt: undefined, isCreatorGone: false },
      { id: 'scimtoken_d', revokedAt: now, isCreatorGone: true },
    ]);
    expect(await announced()).toEqual(['leaver.revoke-token user:user_dana 1 SCIM token']);
    await expect(deactivate(id, ofDana)).rejects.toMatchObject({ status: 401 });
  });

  test('token: works on where the organization keeps what people leave behind, and is announced', async () => {
    await updateSettings(database.db, org, { leaverResources: 'keep' });
    const { id, ofDana } = await withToken();
    await deactivate(id, ofDana);

    expect(await tokens()).toEqual([
      { id: 'scimtoken_a', revokedAt: undefined, isCreatorGone: false },
      { id: 'scimtoken_d', revokedAt: undefined, isCreatorGone: true },
    ]);
    expect(await announced()).toEqual(['leaver.keep user:user_dana 1 SCIM token']);
    await deactivate(id, ofDana);
  });

  test('token: of another organization stays when its creator leaves this one', async () => {
    await makeOrganization(database, 'other');
    const { id, ofDana } = await withToken();
    await database.db
      .updateTable('scim_token')
      .set({ organization_id: 'org_other' })
      .where('id', '=', 'scimtoken_d')
      .execute();
    await deactivate(id, request);

    expect(await announced()).toEqual([]);
    expect(await listScimTokens(database.db, 'org_other')).toMatchObject([
      { id: ofDana.tenant.tokenId, revokedAt: undefined },
    ]);
  });

  /** Creates groups of these sizes. Returns their ids, in order. */
  async function groupsOf(...sizes: readonly number[]): Promise<readonly string[]> {
    const { db } = database;
    const most = Math.max(...sizes);
    for (let from = 0; from < most; from += 500) {
      const users = Array.from({ length: Math.min(500, most - from) }, (_, at) => ({
        id: `su_${String(from + at).padStart(6, '0')}`,
        organization_id: org,
        user_name: `user-${from + at}`,
        user_name_key: `user-${from + at}`,
        attributes: '{}',
        active: 0,
        role: 'member' as const,
        created_at: now,
        changed_at: now,
      }));
      await db.insertInto('scim_user').values(users).execute();
    }
    const made: string[] = [];
    for (const _ of sizes) {
      const { id } = await createGroup({ displayName: randomUUID() }, request, ports);
      made.push(id);
    }
    const ids = made.toSorted((one, other) => (one < other ? -1 : 1));
    for (const [place, id] of ids.entries()) {
      await sql`insert into scim_group_member (group_id, organization_id, scim_user_id)
        select cast(${id} as text), organization_id, id from scim_user
        where organization_id = ${org} order by id limit ${sizes[place] ?? 0}`.execute(db);
    }
    return ids;
  }
  const list = (query: Record<string, string>) => listGroups(readListQuery(query), request, ports);

  test('groups: a page ends before it has too many members, and the next one begins there', async () => {
    const ids = await groupsOf(3, mostMembersRead - 3, 1, mostMembersRead + 5, 2);
    const pages = [];
    for (let startIndex = 1; startIndex <= 5;) {
      const {
        totalResults,
        itemsPerPage,
        Resources: groups,
      } = await list({
        startIndex: String(startIndex),
        count: '500',
      });
      pages.push({ totalResults, startIndex, itemsPerPage, groups: groups.length });
      startIndex += itemsPerPage;
    }
    const short = await list({ count: '500', excludedAttributes: 'members' });
    const filtered = await list({ filter: 'displayName pr', count: '500' });

    expect(pages).toEqual([
      { totalResults: 5, startIndex: 1, itemsPerPage: 2, groups: 2 },
      { totalResults: 5, startIndex: 3, itemsPerPage: 1, groups: 1 },
      { totalResults: 5, startIndex: 4, itemsPerPage: 1, groups: 1 },
      { totalResults: 5, startIndex: 5, itemsPerPage: 1, groups: 1 },
    ]);
    expect(short).toMatchObject({ totalResults: 5, itemsPerPage: 5 });
    expect(filtered).toMatchObject({ totalResults: 5, itemsPerPage: 2 });
    expect(await getGroup(ids[3] ?? '', everything, request, ports)).toHaveProperty(
      'members.length',
      mostMembersRead + 5,
    );
  });

  test('groups: a filter reads only the members that it names, and refuses to read too many', async () => {
    const [first, second] = await groupsOf(mostMembersRead, 3);
    const found = async (filter: string) => {
      const { Resources: groups } = await list({ filter, attributes: 'id' });
      return z
        .array(z.object({ id: z.string() }))
        .parse(groups)
        .map(({ id }) => id);
    };
    const late = 'su_000009';

    expect(await found(`members[value eq "${late}"]`)).toEqual([first]);
    expect(await found(`members.value eq "${late}" and id eq "${first}"`)).toEqual([first]);
    expect(await found(`members ne "${late}"`)).toEqual([second]);
    expect(await found(`not (members eq "${late}" or members eq "su_9")`)).toEqual([second]);
    for (const filter of [
      'members pr',
      'members.display co "user"',
      'members[not (value eq "su_000001")]',
    ]) {
      await expect(found(filter)).rejects.toMatchObject({ status: 400, scimType: 'tooMany' });
      expect(await found(`id eq "${second}" and ${filter}`)).toEqual([second]);
    }
  });
});

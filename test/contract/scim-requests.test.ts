import { afterEach, beforeEach, expect, test } from 'vitest';

import { everyRefusal } from '#server/audit/counted-refusals';
import { insertDomain, setDomainProof } from '#server/db/organization-domains';
import { findMember, findUserByEmail, insertUser } from '#server/db/people';
import { insertScimToken } from '#server/db/scim-tokens';
import type { ScimPorts, ScimRequest } from '#server/scim/context';
import { createUser, getUser, patchUser } from '#server/scim/users';
import { onEachDatabase, type TestDatabase } from '#support/databases';
import { madeAt, makeOrganization } from '#support/made-records';

const now = madeAt + 10_000_000;
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
    // Long ago, so that it is looked up again.
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
});

import { afterAll, beforeAll, expect, test } from 'vitest';

import { operator, perform, type Actor } from '#server/admin/operation';
import { searchFind } from '#server/admin/search';
import { everyRefusal } from '#server/audit/counted-refusals';
import { insertAgent } from '#server/db/agents';
import { insertAuditEvent } from '#server/db/audit';
import { insertClient } from '#server/db/clients';
import { insertGroup } from '#server/db/groups';
import { insertKey } from '#server/db/keys';
import { insertUser } from '#server/db/people';
import { setServerAccess } from '#server/db/server-access';
import { masterKey } from '#server/secrets/master-key';
import { onEachDatabase, type TestDatabase } from '#support/databases';
import { loopbackMail } from '#support/mail-setup';
import { madeAt, makeServer, newClient, newKey } from '#support/made-records';
import { loopbackProviders } from '#support/provider-setup';
import { stillClock } from '#support/still-clock';
import { loopbackSetup } from '#support/upstream-setup';
import { loopbackWebhooks } from '#support/webhook-setup';

await onEachDatabase('search', ({ open }) => {
  let database: TestDatabase;
  const clock = stillClock();

  beforeAll(async () => {
    database = await open();
    const { db } = database;
    await makeServer(database, 'zebra-crm');
    await makeServer(database, 'zebra-secret');
    await makeServer(database, 'zebra-theirs', { organization: 'other' });
    for (const [name, role, organization] of [
      ['zebra-ann', 'admin', 'acme'],
      ['zebra-mia', 'member', 'acme'],
      ['zebra-otto', 'owner', 'other'],
    ] as const) {
      const user = { id: `user_${name}`, email: `${name}@example.com`, createdAt: madeAt };
      await insertUser(db, user, { organizationId: `org_${organization}`, role });
    }
    const dora = { id: 'user_dora', email: 'dora@example.com', createdAt: madeAt };
    await insertUser(db, dora, { organizationId: 'org_acme', role: 'admin' });
    await insertGroup(db, {
      id: 'group_z',
      organizationId: 'org_acme',
      name: 'Zebras',
      createdAt: 1,
    });
    await setServerAccess(db, 'srv_zebra-secret', { access: 'groups', groupIds: ['group_z'] });
    const owner = { type: 'server', serverId: 'srv_zebra-crm' } as const;
    await insertKey(db, newKey({ owner, name: 'zebra 100% key' }));
    await insertClient(db, newClient({ serverId: 'srv_zebra-crm', name: 'Zebra app' }));
    await insertAgent(db, {
      id: 'agent_z',
      organizationId: 'org_acme',
      name: 'zebra-hq',
      createdAt: 1,
    });
    await db
      .insertInto('primitive_definition')
      .values({
        target_id: 'target_zebra-crm',
        kind: 'tool',
        name: 'find_zebra',
        accepted_digest: null,
        accepted_text: null,
        accepted_at: null,
        seen_digest: null,
        seen_text: null,
        changed_at: null,
        listed_at: madeAt,
      })
      .execute();
    const event = { at: madeAt, actor: 'operator', address: undefined, requestId: undefined };
    const done = { ...event, action: 'key.create', outcome: 'done' } as const;
    await insertAuditEvent(db, { ...done, organization: 'acme', target: 'key:zebra' });
    await insertAuditEvent(db, { ...done, organization: 'other', target: 'key:zebra-theirs' });
    const byDora = { ...event, actor: 'user:user_dora', organization: 'acme' } as const;
    await insertAuditEvent(db, {
      ...byDora,
      action: 'key.revoke',
      target: 'key:key_a',
      outcome: 'done',
    });
    await insertAuditEvent(db, {
      ...byDora,
      action: 'consent.client-changed',
      target: 'client_a acme/web',
      outcome: 'refused',
    });
  });
  afterAll(() => database[Symbol.asyncDispose]());

  const as = async (name: string): Promise<Actor> => {
    const userId = `user_${name}`;
    const credential = { type: 'session', id: `session_${name}` } as const;
    const from = { address: '127.0.0.1', requestId: 'r' };
    return { type: 'person', userId, credential, provedAt: madeAt, factors: 1, ...from };
  };
  const found = async (q: string, actor: Actor = operator, organization = 'acme') => {
    const { items } = await perform(searchFind, { organization, q }, actor, {
      ...database,
      clock,
      refusals: everyRefusal({ db: database.db, clock }),
      upstreamSetup: loopbackSetup(),
      webhookSetup: loopbackWebhooks(clock),
      mailSetup: loopbackMail(clock),
      providerSetup: loopbackProviders(clock, new Map()),
      contentKey: masterKey(new Uint8Array(32)),
    });
    return items.map(({ kind, title, path }) => `${kind} ${title} ${path}`);
  };

  test('finds everything of an organization, whatever the case, and nothing of another one', async () => {
    expect(await found('ZEBRA')).toEqual([
      'server zebra-crm /dashboard/acme/servers/zebra-crm',
      'server zebra-secret /dashboard/acme/servers/zebra-secret',
      'person zebra-ann@example.com /dashboard/acme/people/user_zebra-ann',
      'person zebra-mia@example.com /dashboard/acme/people/user_zebra-mia',
      'group Zebras /dashboard/acme/groups/group_z',
      'tool find_zebra /dashboard/acme/servers/zebra-crm/tools/one?name=find_zebra',
      'key zebra 100% key /dashboard/acme/servers/zebra-crm/keys/key_a',
      'client Zebra app /dashboard/acme/servers/zebra-crm/clients/client_a',
      'agent zebra-hq /dashboard/acme/agents/zebra-hq',
      'event The operator created the API key zebra /dashboard/acme/audit?action=key.create&target=key%3Azebra',
    ]);
  });

  test('says of an entry of the audit log what the page of the log says, with the names of what it is about', async () => {
    const eventOf = async (q: string) => (await found(q)).find((one) => one.startsWith('event '));
    const revoked = await eventOf('key_a');
    const refused = await eventOf('consent.client-changed');

    expect(revoked).toContain('dora@example.com revoked the API key zebra 100% key');
    expect(refused).toContain(
      'dora@example.com tried to allow the application Zebra app, which had changed',
    );
  });

  test('takes % and _ as they are', async () => {
    expect(await found('100% k')).toHaveLength(1);
    expect(await found('zebra_')).toEqual([]);
    expect(await found('%%')).toEqual([]);
  });

  test('shows a member only the servers and pages that they may use', async () => {
    expect(await found('zebra', await as('zebra-mia'))).toEqual([
      'server zebra-crm /dashboard/acme/servers/zebra-crm',
    ]);
    expect(await found('settings', await as('zebra-mia'))).toEqual([]);
    expect(await found('settings', await as('zebra-ann'))).toContain(
      'page Mail server /dashboard/acme/settings/mail',
    );
  });

  test('is nothing for a stranger, nor for a text of one character', async () => {
    await expect(found('zebra', await as('zebra-otto'))).rejects.toMatchObject({
      code: 'not_found',
    });
    await expect(found('z')).rejects.toMatchObject({ code: 'invalid' });
  });
});

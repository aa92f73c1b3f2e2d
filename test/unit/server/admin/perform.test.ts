import { expect, test } from 'vitest';
import { z } from 'zod';
import { revokeKey } from '#server/db/keys';
import { AdministrationRefusal } from '#server/admin/refusal';
import { agentCreate, agentList } from '#server/admin/agents';
import { clientCreate } from '#server/admin/clients';
import { keyCreate, keyList, keyRevoke } from '#server/admin/keys';
import { organizationOperation, tokenActor } from '#server/admin/operation';
import { serverCreate, serverRead } from '#server/admin/servers';
import { settingsUpdate } from '#server/admin/organizations';
import { tokenCreate } from '#server/admin/tokens';
import { administered } from '#support/administered';
import { newestEvents } from '#support/newest-events';

const web = { organization: 'acme', server: 'web' };

test('an invalid input is refused with a message for each field by its name, and not recorded', async () => {
  await using at = await administered();
  const before = await newestEvents(at.stores.db, 100);
  const scopes = ['mcp:everything'];
  const refused = at.perform(clientCreate, { ...web, scopes, redirectUris: ['file:///x'], odd: 1 });

  await expect(refused).rejects.toMatchObject({
    code: 'invalid',
    fields: [
      { field: 'name', problem: 'is missing' },
      { field: 'scopes.0', problem: expect.stringMatching(/^must be mcp:tools:read, .* or /) },
      { field: 'redirectUris.0', problem: 'must not use file:' },
      { field: 'odd', problem: 'is unknown' },
    ],
  });
  expect(await newestEvents(at.stores.db, 100)).toEqual(before);
});

test('an unknown organization and one of others are refused with the same message', async () => {
  await using at = await administered();
  const admin = await at.person('admin');
  const words = async (organization: string) =>
    at.perform(serverRead, { organization, server: 'web' }, admin).catch(String);

  expect(await words('other')).toContain('organization not found');
  expect(await words('other')).toEqual(await words('nobody'));
});

test('a request about an organization of others is recorded in the caller’s own organization', async () => {
  await using at = await administered();
  const admin = await at.person('admin');
  await at.perform(serverRead, { organization: 'other', server: 'web' }, admin).catch(() => {});
  const [event] = await newestEvents(at.stores.db, 1);

  expect(event).toMatchObject({
    outcome: 'refused',
    organization: 'acme',
    target: 'organization:other',
  });
});

test('a viewer sees keys and creates none, and the attempt is recorded', async () => {
  await using at = await administered();
  const viewer = await at.person('viewer');

  expect(await at.perform(keyList, { organization: 'acme' }, viewer)).toMatchObject({ total: 0 });
  await expect(at.perform(keyCreate, { ...web, name: 'k' }, viewer)).rejects.toMatchObject({
    code: 'forbidden',
  });
  expect(await newestEvents(at.stores.db, 1)).toEqual([
    {
      at: at.clock.now(),
      actor: viewer.type === 'person' ? `user:${viewer.userId}` : '',
      organization: 'acme',
      action: 'key.create',
      target: undefined,
      address: '192.0.2.1',
      requestId: 'request-1',
      outcome: 'refused',
    },
  ]);
});

test('an operation is recorded with its target, and a query is not', async () => {
  await using at = await administered();
  const { id, key } = await at.perform(keyCreate, { ...web, name: 'laptop' });
  await at.perform(keyList, { organization: 'acme' });
  const events = await newestEvents(at.stores.db, 100);

  expect(events[0]).toMatchObject({
    actor: 'operator',
    action: 'key.create',
    target: `key:${id}`,
    outcome: 'done',
  });
  expect(JSON.stringify(events)).not.toContain(key);
});

test('84: where a second factor is required, a person who proved only one can do nothing, not even with a token', async () => {
  await using at = await administered();
  const once = await at.person('admin');
  if (once.type !== 'person') throw new TypeError('the operator is nobody new');
  const at0 = { provedAt: at.clock.now() };
  const twice = { ...once, factors: 2 } as const;
  const from = { address: '192.0.2.1', requestId: 'request-2' };
  const actorOf = async (by: typeof once | typeof twice) => {
    const { token } = await at.perform(tokenCreate, { name: 't' }, { ...by, ...at0 });
    return tokenActor(token, from, at.ports);
  };
  const actors = [once, twice, await actorOf(once), await actorOf(twice)];
  const reading = () =>
    Promise.all(
      actors.map(async (actor) =>
        at.perform(keyList, { organization: 'acme' }, actor).then(
          () => 'done',
          ({ code }: { code: string }) => code,
        ),
      ),
    );
  const before = await reading();

  await at.perform(settingsUpdate, { organization: 'acme', secondFactorRequired: true });

  expect(before).toEqual(['done', 'done', 'done', 'done']);
  expect(await reading()).toEqual(['forbidden', 'done', 'forbidden', 'done']);
});

test('a role that was removed has no effect on the next operation', async () => {
  await using at = await administered();
  const admin = await at.person('admin');
  await at.perform(keyCreate, { ...web, name: 'k' }, admin);
  await at.stores.db.updateTable('membership').set({ role: 'viewer' }).execute();
  const demoted = at.perform(keyCreate, { ...web, name: 'k' }, admin);
  await expect(demoted).rejects.toMatchObject({ code: 'forbidden' });
  await at.stores.db.deleteFrom('membership').execute();
  const removed = at.perform(keyCreate, { ...web, name: 'k' }, admin);

  await expect(removed).rejects.toMatchObject({ code: 'not_found' });
});

test('the id of a resource in another organization is not found, whoever owns it', async () => {
  await using at = await administered();
  const owner = await at.person('owner');
  const foreign = await at.perform(keyCreate, { organization: 'other', server: 'web', name: 'k' });
  const refused = at.perform(keyRevoke, { organization: 'acme', keyId: foreign.id }, owner);

  await expect(refused).rejects.toMatchObject({ code: 'not_found' });
});

test('a taken name is a conflict', async () => {
  await using at = await administered();
  const again = { organization: 'acme', name: 'web', upstream: { kind: 'demo' } };

  await expect(at.perform(serverCreate, again)).rejects.toMatchObject({ code: 'conflict' });
});

test('a secret that was pasted in place of an id is not recorded', async () => {
  await using at = await administered();
  const { key } = await at.perform(keyCreate, { ...web, name: 'k' });
  await at.perform(keyRevoke, { organization: 'acme', keyId: key }).catch(() => {});
  const [event] = await newestEvents(at.stores.db, 1);

  expect(event).toMatchObject({ outcome: 'refused', target: 'key:mcp_[redacted]' });
});

test('88: an operation that cannot be recorded is not done', async () => {
  await using at = await administered();
  const { id } = await at.perform(keyCreate, { ...web, name: 'laptop' });
  at.stores.connection.exec(
    `create temp trigger full before insert on main.audit_event
     begin select raise(abort, 'no room for the record'); end`,
  );
  const acts = [
    at.perform(keyRevoke, { organization: 'acme', keyId: id }),
    at.perform(keyCreate, { ...web, name: 'phone' }),
    at.perform(agentCreate, { organization: 'acme', name: 'branch' }),
  ];
  const outcomes = await Promise.allSettled(acts);
  at.stores.connection.exec('drop trigger full');

  expect(outcomes.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected']);
  const { items } = await at.perform(keyList, { organization: 'acme' });
  expect(items.map(({ name, revokedAt }) => [name, revokedAt])).toEqual([['laptop', null]]);
  expect(await at.perform(agentList, { organization: 'acme' })).toMatchObject({ total: 0 });
});

test('a refusal in the middle of an operation undoes all of it, but is recorded', async () => {
  await using at = await administered();
  const half = organizationOperation({
    name: 'key.rotate',
    doc: 'Revoke a key, then think better of it',
    permission: 'key.manage',
    input: z.strictObject({ organization: z.string(), keyId: z.string() }),
    output: z.object({}),
    async run({ keyId }, _at, ports) {
      await revokeKey(ports.db, keyId, ports.clock.now());
      throw new AdministrationRefusal('conflict', 'better not');
    },
  });
  const { id: keyId } = await at.perform(keyCreate, { ...web, name: 'laptop' });
  const act = at.perform(half, { organization: 'acme', keyId });

  await expect(act).rejects.toMatchObject({ code: 'conflict' });
  const { items } = await at.perform(keyList, { organization: 'acme' });
  expect(items[0]?.revokedAt).toBeNull();
  const [event] = await newestEvents(at.stores.db, 1);
  expect(event).toMatchObject({ action: 'key.rotate', organization: 'acme', outcome: 'refused' });
});

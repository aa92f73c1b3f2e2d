import { sql } from 'kysely';
import { expect, test } from 'vitest';
import { migrate } from '#server/db/migrate';
import type { Db } from '#server/db/transaction';
import { NodeRegistry } from '#server/nodes/node-registry';
import { SharedPresence } from '#server/nodes/shared-presence';
import { type AgentPresence, offlineAgent } from '#server/upstreams/tunnel/connected-agent';
import { postgres } from '#support/databases';
import { suite } from '#support/suite';

const online: AgentPresence = {
  ...offlineAgent,
  isOnline: true,
  tunnels: 1,
  versions: ['1.0.0'],
  servers: [{ name: 'sales', kind: 'http' }],
  calls: 3,
};
const fail = (error: unknown) => {
  throw error;
};

/** A node whose agents a test sets; it exchanges what it knows when the test says so. */
async function node(db: Db, name: string) {
  const registry = new NodeRegistry(db, { name, version: '1', failed: fail });
  await registry.open();
  const agents = new Map<string, AgentPresence>();
  let revision = 0;
  const presence = new SharedPresence({
    db,
    instance: registry.instance,
    failed: fail,
    tunnels: {
      presenceOf: (id) => agents.get(id) ?? offlineAgent,
      presences: () => agents,
      revision: () => revision,
    },
  });
  return {
    registry,
    presence,
    set(id: string, now: AgentPresence | undefined) {
      revision += 1;
      if (now) agents.set(id, now);
      else agents.delete(id);
    },
    async close() {
      await presence.close();
      await registry.close();
    },
  };
}

async function twoNodes() {
  const stack = new AsyncDisposableStack();
  const database = stack.use(await postgres.openEmpty());
  const db = database.connect();
  await migrate(db);
  await sql`insert into organization (id, name, created_at) values ('org_a', 'acme', 1)`.execute(
    db,
  );
  await sql`insert into agent (id, organization_id, name, created_at) values ('agt_a', 'org_a', 'berlin', 1)`.execute(
    db,
  );
  const [one, two] = [await node(db, 'one'), await node(db, 'two')];
  stack.defer(() => one.close());
  stack.defer(() => two.close());
  return {
    db,
    one,
    two,
    async exchange() {
      await one.presence.run();
      await two.presence.run();
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

await suite('postgres', 'agents of all nodes', () => {
  test('shared presence: an agent of another node is online, with its servers, until it leaves', async () => {
    await using nodes = await twoNodes();
    const { one, two } = nodes;
    one.set('agt_a', online);
    await nodes.exchange();
    const there = two.presence.presenceOf('agt_a');
    const revisions = [two.presence.revision('acme'), two.presence.revision('other')];
    one.set('agt_a', undefined);
    await nodes.exchange();

    expect(there).toEqual(online);
    expect(revisions[0]).toBeGreaterThan(0);
    expect(revisions[1]).toBe(0);
    expect(two.presence.presenceOf('agt_a')).toEqual(offlineAgent);
    expect(two.presence.revision('acme')).toBeGreaterThan(revisions[0] ?? 0);
  });

  test('shared presence: the tunnels and calls of an agent at two nodes are added up', async () => {
    await using nodes = await twoNodes();
    const { one, two } = nodes;
    const lastError = { at: 7, message: 'it fell silent' };
    one.set('agt_a', { ...online, lastError });
    two.set('agt_a', { ...online, versions: ['1.1.0'], calls: 4 });
    await nodes.exchange();

    expect(two.presence.presenceOf('agt_a')).toMatchObject({
      tunnels: 2,
      versions: ['1.0.0', '1.1.0'],
      servers: online.servers,
      calls: 7,
      lastError,
    });
  });

  test('shared presence: what a dead node wrote is not valid any more', async () => {
    await using nodes = await twoNodes();
    const { db, one, two } = nodes;
    one.set('agt_a', online);
    await nodes.exchange();
    const before = two.presence.presenceOf('agt_a').isOnline;
    await sql`update node set seen_at = seen_at - 60 where name = 'one'`.execute(db);
    await two.presence.run();

    expect([before, two.presence.presenceOf('agt_a').isOnline]).toEqual([true, false]);
  });

  test('shared presence: a node whose entry was removed in the meantime writes everything again', async () => {
    await using nodes = await twoNodes();
    const { db, one, two } = nodes;
    one.set('agt_a', online);
    await nodes.exchange();
    await sql`delete from node where name = 'one'`.execute(db);
    await sql`insert into node (instance, name, version, started_at, seen_at, clock_skew_ms)
      select ${one.registry.instance}, 'one', '1', 1, seen_at, 0 from node where name = 'two'`.execute(
      db,
    );
    await two.presence.run();
    const without = two.presence.presenceOf('agt_a').isOnline;
    await nodes.exchange();
    await nodes.exchange();

    expect([without, two.presence.presenceOf('agt_a').isOnline]).toEqual([false, true]);
  });
});

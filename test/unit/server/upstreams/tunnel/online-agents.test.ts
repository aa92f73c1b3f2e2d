import { expect, test } from 'vitest';
import { agentCreate, agentList } from '#server/admin/agents';
import { administer } from '#server/admin/command';
import { findServer } from '#server/db/servers';
import { OnlineAgents } from '#server/upstreams/tunnel/online-agents';
import { offlineAgent } from '#server/upstreams/tunnel/connected-agent';
import { administration } from '#support/administration';

/** An organization with the agents `east` and `west`, and the agents that are connected to a process. */
async function connecting() {
  const admin = await administration();
  await admin.run('organization', 'create', 'acme');
  const { stores, clock } = admin;
  const made = async (name: string) =>
    (await administer(agentCreate, { organization: 'acme', name }, admin)).id;
  const ids = { east: await made('east'), west: await made('west') };
  const process = () => {
    const connected = new Set<string>();
    const servers = [
      { name: 'files', kind: 'stdio' },
      { name: 'web', kind: 'http' },
    ];
    let revision = 0;
    const tunnels = {
      presences: () => new Map([...connected].map((id) => [id, { ...offlineAgent, servers }])),
      revision: () => revision,
    };
    const failed = (error: unknown) => {
      throw error;
    };
    const online = new OnlineAgents({ db: stores.db, clock, tunnels, failed });
    const change = async (act: (ids: Set<string>) => void) => {
      act(connected);
      revision += 1;
      await online.run();
    };
    return { online, change };
  };
  const listed = async () => {
    const input = { organization: 'acme', sort: 'name', order: 'asc', page: 1, limit: 50 } as const;
    const { items } = await administer(agentList, input, admin);
    return items.filter(({ isOnline }) => isOnline).map(({ name }) => name);
  };
  return { ...admin, clock, ids, process, listed };
}

test('online agents: the list of agents follows connections and ends', async () => {
  await using admin = await connecting();
  const { online, change } = admin.process();

  await change((ids) => ids.add(admin.ids.east).add(admin.ids.west));
  const both = await admin.listed();
  await change((ids) => ids.delete(admin.ids.east));
  const one = await admin.listed();
  await online.close();

  expect([both, one, await admin.listed()]).toEqual([['east', 'west'], ['west'], []]);
});

test('online agents: one that stays connected stays online, and one of a killed process does not', async () => {
  await using admin = await connecting();
  const alive = admin.process();
  const killed = admin.process();
  await alive.change((ids) => ids.add(admin.ids.east));
  await killed.change((ids) => ids.add(admin.ids.west));

  for (let seconds = 0; seconds < 80; seconds += 20) {
    admin.clock.advance(20);
    await alive.online.run();
  }

  expect(await admin.listed()).toEqual(['east']);
  await Promise.all([alive.online.close(), killed.online.close()]);
});

test('online agents: an agent that is still connected to another process stays online', async () => {
  await using admin = await connecting();
  const [first, second] = [admin.process(), admin.process()];
  await first.change((ids) => ids.add(admin.ids.east));
  admin.clock.advance(5);
  await second.change((ids) => ids.add(admin.ids.east));

  await first.change((ids) => ids.clear());

  expect(await admin.listed()).toEqual(['east']);
  await Promise.all([first.online.close(), second.online.close()]);
});

test('online agents: a server that an agent runs as a command takes no keys of people, says a command, too', async () => {
  await using admin = await connecting();
  const { online, change } = admin.process();
  for (const name of ['files', 'web'])
    await admin.run('server', 'create', `acme/${name}`, '--agent', 'east');
  await change((ids) => ids.add(admin.ids.east));
  await change((ids) => ids.clear());
  const setKeys = (name: string) =>
    admin.run('server', 'set-access', `acme/${name}`, '--per-person-key');

  await expect(setKeys('files')).rejects.toThrow('a command and a collection cannot');
  await setKeys('web');

  expect((await findServer(admin.stores.db, 'acme', 'web'))?.target.personKey).toBeDefined();
  await online.close();
});

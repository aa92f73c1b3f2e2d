import { setTimeout as pause } from 'node:timers/promises';

import { z } from 'zod';

import { runningServer } from './running-server.ts';
import { scimDirectory } from './scim-directory.ts';

const page = z.object({
  totalResults: z.int(),
  Resources: z.array(z.looseObject({ id: z.string() })),
});

/** The result after a directory has provisioned an organization from nothing. */
export interface Synchronized {
  readonly users: number;
  readonly groups: number;
  /** Members of all groups together. */
  readonly placed: number;
  /** Members of the organization. */
  readonly members: number;
  /** The statuses of all answers, each once, except 429 after which a request was repeated. */
  readonly statuses: readonly number[];
}

/**
 * A directory with this many users and groups provisions an organization as Microsoft Entra does: it looks for each user and creates it,
 * creates groups without members, places members in batches, deactivates every tenth user, and reads everything again in pages.
 */
export async function synchronize(counts: {
  readonly users: number;
  readonly groups: number;
}): Promise<Synchronized> {
  await using server = await runningServer();
  await server.command('organization', 'create', 'acme');
  const { ask } = await scimDirectory(server, 'acme', 'acme.example');
  const statuses = new Set<number>();
  const asked = async (
    method: string,
    path: string,
    body?: unknown,
  ): Promise<Readonly<Record<string, unknown>>> => {
    const answer = await ask(method, path, body);
    // Waits as a directory does that has sent too many requests.
    if (answer.status === 429) {
      await pause(Number(answer.headers.get('retry-after')) * 1000);
      return asked(method, path, body);
    }
    statuses.add(answer.status);
    return answer.json;
  };
  const atOnce = async <Item>(items: readonly Item[], act: (item: Item) => Promise<void>) => {
    for (let from = 0; from < items.length; from += 10) {
      await Promise.all(items.slice(from, from + 10).map(act));
    }
  };
  const names = Array.from({ length: counts.users }, (_, at) => `user-${at}@acme.example`);
  const ids: string[] = [];
  await atOnce(names, async (userName) => {
    const filter = encodeURIComponent(`userName eq "${userName}"`);
    const found = page.parse(await asked('GET', `/Users?filter=${filter}`));
    if (found.totalResults > 0) throw new Error(`${userName} exists already`);
    const made = await asked('POST', '/Users', {
      schemas: ['urn:ietf:params:scim:schemas:core:2.0:User'],
      userName,
      externalId: `x-${userName}`,
      displayName: userName,
      active: true,
      emails: [{ type: 'work', primary: true, value: userName }],
    });
    ids.push(String(made['id']));
  });
  const groups = Array.from({ length: counts.groups }, (_, at) => at);
  await atOnce(groups, async (at) => {
    const made = await asked('POST', '/Groups', {
      displayName: `Group ${at}`,
      externalId: `g-${at}`,
      members: [],
    });
    // Each group has a hundredth of the users, and the first one all of them.
    const members = ids.filter((_, place) => at === 0 || place % 100 === at % 100);
    for (let from = 0; from < members.length; from += 100) {
      const value = members.slice(from, from + 100).map((id) => ({ value: id }));
      await asked('PATCH', `/Groups/${String(made['id'])}`, {
        Operations: [{ op: 'Add', path: 'members', value }],
      });
    }
  });
  await atOnce(
    ids.filter((_, place) => place % 10 === 0),
    async (id) => {
      await asked('PATCH', `/Users/${id}`, {
        Operations: [{ op: 'Replace', path: 'active', value: 'False' }],
      });
    },
  );
  const read = async (path: string) => {
    const all = [];
    for (let startIndex = 1; ; startIndex += 200) {
      const answer = await asked('GET', `${path}?startIndex=${startIndex}&count=200`);
      const { Resources: some, totalResults } = page.parse(answer);
      all.push(...some);
      if (all.length >= totalResults) return all;
    }
  };
  const users = await read('/Users');
  const stored = await read('/Groups');
  const placed = stored.map(({ members }) => z.array(z.unknown()).parse(members).length);
  const stores = await server.openStores();
  const { count } = await stores.db
    .selectFrom('membership')
    .select(({ fn }) => fn.countAll<number | string>().as('count'))
    .executeTakeFirstOrThrow();
  await stores.close();
  return {
    users: new Set(users.map(({ id }) => id)).size,
    groups: stored.length,
    placed: placed.reduce((sum, one) => sum + one, 0),
    members: Number(count),
    statuses: [...statuses].toSorted((one, other) => one - other),
  };
}

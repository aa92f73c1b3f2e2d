import { expect, test } from 'vitest';

import { insertCollection, listCollectionsOf, listNames, noteNames } from '#server/db/collections';
import { findServer, updateServer } from '#server/db/servers';
import type { Db } from '#server/db/transaction';
import { toolDefinition } from '#server/tools/definition';
import type { ToolSelection } from '#server/model/tool-rights';
import { onEachDatabase } from '#support/databases';
import { noteTools } from '#support/listed-tools';
import { madeAt, makeServer } from '#support/made-records';

const aDay = 86_400;
const all: ToolSelection = { type: 'all' };

function tools(...names: string[]) {
  return names.flatMap((name) => toolDefinition({ name, inputSchema: { type: 'object' } }) ?? []);
}

/** `acme/desk`, made of `sales`, which has listed `search`, and `wiki`. */
async function makeDesk(db: Db, selection: ToolSelection = all) {
  await makeServer({ db });
  await makeServer({ db }, 'wiki');
  await noteTools(db, 'target_sales', tools('search', 'order'), madeAt);
  const desk = { id: 'srv_desk', targetId: 'target_desk', organizationId: 'org_acme' };
  await insertCollection(db, { ...desk, name: 'desk', createdAt: madeAt }, [
    { id: 'srv_sales', selection },
    { id: 'srv_wiki', selection: all },
  ]);
}

/** Notes names that `wiki` lists for a caller who sees nothing of `sales`. Returns what is shown, and what waits for a decision. */
async function notedOfWiki(db: Db, ...names: string[]) {
  const lists = [{ kind: 'tool', member: 'srv_wiki', names } as const];
  const shown = await noteNames(db, 'srv_desk', { lists, withApps: [] }, madeAt + aDay);
  const known = await listNames(db, 'srv_desk');
  return {
    shown: shown.map(([, place, name]) => `${['sales', 'wiki'][place]} ${name}`).toSorted(),
    waiting: known.flatMap(({ member, name, state }) =>
      state === 'waiting' ? [`${member} ${name}`] : [],
    ),
  };
}

await onEachDatabase('names of a collection', ({ open }) => {
  test('the collections of a server are listed by name, and those of others are not', async () => {
    await using database = await open();
    const { db } = database;
    await makeDesk(db);
    const front = { id: 'srv_front', targetId: 'target_front', organizationId: 'org_acme' };
    await insertCollection(db, { ...front, name: 'atrium', createdAt: madeAt }, [
      { id: 'srv_sales', selection: all },
    ]);

    expect(await listCollectionsOf(db, 'srv_sales')).toEqual(['atrium', 'desk']);
    expect(await listCollectionsOf(db, 'srv_wiki')).toEqual(['desk']);
    expect(await listCollectionsOf(db, 'srv_desk')).toEqual([]);
  });

  test('a name belongs to the first member that offers it, whatever the caller who lists first may see', async () => {
    await using database = await open();
    const { db } = database;
    await makeDesk(db);

    expect(await notedOfWiki(db, 'search', 'page')).toEqual({
      shown: ['sales search', 'wiki page'],
      waiting: ['srv_wiki search'],
    });
  });

  test.each([
    ['is hidden there', all, async (db: Db) => hide(db, 'search')],
    ['is not chosen', { type: 'chosen', tools: ['order'], prompts: [], resources: [] }, keep],
    ['is no longer listed', all, (db: Db) => relist(db, 'order')],
  ] satisfies [string, ToolSelection, (db: Db) => Promise<unknown>][])(
    'a name that a member before offers, where it %s, is free',
    async (_, selection, change) => {
      await using database = await open();
      const { db } = database;
      await makeDesk(db, selection);
      await change(db);

      expect(await notedOfWiki(db, 'search')).toEqual({ shown: ['wiki search'], waiting: [] });
    },
  );
});

const keep = () => Promise.resolve();

async function hide(db: Db, ...hiddenTools: string[]) {
  const found = await findServer(db, 'acme', 'sales');
  if (!found) throw new Error('no server');
  await updateServer(db, found.id, { hiddenTools });
}

const relist = (db: Db, ...names: string[]) =>
  noteTools(db, 'target_sales', tools(...names), madeAt + aDay);

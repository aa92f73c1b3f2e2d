import { expect, test } from 'vitest';

import {
  findListedTools,
  mostKnownTools,
  noteToolDefinitions,
  listToolDefinitions,
  acceptToolDefinitions,
  type ToolDefinition,
} from '#server/db/tool-definitions';
import { deleteServer, findServer, updateServer } from '#server/db/servers';
import { longestName, toolDefinition } from '#server/tools/tool-definition';
import { madeAt, makeServer } from '#support/made-records';
import { onEachDatabase } from '#support/databases';

const server = 'srv_sales';
const target = 'target_sales';

function tool(name: string, description: string): ToolDefinition {
  const made = toolDefinition({ name, description, inputSchema: { type: 'object' } });
  if (!made) throw new Error('no tool');
  return made;
}

const [echo, liar, other] = [tool('echo', 'Echoes.'), tool('echo', 'Lies.'), tool('add', 'Adds.')];

await onEachDatabase('tool definitions', ({ open }) => {
  test('a tool is accepted when first seen, and a later difference is reported as a change', async () => {
    await using database = await open();
    await makeServer(database);
    const { db } = database;
    const first = await noteToolDefinitions(db, target, [echo, other], madeAt);
    const same = await noteToolDefinitions(db, target, [other, echo], madeAt + 1);
    const changed = await noteToolDefinitions(db, target, [liar], madeAt + 2);
    const again = await noteToolDefinitions(db, target, [liar, other], madeAt + 3);

    const nothing = { rule: 'flag', changed: [], differing: [], beyond: [] };
    expect([first, same, changed, again]).toEqual([
      nothing,
      nothing,
      { ...nothing, changed: [liar], differing: ['echo'] },
      { ...nothing, differing: ['echo'] },
    ]);
    expect(await listToolDefinitions(db, target)).toEqual([
      {
        name: 'add',
        accepted: { digest: other.digest, text: other.text },
        acceptedAt: madeAt,
      },
      {
        name: 'echo',
        accepted: { digest: echo.digest, text: echo.text },
        acceptedAt: madeAt,
        seen: { digest: liar.digest, text: liar.text },
        changedAt: madeAt + 2,
      },
    ]);
  });

  test('a change that is undone is forgotten', async () => {
    await using database = await open();
    await makeServer(database);
    const { db } = database;
    for (const listed of [[echo], [liar], [echo]])
      await noteToolDefinitions(db, target, listed, madeAt);

    const [known] = await listToolDefinitions(db, target);

    expect(known).toEqual({
      name: 'echo',
      accepted: { digest: echo.digest, text: echo.text },
      acceptedAt: madeAt,
    });
  });

  test('changed tools are withheld where that is configured, for every connection, until accepted', async () => {
    await using database = await open();
    await makeServer(database);
    const { db } = database;
    const elsewhere = await database.connectAgain();
    const closed = async () => [
      ...((await findServer(elsewhere.db, 'acme', 'sales'))?.target.offered.withheld.tool ?? []),
    ];
    await noteToolDefinitions(db, target, [echo, other], madeAt);
    await noteToolDefinitions(db, target, [liar], madeAt);
    const whileFlagged = await closed();
    await updateServer(db, server, { changedTools: 'withhold' });
    const afterwards = await closed();
    const stale = await acceptToolDefinitions(
      db,
      target,
      [{ name: 'echo', digest: echo.digest }],
      madeAt,
    );
    const stillClosed = await closed();
    const accepted = await acceptToolDefinitions(db, target, [liar, other], madeAt + 5);

    expect([whileFlagged, afterwards, stillClosed]).toEqual([[], ['echo'], ['echo']]);
    expect([stale, accepted]).toEqual([[], ['echo']]);
    expect(await closed()).toEqual([]);
    expect(await noteToolDefinitions(db, target, [echo], madeAt + 6)).toEqual({
      rule: 'withhold',
      changed: [echo],
      differing: ['echo'],
      beyond: [],
    });
    expect(await closed()).toEqual(['echo']);
    await updateServer(db, server, { changedTools: 'flag' });
    expect(await closed()).toEqual([]);
  });

  test('110: a server has at most the maximum number of tools, others are closed to calls, and all are deleted with it', async () => {
    await using database = await open();
    await makeServer(database);
    const { db } = database;
    const elsewhere = await database.connectAgain();
    const openTools = async () => {
      const names = (await findServer(elsewhere.db, 'acme', 'sales'))?.target.offered.open.tool;
      return names && [...names];
    };
    const many = Array.from({ length: mostKnownTools + 1 }, (_, i) => tool(`t${i}`, 'x'));
    await noteToolDefinitions(db, target, many.slice(0, -2), madeAt);
    const before = await openTools();
    const noted = await noteToolDefinitions(elsewhere.db, target, many, madeAt);
    const kept = await listToolDefinitions(db, target);
    const now = await openTools();
    await deleteServer(db, server);

    expect(before).toBeUndefined();
    expect(noted).toEqual({ rule: 'flag', changed: [], differing: [], beyond: ['t1000'] });
    expect(kept.map(({ name }) => name)).toEqual(now);
    expect(now).toHaveLength(mostKnownTools);
    expect(await listToolDefinitions(db, target)).toEqual([]);
    expect(await noteToolDefinitions(db, target, many.slice(0, 1), madeAt)).toMatchObject({
      rule: undefined,
      beyond: ['t0'],
    });
  });

  test('110: a tool that is no longer listed is forgotten, which opens the server to calls of others again', async () => {
    await using database = await open();
    await makeServer(database);
    const { db } = database;
    const many = Array.from({ length: mostKnownTools - 1 }, (_, i) => tool(`t${i}`, 'x'));
    await noteToolDefinitions(db, target, [echo, ...many], madeAt);
    for (const day of [1, 31, 32]) {
      await noteToolDefinitions(db, target, many, madeAt + day * 86_400);
    }

    expect(await listToolDefinitions(db, target)).toHaveLength(mostKnownTools - 1);
    expect((await findServer(db, 'acme', 'sales'))?.target.offered.open.tool).toBeUndefined();
  });

  test('110: an unlisted tool is remembered for 30 days, while its definition differs, and when it is listed again', async () => {
    await using database = await open();
    await makeServer(database);
    const { db } = database;
    const list = async (day: number, ...tools: ToolDefinition[]) =>
      noteToolDefinitions(db, target, tools, madeAt + day * 86_400);
    const names = async () => (await listToolDefinitions(db, target)).map(({ name }) => name);
    const [kept, changed] = [tool('kept', 'Stays.'), tool('changed', 'Before.')];
    await list(0, kept, echo, other, changed);
    await list(0, tool('changed', 'After.'));
    for (const day of [1, 30, 31]) await list(day, kept);
    const after31 = await names();
    const back = await list(32, liar);

    expect(after31).toEqual(['add', 'changed', 'echo', 'kept']);
    expect(await names()).toEqual(['changed', 'echo', 'kept']);
    expect(back.differing).toEqual(['echo']);
  });

  test('110: no tool is forgotten between the pages of a list, however long ago the last list was', async () => {
    await using database = await open();
    await makeServer(database);
    const { db } = database;
    await noteToolDefinitions(db, target, [echo, other, tool('last', 'Before.')], madeAt);
    const later = madeAt + 100 * 86_400;
    for (const page of [echo, other]) await noteToolDefinitions(db, target, [page], later);

    const { differing } = await noteToolDefinitions(db, target, [tool('last', 'After.')], later);

    expect(differing).toEqual(['last']);
  });

  test('of some names, those that their targets have listed are found', async () => {
    await using database = await open();
    await makeServer(database);
    const { db } = database;
    await noteToolDefinitions(db, target, [echo, other], madeAt);
    const asked = [
      { targetId: target, subject: 'echo' },
      { targetId: target, subject: 'made-up' },
      { targetId: 'target_other', subject: 'add' },
      { targetId: target, subject: 'echo' },
    ];

    expect(await findListedTools(db, asked)).toEqual([{ targetId: target, subject: 'echo' }]);
    expect(await findListedTools(db, [])).toEqual([]);
  });

  test('109: the same changed tool, listed at two processes at once, differs at both', async () => {
    await using database = await open();
    await makeServer(database);
    const { db } = database;
    const elsewhere = await database.connectAgain();
    await noteToolDefinitions(db, target, [echo], madeAt);
    const all = await Promise.all(
      [liar, echo, liar, echo, liar].map((one, at) =>
        noteToolDefinitions(at % 2 === 0 ? db : elsewhere.db, target, [one], madeAt),
      ),
    );

    expect(all.map(({ differing }) => differing.length)).toEqual([1, 0, 1, 0, 1]);
  });

  test('95: a tool whose name is as long as names may be, in any script, is stored and compared', async () => {
    await using database = await open();
    await makeServer(database);
    const { db } = database;
    // Characters that do not compress: an index refuses entries of more than 2,700 bytes.
    const name = Array.from({ length: longestName }, (_, n) =>
      String.fromCharCode(0x4e00 + ((n * 7919) % 20_000)),
    ).join('');
    await noteToolDefinitions(db, target, [tool(name, 'Echoes.')], madeAt);

    expect(await noteToolDefinitions(db, target, [tool(name, 'Lies.')], madeAt)).toMatchObject({
      differing: [name],
    });
  });

  test('of a tool that is listed twice with different definitions, the last one is shown', async () => {
    await using database = await open();
    await makeServer(database);
    const { db } = database;
    const worse = tool('echo', 'Lies more.');
    await noteToolDefinitions(db, target, [echo], madeAt);
    const found = await noteToolDefinitions(db, target, [liar, worse], madeAt);
    const [known] = await listToolDefinitions(db, target);

    expect(found).toMatchObject({ changed: [liar, worse], differing: ['echo', 'echo'] });
    expect(known?.seen).toEqual({ digest: worse.digest, text: worse.text });
  });
});

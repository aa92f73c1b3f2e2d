import { describe, expect, test } from 'vitest';

import {
  acceptDefinitions,
  correctTool,
  countWaitingDefinitions,
  findListedTools,
  listDefinitions,
  rejectDefinitions,
} from '#server/db/definitions';
import { noteDefinitions } from '#server/db/note-definitions';
import { mostKnown } from '#server/db/offered';
import type { Db } from '#server/db/transaction';
import type { Definition, DefinitionKind } from '#server/model/definitions';
import { deleteServer, findServer, updateServer } from '#server/db/servers';
import { longestName, toolDefinition } from '#server/tools/definition';
import { madeAt, makeServer } from '#support/made-records';
import { onEachDatabase } from '#support/databases';
import { listToolDefinitions, noteTools } from '#support/listed-tools';

const server = 'srv_sales';
const target = 'target_sales';

function tool(name: string, description: string): Definition {
  const made = toolDefinition({ name, description, inputSchema: { type: 'object' } });
  if (!made) throw new Error('no tool');
  return made;
}

const [echo, liar, other] = [tool('echo', 'Echoes.'), tool('echo', 'Lies.'), tool('add', 'Adds.')];

const dana = { by: 'user:dana', at: madeAt + 5 };

const nothing = {
  rule: 'flag',
  changed: [],
  added: [],
  differing: [],
  beyond: [],
  withheld: [],
  corrections: new Map(),
};

await onEachDatabase('definitions', ({ open }) => {
  const offeredOf = async (db: Db) => (await findServer(db, 'acme', 'sales'))?.target.offered;
  const list = (db: Db, ...tools: Definition[]) => noteTools(db, target, tools, madeAt);
  const read = (definition: Definition, kind: DefinitionKind = 'tool') => ({
    kind,
    name: definition.name,
    digest: definition.digest,
  });

  test('a tool is accepted when first seen, and a later difference is reported as a change', async () => {
    await using database = await open();
    await makeServer(database);
    const { db } = database;
    const first = await noteTools(db, target, [echo, other], madeAt);
    const same = await noteTools(db, target, [other, echo], madeAt + 1);
    const changed = await noteTools(db, target, [liar], madeAt + 2);
    const again = await noteTools(db, target, [liar, other], madeAt + 3);

    expect([first, same, changed, again]).toMatchObject([
      nothing,
      nothing,
      { ...nothing, changed: [liar], differing: ['echo'] },
      { ...nothing, differing: ['echo'] },
    ]);
    expect(await listToolDefinitions(db, target)).toMatchObject([
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
    for (const listed of [[echo], [liar], [echo]]) await noteTools(db, target, listed, madeAt);

    const [known] = await listToolDefinitions(db, target);

    expect(known).toEqual({
      kind: 'tool',
      name: 'echo',
      accepted: { digest: echo.digest, text: echo.text, annotations: '{}' },
      acceptedAt: madeAt,
      isClosedByRejection: false,
      listedAt: madeAt,
    });
  });

  test('changed tools are withheld where that is configured, for every connection, until accepted', async () => {
    await using database = await open();
    await makeServer(database);
    const { db } = database;
    const elsewhere = await database.connectAgain();
    const closed = async () => [...((await offeredOf(elsewhere.db))?.withheld.tool ?? [])];
    await noteTools(db, target, [echo, other], madeAt);
    await noteTools(db, target, [liar], madeAt);
    const whileFlagged = await closed();
    await updateServer(db, server, { changedTools: 'withhold' });
    const afterwards = await closed();
    const stale = await acceptDefinitions(db, target, [read(echo)], dana);
    const stillClosed = await closed();
    const accepted = await acceptDefinitions(db, target, [read(liar)], dana);

    expect([whileFlagged, afterwards, stillClosed]).toEqual([[], ['echo'], ['echo']]);
    expect([stale, accepted]).toEqual([[], [read(liar)]]);
    expect(await closed()).toEqual([]);
    expect(await noteTools(db, target, [echo], madeAt + 6)).toMatchObject({
      rule: 'withhold',
      changed: [echo],
      differing: ['echo'],
      withheld: ['echo'],
    });
    expect(await closed()).toEqual(['echo']);
    await updateServer(db, server, { changedTools: 'flag' });
    expect(await closed()).toEqual([]);
  });

  test('a new tool of a server whose tools are reviewed first is closed until a person accepts it', async () => {
    await using database = await open();
    await makeServer(database, 'sales', { newTools: 'review' });
    const { db } = database;
    const before = await offeredOf(db);
    const first = await list(db, echo, other);
    const again = await list(db, echo, other);
    const waiting = await offeredOf(db);
    const [, known] = await listToolDefinitions(db, target);
    const accepted = await acceptDefinitions(db, target, [read(echo)], dana);

    expect(before?.open).toEqual({ tool: new Set(), prompt: new Set(), template: new Set() });
    expect([first, again]).toMatchObject([
      { added: [echo, other], withheld: ['echo', 'add'] },
      { added: [], withheld: ['echo', 'add'], differing: [] },
    ]);
    expect(waiting).toMatchObject({
      withheld: { tool: new Set(['add', 'echo']) },
      open: { tool: new Set() },
    });
    expect(known).toMatchObject({ name: 'echo', seen: { text: echo.text }, changedAt: madeAt });
    expect(known?.accepted).toBeUndefined();
    expect(accepted).toEqual([read(echo)]);
    expect(await offeredOf(db)).toMatchObject({
      withheld: { tool: new Set(['add']) },
      open: { tool: new Set(['echo']) },
    });
    expect(await list(db, echo, other)).toMatchObject({ withheld: ['add'] });
  });

  test('a new tool that changes while it waits is accepted only as it was listed last', async () => {
    await using database = await open();
    await makeServer(database, 'sales', { newTools: 'review' });
    const { db } = database;
    await list(db, echo);
    const changed = await list(db, liar);

    expect(changed).toMatchObject({ changed: [], added: [liar], withheld: ['echo'] });
    expect(await acceptDefinitions(db, target, [read(echo)], dana)).toEqual([]);
    expect(await acceptDefinitions(db, target, [read(liar)], dana)).toEqual([read(liar)]);
  });

  test('what waits stays closed when new tools are offered immediately again', async () => {
    await using database = await open();
    await makeServer(database);
    const { db } = database;
    await updateServer(db, server, { newTools: 'review' });
    await list(db, echo);
    await updateServer(db, server, { newTools: 'offer' });
    const after = await list(db, echo, other);

    expect(after.withheld).toEqual(['echo']);
    expect(await offeredOf(db)).toMatchObject({ withheld: { tool: new Set(['echo']) }, open: {} });
  });

  test.each(['flag', 'withhold'] as const)(
    'with changed tools set to %s, a rejected change is closed, and waits again once it changed once more',
    async (changedTools) => {
      await using database = await open();
      await makeServer(database);
      const { db } = database;
      const worse = tool('echo', 'Lies more.');
      await updateServer(db, server, { changedTools });
      await list(db, echo);
      await list(db, liar);
      const rejected = await rejectDefinitions(db, target, [read(liar)], dana);
      const [known] = await listToolDefinitions(db, target);
      const waiting = () => countWaitingDefinitions(db, 'org_acme');
      const whileRejected = [await list(db, liar), await offeredOf(db), await waiting()];
      await list(db, worse);
      const [changed] = await listToolDefinitions(db, target);
      const whileChanged = [(await list(db, worse)).withheld, await waiting()];
      const restored = await list(db, echo);

      expect(rejected).toEqual([read(liar)]);
      expect(known).toMatchObject({
        rejected: { at: dana.at, by: dana.by },
        isClosedByRejection: true,
      });
      expect(whileRejected).toMatchObject([
        { withheld: ['echo'], changed: [] },
        { withheld: { tool: new Set(['echo']) } },
        [],
      ]);
      expect(changed?.rejected).toBeUndefined();
      expect(changed?.isClosedByRejection).toBe(true);
      expect(whileChanged).toEqual([['echo'], [{ serverId: server, name: 'sales', waiting: 1 }]]);
      expect(restored.withheld).toEqual([]);
      expect((await list(db, liar)).withheld).toEqual(['echo']);
      expect(await waiting()).toEqual([]);
    },
  );

  test('a definition that was rejected can be accepted later, and that of a new tool stays closed till then', async () => {
    await using database = await open();
    await makeServer(database, 'sales', { newTools: 'review' });
    const { db } = database;
    await list(db, echo);
    const rejected = [
      await rejectDefinitions(db, target, [read(liar)], dana),
      await rejectDefinitions(db, target, [read(echo)], dana),
    ];
    await updateServer(db, server, { newTools: 'offer' });
    const closed = await list(db, echo);
    await acceptDefinitions(db, target, [read(echo)], dana);
    const [known] = await listToolDefinitions(db, target);

    expect(rejected).toEqual([[], [read(echo)]]);
    expect(closed.withheld).toEqual(['echo']);
    expect(known).toMatchObject({ acceptedBy: dana.by, isClosedByRejection: false });
    expect((await list(db, echo)).withheld).toEqual([]);
  });

  test('a tool that was offered without a review is reviewed when a person accepts what they read', async () => {
    await using database = await open();
    await makeServer(database);
    const { db } = database;
    await list(db, echo, other);
    const accepted = await acceptDefinitions(db, target, [read(echo), read(liar)], dana);

    expect(accepted).toEqual([read(echo)]);
    expect(await listToolDefinitions(db, target)).toMatchObject([
      { name: 'add', acceptedAt: madeAt },
      { name: 'echo', acceptedAt: dana.at, acceptedBy: dana.by },
    ]);
  });

  describe('a tool that only reads', () => {
    const annotated = (annotations: object, description = 'Reads.') => {
      const made = toolDefinition({ name: 'query', description, annotations });
      if (!made) throw new Error('no tool');
      return made;
    };
    const reads = annotated({ readOnlyHint: true });
    const readOnlyOf = async (db: Db) => [...((await offeredOf(db))?.readOnly ?? [])];

    test('what its server says counts once a person has accepted it', async () => {
      await using database = await open();
      await makeServer(database);
      const { db } = database;
      await list(db, reads);
      const before = await readOnlyOf(db);
      await acceptDefinitions(db, target, [read(reads)], dana);

      expect([before, await readOnlyOf(db)]).toEqual([[], ['query']]);
    });

    test.each([
      ['another description', annotated({ readOnlyHint: true }, 'Reads more.'), ['query']],
      ['another hint', annotated({ readOnlyHint: true, openWorldHint: false }), []],
      ['another annotation', annotated({ readOnlyHint: true, title: 'Delete' }), []],
      ['no annotation', annotated({}), []],
    ])(
      'listed with %s counts as such only if its annotations are the accepted ones',
      async (_, changed, expected) => {
        await using database = await open();
        await makeServer(database);
        const { db } = database;
        await list(db, reads);
        await acceptDefinitions(db, target, [read(reads)], dana);
        await correctTool(db, target, 'query', { annotations: { openWorldHint: false } }, dana);
        await list(db, changed);
        const whileChanged = await readOnlyOf(db);
        await list(db, reads);

        expect(whileChanged).toEqual(expected);
        expect(await readOnlyOf(db)).toEqual(['query']);
      },
    );

    test.each([
      ['says so', {}, true, ['query']],
      ['denies it', { readOnlyHint: true }, false, []],
    ])(
      'a correction that %s decides, until its server lists other annotations',
      async (_, annotations, readOnlyHint, expected) => {
        await using database = await open();
        await makeServer(database);
        const { db } = database;
        const listed = annotated(annotations);
        await list(db, listed);
        await acceptDefinitions(db, target, [read(listed)], dana);
        await correctTool(db, target, 'query', { annotations: { readOnlyHint } }, dana);
        const corrected = await readOnlyOf(db);
        await list(db, annotated({ destructiveHint: true }));
        const whileChanged = await readOnlyOf(db);

        expect(corrected).toEqual(expected);
        expect(whileChanged).toEqual([]);
      },
    );

    test('a hint that is no boolean does not count', async () => {
      await using database = await open();
      await makeServer(database);
      const { db } = database;
      const listed = annotated({ readOnlyHint: 'true' });
      await list(db, listed);
      await acceptDefinitions(db, target, [read(listed)], dana);

      expect(await readOnlyOf(db)).toEqual([]);
    });

    test('annotations that were not stored with an accepted definition are completed by the next list', async () => {
      await using database = await open();
      await makeServer(database);
      const { db } = database;
      await list(db, reads);
      await acceptDefinitions(db, target, [read(reads)], dana);
      await db.updateTable('primitive_definition').set({ accepted_annotations: null }).execute();
      await updateServer(db, server, { changedTools: 'withhold' });
      const before = await readOnlyOf(db);
      await list(db, reads);

      expect([before, await readOnlyOf(db)]).toEqual([[], ['query']]);
    });
  });

  test('a correction is returned with every list, and doubtful while other annotations than the accepted ones are listed', async () => {
    await using database = await open();
    await makeServer(database);
    const { db } = database;
    const correction = { title: 'Echo', annotations: { readOnlyHint: true } };
    const annotated = toolDefinition({ name: 'echo', annotations: { openWorldHint: true } });
    if (!annotated) throw new Error('no tool');
    await list(db, echo, other);
    const isKnown = [
      await correctTool(db, target, 'echo', correction, dana),
      await correctTool(db, target, 'unknown', correction, dana),
    ];
    const found = [await list(db, echo), await list(db, liar), await list(db, annotated)];
    const known = await listToolDefinitions(db, target);
    await correctTool(db, target, 'echo', undefined, dana);

    expect(isKnown).toEqual([true, false]);
    expect(found.map(({ corrections }) => corrections.get('echo'))).toEqual([
      { correction, isDoubtful: false },
      { correction, isDoubtful: false },
      { correction, isDoubtful: true },
    ]);
    expect(known[1]?.correction).toEqual({ correction, by: dana.by, at: dana.at });
    expect((await list(db, echo)).corrections.size).toBe(0);
  });

  test('where rules exist, exactly what was accepted is open, once a whole list was read', async () => {
    await using database = await open();
    await makeServer(database);
    const { db } = database;
    const openOf = async () => (await offeredOf(db))?.open;
    const rules = JSON.stringify({ others: {}, named: {} });
    const page = (definitions: Definition[], isLast: boolean) =>
      noteDefinitions(db, target, { kind: 'tool', definitions, isLast }, madeAt);
    await db.updateTable('target').set({ tool_rules: rules }).execute();
    const steps = [];
    await page([echo], false);
    steps.push(await openOf());
    await page([other], true);
    steps.push(await openOf());
    await noteDefinitions(db, target, { kind: 'prompt', definitions: [], isLast: true }, madeAt);
    steps.push(await openOf());

    expect(steps).toEqual([
      {},
      { tool: new Set(['add', 'echo']) },
      { tool: new Set(['add', 'echo']), prompt: new Set() },
    ]);
  });

  test('definitions of all kinds are kept apart, and counted together while they wait', async () => {
    await using database = await open();
    await makeServer(database, 'sales', { newTools: 'review' });
    await makeServer(database, 'quiet');
    const { db } = database;
    const kinds = ['tool', 'prompt', 'template', 'instructions'] as const;
    for (const kind of kinds)
      await noteDefinitions(db, target, { kind, definitions: [echo], isLast: true }, madeAt);
    const accepted = await acceptDefinitions(db, target, [read(echo, 'prompt')], dana);
    const known = await listDefinitions(db, target);

    expect(accepted).toEqual([read(echo, 'prompt')]);
    expect(known.map(({ kind, accepted: one }) => [kind, one !== undefined])).toEqual([
      ['tool', false],
      ['prompt', true],
      ['template', false],
      ['instructions', false],
    ]);
    expect(await countWaitingDefinitions(db, 'org_acme')).toEqual([
      { serverId: server, name: 'sales', waiting: 3 },
    ]);
    expect(await offeredOf(db)).toMatchObject({
      withheld: { tool: new Set(['echo']), template: new Set(['echo']) },
      open: { tool: new Set(), prompt: new Set(['echo']), template: new Set() },
    });
  });

  test('of definitions whose texts are too many to be stored, digests are compared all the same', async () => {
    await using database = await open();
    await makeServer(database);
    const { db } = database;
    const long = (end: string) =>
      Array.from({ length: 1100 }, (_, n) => tool(`t${n}`, `${n} ${'x'.repeat(16_000)}${end}`));
    await list(db, ...long(''));
    const known = await listToolDefinitions(db, target);
    const stored = known.filter(({ accepted }) => accepted && accepted.text.length > 1);
    const changed = await list(db, ...long('!').slice(-5));

    expect(stored.length).toBeGreaterThan(900);
    expect(stored.length).toBeLessThan(1060);
    expect(known).toHaveLength(1100);
    expect(changed.differing).toHaveLength(5);
  });

  test('110: a server has at most the maximum number of tools, others are closed to calls, and all are deleted with it', async () => {
    await using database = await open();
    await makeServer(database);
    const { db } = database;
    const elsewhere = await database.connectAgain();
    const openTools = async () => {
      const opened = (await findServer(elsewhere.db, 'acme', 'sales'))?.target.offered.open.tool;
      return opened && [...opened];
    };
    const many = Array.from({ length: mostKnown + 1 }, (_, i) => tool(`t${i}`, 'x'));
    await noteTools(db, target, many.slice(0, -2), madeAt);
    const before = await openTools();
    const noted = await noteTools(elsewhere.db, target, many, madeAt);
    const kept = await listToolDefinitions(db, target);
    const now = await openTools();
    await deleteServer(db, server);

    expect(before).toBeUndefined();
    expect(noted).toMatchObject({ beyond: ['t10000'], withheld: ['t10000'], basis: undefined });
    expect(kept.map(({ name }) => name)).toEqual(now);
    expect(now).toHaveLength(mostKnown);
    expect(await listToolDefinitions(db, target)).toEqual([]);
    expect(await noteTools(db, target, many.slice(0, 1), madeAt)).toMatchObject({
      rule: undefined,
      beyond: ['t0'],
    });
  });

  test('110: a tool that is no longer listed is forgotten, which opens the server to calls of others again', async () => {
    await using database = await open();
    await makeServer(database);
    const { db } = database;
    const many = Array.from({ length: mostKnown - 1 }, (_, i) => tool(`t${i}`, 'x'));
    await noteTools(db, target, [echo, ...many], madeAt);
    for (const day of [1, 31, 32]) {
      await noteTools(db, target, many, madeAt + day * 86_400);
    }

    expect(await listToolDefinitions(db, target)).toHaveLength(mostKnown - 1);
    expect((await findServer(db, 'acme', 'sales'))?.target.offered.open.tool).toBeUndefined();
  });

  test('110: an unlisted tool is remembered for 30 days, while its definition differs, and when it is listed again', async () => {
    await using database = await open();
    await makeServer(database);
    const { db } = database;
    const listOn = async (day: number, ...tools: Definition[]) =>
      noteTools(db, target, tools, madeAt + day * 86_400);
    const names = async () => (await listToolDefinitions(db, target)).map(({ name }) => name);
    const [kept, changed] = [tool('kept', 'Stays.'), tool('changed', 'Before.')];
    await listOn(0, kept, echo, other, changed);
    await listOn(0, tool('changed', 'After.'));
    for (const day of [1, 30, 31]) await listOn(day, kept);
    const after31 = await names();
    const back = await listOn(32, liar);

    expect(after31).toEqual(['add', 'changed', 'echo', 'kept']);
    expect(await names()).toEqual(['changed', 'echo', 'kept']);
    expect(back.differing).toEqual(['echo']);
  });

  test('110: no tool is forgotten between the pages of a list, however long ago the last list was', async () => {
    await using database = await open();
    await makeServer(database);
    const { db } = database;
    await noteTools(db, target, [echo, other, tool('last', 'Before.')], madeAt);
    const later = madeAt + 100 * 86_400;
    for (const page of [echo, other]) await noteTools(db, target, [page], later);

    const { differing } = await noteTools(db, target, [tool('last', 'After.')], later);

    expect(differing).toEqual(['last']);
  });

  test('of some names, those that their targets have listed are found', async () => {
    await using database = await open();
    await makeServer(database);
    const { db } = database;
    await noteTools(db, target, [echo, other], madeAt);
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
    await noteTools(db, target, [echo], madeAt);
    const all = await Promise.all(
      [liar, echo, liar, echo, liar].map((one, at) =>
        noteTools(at % 2 === 0 ? db : elsewhere.db, target, [one], madeAt),
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
    await noteTools(db, target, [tool(name, 'Echoes.')], madeAt);

    expect(await noteTools(db, target, [tool(name, 'Lies.')], madeAt)).toMatchObject({
      differing: [name],
    });
  });

  test('of a tool that is listed twice with different definitions, the last one is shown', async () => {
    await using database = await open();
    await makeServer(database);
    const { db } = database;
    const worse = tool('echo', 'Lies more.');
    await noteTools(db, target, [echo], madeAt);
    const found = await noteTools(db, target, [liar, worse], madeAt);
    const [known] = await listToolDefinitions(db, target);

    expect(found).toMatchObject({ changed: [liar, worse], differing: ['echo', 'echo'] });
    expect(known?.seen).toMatchObject({ digest: worse.digest, text: worse.text });
  });
});

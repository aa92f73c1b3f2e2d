import { describe, expect, test } from 'vitest';
import { toolDefinition, type ToolDefinition } from '#server/tools/tool-definition';
import { mostKnownTools } from '#server/tools/tool-definition-store';
import { madeAt, makeServer } from '#support/made-records';
import { storeAdapters } from '#support/store-adapters';

const server = 'srv_sales';

function tool(name: string, description: string): ToolDefinition {
  const made = toolDefinition({ name, description, inputSchema: { type: 'object' } });
  if (!made) throw new Error('no tool');
  return made;
}

const [echo, liar, other] = [tool('echo', 'Echoes.'), tool('echo', 'Lies.'), tool('add', 'Adds.')];

describe.each(storeAdapters)('a ToolDefinitionStore in $name', ({ open }) => {
  test('accepts a tool as it is first seen, and says what became another', async () => {
    await using database = await open();
    await makeServer(database);
    const { definitions } = database;
    const first = await definitions.note(server, [echo, other], madeAt);
    const same = await definitions.note(server, [other, echo], madeAt + 1);
    const changed = await definitions.note(server, [liar], madeAt + 2);
    const again = await definitions.note(server, [liar, other], madeAt + 3);

    expect([first, same, changed, again]).toEqual([
      { changed: [], open: ['echo', 'add'] },
      { changed: [], open: ['add', 'echo'] },
      { changed: [liar], open: [] },
      { changed: [], open: ['add'] },
    ]);
    expect(await definitions.of(server)).toEqual([
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

  test('forgets a change that was put back', async () => {
    await using database = await open();
    await makeServer(database);
    const { definitions } = database;
    for (const listed of [[echo], [liar], [echo]]) await definitions.note(server, listed, madeAt);

    const [known] = await definitions.of(server);

    expect(known).toEqual({
      name: 'echo',
      accepted: { digest: echo.digest, text: echo.text },
      acceptedAt: madeAt,
    });
  });

  test('closes changed tools for whoever wants that, at every connection, until they are accepted', async () => {
    await using database = await open();
    await makeServer(database);
    const { definitions, serverDirectory } = database;
    const elsewhere = await database.connectAgain();
    const closed = async () =>
      (await elsewhere.organizations.serverByName('acme', 'sales'))?.withheldTools;
    await definitions.note(server, [echo, other], madeAt);
    await definitions.note(server, [liar], madeAt);
    const whileFlagged = await closed();
    await serverDirectory.update(server, { changedTools: 'withhold' });
    const afterwards = await closed();
    const stale = await definitions.accept(server, [{ name: 'echo', digest: echo.digest }], madeAt);
    const stillClosed = await closed();
    const accepted = await definitions.accept(server, [liar, other], madeAt + 5);

    expect([whileFlagged, afterwards, stillClosed]).toEqual([[], ['echo'], ['echo']]);
    expect([stale, accepted]).toEqual([[], ['echo']]);
    expect(await closed()).toEqual([]);
    expect(await definitions.note(server, [echo], madeAt + 6)).toEqual({
      changed: [echo],
      open: [],
    });
    expect(await closed()).toEqual(['echo']);
    await serverDirectory.update(server, { changedTools: 'flag' });
    expect(await closed()).toEqual([]);
  });

  test('keeps no more tools than it may, and those of one server go with it', async () => {
    await using database = await open();
    await makeServer(database);
    const { definitions, serverDirectory } = database;
    const many = Array.from({ length: mostKnownTools + 1 }, (_, i) => tool(`t${i}`, 'x'));
    await definitions.note(server, many, madeAt);
    const kept = await definitions.of(server);
    await serverDirectory.remove(server);

    expect(kept).toHaveLength(mostKnownTools);
    expect(await definitions.of(server)).toEqual([]);
  });
});

import { expect, test } from 'vitest';

import { changeServerSettings } from '#server/administration/server-settings';
import { administered } from '#support/administered';

const by = { name: 'client:client_a', address: undefined, requestId: undefined };

test('a change of settings that were read before somebody else changed them is refused', async () => {
  await using at = await administered();
  const read = async () => {
    const server = await at.stores.organizations.serverByName('acme', 'web');
    if (!server) throw new Error('not made');
    return server;
  };
  const old = await read();
  await changeServerSettings(old, { hiddenTools: ['drop'] }, by, at.ports);
  const late = changeServerSettings(old, { title: 'Late' }, by, at.ports);

  await expect(late).rejects.toMatchObject({ code: 'conflict' });
  expect(await read()).not.toHaveProperty('title');
  const changed = await changeServerSettings(await read(), { title: 'Now' }, by, at.ports);
  expect(changed).toMatchObject({ title: 'Now', hiddenTools: ['drop'] });
  const events = await at.stores.audit.newest(9);
  expect(events.filter(({ actor }) => actor === by.name)).toHaveLength(2);
});

test('settings of a server that was removed meanwhile are not found', async () => {
  await using at = await administered();
  const server = await at.stores.organizations.serverByName('acme', 'web');
  if (!server) throw new Error('not made');
  await at.stores.serverDirectory.remove(server.id);
  const change = changeServerSettings(server, { title: 'Late' }, by, at.ports);

  await expect(change).rejects.toMatchObject({ code: 'not_found' });
});

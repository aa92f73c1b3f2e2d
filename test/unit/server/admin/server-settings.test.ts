import { expect, test } from 'vitest';
import { deleteServer, findServer } from '#server/db/servers';
import { changeServerSettings, serverSettings } from '#server/admin/server-settings';
import { serverUpdate } from '#server/admin/servers';
import { administered } from '#support/administered';
import { newestEvents } from '#support/newest-events';

const by = {
  name: 'client:client_a',
  address: undefined,
  requestId: undefined,
  admit: () => Promise.resolve(),
};

test('a change based on settings that another person has changed since is refused', async () => {
  await using at = await administered();
  const read = async () => {
    const server = await findServer(at.stores.db, 'acme', 'web');
    if (!server) throw new Error('not made');
    return server;
  };
  const old = await read();
  const only = (expected: string) => (version: string) => version === expected;
  const isOld = only(serverSettings(old).version);
  const change = (given: object, isExpected: (version: string) => boolean) =>
    changeServerSettings(old, given, isExpected, by, at.ports);
  await change({ hiddenTools: ['drop'] }, isOld);
  const late = await change({ title: 'Late' }, isOld);
  const between = await read();
  const changed = await change({ title: 'Now' }, only(serverSettings(between).version));

  expect(late).toBeUndefined();
  expect(between).not.toHaveProperty('title');
  expect(changed).toMatchObject({ title: 'Now', target: { hiddenTools: ['drop'] } });
  const events = await newestEvents(at.stores.db, 9);
  expect(events.filter(({ actor }) => actor === by.name)).toHaveLength(2);
});

test('a credential shows again only the tools that a credential hid', async () => {
  await using at = await administered();
  const read = async () => {
    const server = await findServer(at.stores.db, 'acme', 'web');
    if (!server) throw new Error('not made');
    return server;
  };
  const web = { organization: 'acme', server: 'web' };
  const asCredential = async (hiddenTools: readonly string[]) =>
    changeServerSettings(await read(), { hiddenTools }, () => true, by, at.ports);
  await at.perform(serverUpdate, { ...web, hiddenTools: ['drop'] });
  await asCredential(['drop', 'slow', 'old']);
  await at.perform(serverUpdate, { ...web, hiddenTools: ['drop', 'slow'] });
  await at.perform(serverUpdate, { ...web, hiddenTools: ['drop', 'slow', 'old'] });

  await expect(asCredential(['drop', 'slow'])).rejects.toMatchObject({
    code: 'forbidden',
    fields: [{ field: 'hiddenTools', problem: expect.stringMatching(/^must still contain old, /) }],
  });
  await expect(asCredential([])).rejects.toThrow('must still contain drop, old, ');
  const shown = await asCredential(['old', 'drop']);
  expect(shown?.target.hiddenTools).toEqual(['old', 'drop']);
  await expect(asCredential(['old'])).rejects.toThrow('must still contain drop, ');
});

test('settings of a server that was removed in the meantime are not found', async () => {
  await using at = await administered();
  const server = await findServer(at.stores.db, 'acme', 'web');
  if (!server) throw new Error('not made');
  await deleteServer(at.stores.db, server.id);
  const change = changeServerSettings(server, { title: 'Late' }, () => true, by, at.ports);

  await expect(change).rejects.toMatchObject({ code: 'not_found' });
});

test('settings whose change cannot be recorded stay as they were', async () => {
  await using at = await administered();
  const read = () => findServer(at.stores.db, 'acme', 'web');
  const server = await read();
  if (!server) throw new Error('not made');
  at.stores.connection.exec(`create trigger full before insert on audit_event
    begin select raise(abort, 'the disk is full'); end`);
  const change = changeServerSettings(server, { hiddenTools: ['drop'] }, () => true, by, at.ports);

  await expect(change).rejects.toThrow('the disk is full');
  expect(await read()).toEqual(server);
});

import { expect, test } from 'vitest';
import { findServer } from '#server/db/servers';
import { declareStdioServers } from '#server/app/declare-stdio-servers';
import { newestEvents } from '#support/newest-events';
import { openDatabase } from '#support/open-database';
import { stillClock } from '#support/still-clock';

test('stdio servers: one of the demo is declared at its first start, before the demo exists', async () => {
  await using stores = await openDatabase();
  const ports = { db: stores.db, clock: stillClock(), demo: 'demo' };

  const first = await declareStdioServers(['demo/files', 'demo/other'], ports);
  const again = await declareStdioServers(['demo/files', 'demo/other'], ports);

  expect([first, again]).toEqual([['demo/files', 'demo/other'], []]);
  expect(await findServer(stores.db, 'demo', 'files')).toMatchObject({
    target: {
      id: expect.stringMatching(/^target_[0-9A-Za-z]{16}$/),
      upstream: { kind: 'stdio' },
    },
  });
  expect(await newestEvents(stores.db, 10)).toMatchObject([
    { actor: 'operator', action: 'organization.create', target: 'organization:demo' },
  ]);
});

test('stdio servers: one of an unknown organization is refused, with the command that creates it', async () => {
  await using stores = await openDatabase();
  const ports = { db: stores.db, clock: stillClock(), demo: 'demo' };

  await expect(declareStdioServers(['acme/files'], ports)).rejects.toThrow(
    'latchkey-server organization create acme',
  );
});

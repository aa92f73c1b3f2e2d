import { join } from 'node:path';

import { expect, test } from 'vitest';

import { insertPendingRequest } from '#server/db/consents';
import { restore } from '#server/cli/backup-commands';
import { readOptions } from '#server/config/read-options';
import { databaseFile, isInUse, stageBackup } from '#server/app/stage-backup';
import { openStores } from '#server/app/stores';
import { authorizationServer, pkcePair } from '#support/authorization-server';
import { stillClock } from '#support/still-clock';
import { temporaryFolder } from '#support/temporary-folder';
import { insertUser, listUsers } from '#server/db/people';
import { insertSession } from '#server/db/sessions';
import { insertLink } from '#server/db/one-time';
import { insertInvitation } from '#server/db/invitations';

const words = 'hint: all sessions, one-time links and invitations of the backup were revoked';

test('a restore ends everything that is valid once or for one browser, and says so', async () => {
  await using server = await authorizationServer();
  await using folder = await temporaryFolder('restore');
  const { stores, clock } = server;
  const [now, expiresAt] = [clock.now(), clock.now() + 600];
  const userId = 'olga';
  await insertUser(
    stores.db,
    { id: userId, email: 'olga@example.com', createdAt: now },
    { organizationId: 'org_acme', role: 'owner' },
  );
  const session = { id: 'session_1', tokenHash: 'a', userId, userAgent: '', address: '' };
  const used = { createdAt: now, usedAt: now, expiresAt, factors: 1 } as const;
  await insertSession(stores.db, { ...session, ...used });
  await insertLink(stores.db, 'b', { type: 'reset', userId }, expiresAt);
  const offer = { organizationId: 'org_acme', role: 'admin', groupIds: [], note: '' } as const;
  const by = { createdBy: 'operator', createdAt: now, expiresAt };
  await insertInvitation(stores.db, { id: 'invitation_1', tokenHash: 'c', ...offer, ...by });
  const request = {
    clientId: server.client.id,
    redirectUri: server.redirectUri,
    clientName: 'Assistant',
    isSelfRegistered: false,
    serverPath: 'acme/sales',
    scopes: [],
    state: undefined,
    codeChallenge: pkcePair().challenge,
  };
  const shown = { serverId: 'srv_sales', scopes: [] };
  const asked = { idHash: 'd', sessionId: session.id, userId, shown, expiresAt };
  await insertPendingRequest(stores.db, { ...asked, request }, now);
  await server.code();
  // Without a signing key, the command asks for no master key.
  await stores.db.deleteFrom('signing_key').execute();
  const file = join(folder.path, 'backup');
  stores.backUp(file);
  const dataDir = join(folder.path, 'restored');
  const lines: string[] = [];

  await restore.runOnFolder(readOptions(restore.options, [file, '--data-dir', dataDir], {}), {
    stage: stageBackup,
    isInUse,
    databaseFile,
    connects: async () => true,
    clock: stillClock(),
    out: (line) => lines.push(line),
    readSecret: async () => '',
  });

  const restored = await openStores(dataDir);
  const kept = await Promise.all(
    (
      [
        'authorization_code',
        'authorization_request',
        'browser_session',
        'invitation',
        'one_time_link',
      ] as const
    ).map((table) => restored.db.selectFrom(table).selectAll().execute()),
  );
  const people = await listUsers(restored.db);
  await restored.close();
  expect(kept).toEqual([[], [], [], [], []]);
  expect(people.map(({ user }) => user.id)).toContain(userId);
  expect(lines.join('\n')).toMatch(/^ended_sessions +1$/m);
  expect(lines.join('\n')).toMatch(/^ended_links +2$/m);
  expect(lines.join('\n')).toContain(words);
  expect(lines.join('\n')).toContain('assistants that renewed their access since the backup');
});

test('a restore names a missing file before it looks at the data folder', async () => {
  await using folder = await temporaryFolder('restore');
  const missing = join(folder.path, 'missing');
  const input = readOptions(restore.options, [missing, '--data-dir', folder.path], {});
  const ports = {
    stage: stageBackup,
    isInUse: () => true,
    databaseFile,
    connects: async () => true,
    clock: stillClock(),
    out: () => undefined,
    readSecret: async () => '',
  };

  await expect(restore.runOnFolder(input, ports)).rejects.toThrow(`there is no file ${missing}`);
});

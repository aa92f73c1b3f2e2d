import { putDocumentedClient } from '#server/db/clients';
import { recordDevice } from '#server/db/devices';
import { insertGrant } from '#server/db/grants';
import { insertGroupMember } from '#server/db/groups';
import { findUserByEmail } from '#server/db/people';
import { findServer } from '#server/db/servers';
import { email } from '#support/dashboard-visitor';
import { longName } from './furnished-server.ts';
import type { Scene } from './scene.ts';

const leaver = 'a.very.long.address.of.somebody@subsidiary.example.com';
const day = 24 * 3600;
const scopes = ['mcp:tools:read', 'mcp:tools:execute'] as const;

/** People with devices and applications, one who leaves, and lists of people who are invited. */
export const peopleScenes: Scene = async ({ dana, furnished, album }) => {
  const { page, open, press, fill } = dana;
  const { server, stores, organizationId, clientId, keyId } = furnished;
  const { db } = stores;
  const now = Math.floor(Date.now() / 1000);
  const id = `${server.base}/oauth/clients/latchkey.json`;
  const document = { id, name: 'Latchkey', redirectUris: [], jwks: undefined };
  await putDocumentedClient(db, { ...document, isLatchkeyProxy: true }, now);
  for (const [who, person] of [email, leaver].entries()) {
    const { id: userId = '' } = (await findUserByEmail(db, person)) ?? {};
    await insertGroupMember(db, organizationId, 'group_finance', userId);
    for (const [place, name] of ['danas-macbook', longName].entries()) {
      const claim = { claimHash: `hash ${who} ${place}`, name, system: place === 0 ? 'macOS' : '' };
      const newId = `device_${who}${place}`.padEnd(23, '0');
      const deviceId = await recordDevice(db, userId, { id: newId, ...claim }, now - 9 * day);
      for (const [index, target] of ['library', 'sales', 'warehouse'].entries()) {
        const { id: serverId = '' } = (await findServer(db, 'acme', target)) ?? {};
        await insertGrant(db, {
          id: `grant_${who}${place}${index}`.padEnd(22, '0'),
          userId,
          clientId: id,
          serverId,
          scopes: [...scopes],
          tools: { type: index === 1 ? 'read-only' : 'all' },
          redirectHost: '127.0.0.1',
          assistant: index === 2 ? longName : 'Claude Desktop',
          deviceId,
          authenticated: false,
          createdAt: now - 9 * day,
          expiresAt: now + 80 * day,
        });
      }
    }
    if (person !== leaver) continue;
    for (const [table, owned] of [
      ['api_key', keyId],
      ['oauth_client', clientId],
    ] as const) {
      await db.updateTable(table).set({ owner_id: userId }).where('id', '=', owned).execute();
    }
  }
  for (const [name, path] of Object.entries({
    'applications-devices': '/applications',
    'your-servers-in-use': '/my-servers',
    'groups-members': '/groups',
  })) {
    await open(path);
    await album.take(page, name, { isTable: true });
  }
  await open('/applications');
  await page.locator('main a[data-question][href$="/sign-out"]').first().click();
  await page.getByRole('dialog').waitFor();
  await album.take(page, 'question-device-sign-out');
  await open('/people');
  await page.getByRole('link', { name: leaver }).click();
  await page.getByRole('heading', { name: 'Devices' }).waitFor();
  await album.take(page, 'person-devices', { isTable: true });
  await page.getByRole('link', { name: 'Offboard' }).click();
  await page.getByRole('heading', { name: 'What ends' }).waitFor();
  await album.take(page, 'offboarding');
  await open('/people/invite-several');
  await fill({ People: 'not an address\nanother one' });
  await press('Check list');
  await album.take(page, 'invite-several-wrong');
  const list = `new@example.com\n${email}\nlong.${leaver},admin,Finance\nkim@example.com,viewer`;
  await fill({ People: list });
  await press('Check list');
  await page.getByRole('region', { name: 'People to invite' }).waitFor();
  await album.take(page, 'invite-several-preview');
  await page.locator('main button[name="invite"]').first().click();
  await page.getByRole('heading', { level: 1 }).waitFor();
  await album.take(page, 'invite-several-links');
  await open('/people/invitations');
  await album.take(page, 'invitations-several', { isTable: true });
};

import fastify from 'fastify';
import { expect, test } from 'vitest';
import { keyCreate, keyRevoke } from '#server/admin/keys';
import { serverDisable } from '#server/admin/servers';
import { findServer } from '#server/db/servers';
import { serverSettingsRoutes } from '#server/http/server-settings-routes';
import { administered } from '#support/administered';
import { newestEvents } from '#support/newest-events';

test('server settings: a key of a disabled server is refused, and the audit log names it', async () => {
  await using at = await administered();
  const { stores, ports } = at;
  const where = { organization: 'acme', server: 'web' };
  const scopes = ['mcp:server:read'];
  const { id, key } = await at.perform(keyCreate, { ...where, name: 'k', scopes });
  await at.perform(serverDisable, where);
  const app = fastify();
  serverSettingsRoutes(app, {
    ...ports,
    base: 'https://latchkey.example.com',
    endpointUrl: (path) => path,
    tokens: { issue: () => expect.fail('none'), verify: () => expect.fail('none') },
    administration: ports,
    used: () => {},
    isAllowedOrigin: () => true,
    admissions: stores.admissions,
  });
  const answer = await app.inject({ url: '/api/servers/acme/web', headers: { 'x-api-key': key } });
  await app.close();

  expect(answer.statusCode).toBe(401);
  expect(answer.body).not.toContain(id);
  const [newest] = await newestEvents(stores.db, 1);
  expect(newest).toMatchObject({ actor: `key:${id}`, action: 'settings.suspended' });
});

test('server settings: a key that was revoked after its admission changes nothing, which is recorded', async () => {
  await using at = await administered();
  const { stores, ports } = at;
  const scopes = ['mcp:server:manage'];
  const where = { organization: 'acme', server: 'web' };
  const { id, key } = await at.perform(keyCreate, { ...where, name: 'k', scopes });
  const app = fastify();
  serverSettingsRoutes(app, {
    ...ports,
    base: 'https://latchkey.example.com',
    endpointUrl: (path) => path,
    tokens: { issue: () => expect.fail('none'), verify: () => expect.fail('none') },
    administration: ports,
    used: () => {},
    isAllowedOrigin: () => true,
    admissions: {
      ...stores.admissions,
      async byKey(asked) {
        const found = await stores.admissions.byKey(asked);
        await at.perform(keyRevoke, { organization: 'acme', keyId: id });
        return found;
      },
    },
  });

  const answer = await app.inject({
    method: 'PATCH',
    url: '/api/servers/acme/web',
    headers: { 'x-api-key': key, 'content-type': 'application/json' },
    payload: { title: 'Late' },
  });
  await app.close();

  expect(answer.statusCode).toBe(401);
  expect(await findServer(stores.db, 'acme', 'web')).not.toHaveProperty('title');
  const [newest] = await newestEvents(stores.db, 1);
  expect(newest).toMatchObject({
    actor: `key:${id}`,
    action: 'settings.bad-credential',
    outcome: 'refused',
  });
});

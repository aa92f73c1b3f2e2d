import { z } from 'zod';

import { createKey } from '#credentials/create-key';
import { defaultKeyScopes } from '#credentials/scope';
import { AdministrationRefusal, notFound } from './administration-refusal.ts';
import { fields } from './fields.ts';
import { organizationOperation } from './operation.ts';
import { pageFields, pageOf, pageQuery, shownPage } from './paging.ts';
import { ownKey, showKey, shownKey } from './shown-key.ts';
import { ownServer, serverPath } from './shown-server.ts';

const inOrganization = { organization: fields.organization };
const ofKey = { ...inOrganization, keyId: fields.keyId };
const path = '/organizations/{organization}/keys/{keyId}';
const secondsADay = 86_400;
const mostDays = 99_999;

const sorts = {
  created_at: 'createdAt',
  name: 'name',
  last_used_at: 'lastUsedAt',
  expires_at: 'expiresAt',
} as const;

export const keyList = organizationOperation({
  name: 'key.list',
  doc: 'List the MCP keys of an organization or of one server',
  route: { method: 'GET', path: '/organizations/{organization}/keys' },
  permission: 'key.read',
  input: z.strictObject({
    ...inOrganization,
    server: fields.server.optional(),
    status: z.enum(['active', 'expired', 'revoked']).optional(),
    ...pageFields(['created_at', 'name', 'last_used_at', 'expires_at'], { order: 'desc' }),
  }),
  output: pageOf(shownKey),
  async run(input, { organization }, ports) {
    const { server, status } = input;
    const now = ports.clock.now();
    const serverId = server && (await ownServer(organization.name, server, ports)).id;
    const query = { ...pageQuery(input), sort: sorts[input.sort], status, serverId, now };
    const page = await ports.keyDirectory.page({ ...query, organizationId: organization.id });
    return shownPage(page, input, (key) => showKey(key, now));
  },
});

export const keyCreate = organizationOperation({
  name: 'key.create',
  doc: 'Make an MCP key of a server; it is in this answer and never again',
  route: {
    method: 'POST',
    path: `${serverPath}/keys`,
    made: '/organizations/{organization}/keys/{id}',
  },
  permission: 'key.manage',
  input: z.strictObject({
    ...inOrganization,
    server: fields.server,
    name: fields.name.describe('Whom the key is for'),
    scopes: fields.scopes
      .optional()
      .describe('What it may do; all but mcp:server:manage if not given'),
    expiresInDays: fields.days(1, mostDays).optional().describe('Never, if not given'),
  }),
  output: shownKey
    .extend({ key: z.string().describe('Shown this once') })
    .meta({ id: 'CreatedKey' }),
  target: (_, made) => made && `key:${made.id}`,
  async run({ server, name, scopes, expiresInDays }, { organization }, ports) {
    const { id: serverId } = await ownServer(organization.name, server, ports);
    const now = ports.clock.now();
    const chosen = {
      name,
      owner: { type: 'server', serverId } as const,
      scopes: scopes ?? defaultKeyScopes,
      expiresAt: expiresInDays === undefined ? undefined : now + expiresInDays * secondsADay,
    };
    const { id, key } = await createKey(chosen, ports);
    return { ...showKey(await ownKey(organization.name, id, ports), now), key };
  },
});

export const keyRead = organizationOperation({
  name: 'key.read',
  doc: 'Read a key by its id',
  route: { method: 'GET', path },
  permission: 'key.read',
  input: z.strictObject(ofKey),
  output: shownKey,
  async run({ keyId }, { organization }, ports) {
    return showKey(await ownKey(organization.name, keyId, ports), ports.clock.now());
  },
});

export const keyRevoke = organizationOperation({
  name: 'key.revoke',
  doc: 'Revoke a key of a server, at once and for good',
  route: { method: 'DELETE', path },
  permission: 'key.manage',
  input: z.strictObject(ofKey),
  output: shownKey,
  target: ({ keyId }) => `key:${keyId}`,
  async run({ keyId }, { organization }, ports) {
    const { server } = await ownKey(organization.name, keyId, ports);
    if (server === undefined) throw notFound('key');
    if (!(await ports.keys.revoke(keyId, ports.clock.now()))) {
      throw new AdministrationRefusal('conflict', 'the key was revoked before');
    }
    return showKey(await ownKey(organization.name, keyId, ports), ports.clock.now());
  },
});

import { z } from 'zod';

import { createClient } from '#credentials/create-client';
import { createKeyedClient } from '#credentials/create-keyed-client';
import { AdministrationRefusal, invalidField } from './administration-refusal.ts';
import { fields } from './fields.ts';
import { jwksField } from './jwks-field.ts';
import { organizationOperation } from './operation.ts';
import { pageFields, pageOf, pageQuery, shownPage } from './paging.ts';
import { clientPath, ofClient, ownClient, showClient, shownClient } from './shown-client.ts';
import { ownServer, serverPath } from './shown-server.ts';

const inOrganization = { organization: fields.organization };
const target = ({ clientId }: { clientId: string }) => `client:${clientId}`;
const sorts = { created_at: 'createdAt', name: 'name', last_used_at: 'lastUsedAt' } as const;

export const clientList = organizationOperation({
  name: 'client.list',
  doc: 'List the OAuth clients of an organization or of one server',
  route: { method: 'GET', path: '/organizations/{organization}/clients' },
  permission: 'client.read',
  input: z.strictObject({
    ...inOrganization,
    server: fields.server.optional(),
    status: z.enum(['active', 'revoked']).optional(),
    ...pageFields(['created_at', 'name', 'last_used_at'], { order: 'desc' }),
  }),
  output: pageOf(shownClient),
  async run(input, { organization }, ports) {
    const { server, status } = input;
    const serverId = server && (await ownServer(organization.name, server, ports)).id;
    const query = { ...pageQuery(input), sort: sorts[input.sort], status, serverId };
    const page = await ports.clientDirectory.page({ ...query, organizationId: organization.id });
    return shownPage(page, input, showClient);
  },
});

export const clientCreate = organizationOperation({
  name: 'client.create',
  doc: 'Make an OAuth client of a server; its secret is in this answer and never again',
  route: {
    method: 'POST',
    path: `${serverPath}/clients`,
    made: clientPath,
  },
  permission: 'client.manage',
  input: z.strictObject({
    ...inOrganization,
    server: fields.server,
    name: fields.name.describe('Whom the client is for'),
    scopes: fields.scopes.describe('The most it may ever get'),
    redirectUris: fields.redirectUris
      .default([])
      .describe('Where consent may return to; the port of a loopback host is free'),
    jwks: jwksField.optional().describe('Its public keys (private_key_jwt), instead of a secret'),
  }),
  output: shownClient
    .extend({ clientSecret: z.string().nullable().describe('Shown this once; null with jwks') })
    .meta({ id: 'CreatedClient' }),
  target: (_, made) => made && target(made),
  async run(input, { organization }, ports) {
    const { name, scopes, redirectUris, jwks } = input;
    const server = await ownServer(organization.name, input.server, ports);
    const chosen = { name, serverId: server.id, scopes, redirectUris };
    const made =
      jwks === undefined
        ? await createClient({ ...chosen, jwks: undefined }, ports)
        : {
            ...(await createKeyedClient({ ...chosen, jwks: JSON.stringify(jwks) }, ports)),
            secret: null,
          };
    const client = await ownClient(organization.name, made.id, ports);
    return { ...showClient(client), clientSecret: made.secret };
  },
});

export const clientRead = organizationOperation({
  name: 'client.read',
  doc: 'Read an OAuth client with the hints of its secrets',
  route: { method: 'GET', path: clientPath },
  permission: 'client.read',
  input: z.strictObject(ofClient),
  output: shownClient,
  run: async ({ clientId }, { organization }, ports) =>
    showClient(await ownClient(organization.name, clientId, ports)),
});

export const clientUpdate = organizationOperation({
  name: 'client.update',
  doc: 'Change an OAuth client; what is not given stays, and a scope taken away counts at the next call',
  route: { method: 'PATCH', path: clientPath },
  permission: 'client.manage',
  input: z.strictObject({
    ...ofClient,
    name: fields.name.optional(),
    scopes: fields.scopes.optional(),
    redirectUris: fields.redirectUris.optional(),
    jwks: jwksField.optional().describe('New public keys, for a client that has some'),
  }),
  output: shownClient,
  target,
  async run({ clientId, name, scopes, redirectUris, jwks }, { organization }, ports) {
    const client = await ownClient(organization.name, clientId, ports);
    if (jwks && client.jwks === undefined) {
      throw invalidField('jwks', 'is for a client that was made with keys; this one has secrets');
    }
    const changed = await ports.clientDirectory.update(clientId, {
      ...(name !== undefined && { name }),
      ...(scopes && { scopes }),
      ...(redirectUris && { redirectUris }),
      ...(jwks && { jwks: JSON.stringify(jwks) }),
    });
    if (!changed) throw new AdministrationRefusal('conflict', 'the client is revoked');
    return showClient(await ownClient(organization.name, clientId, ports));
  },
});

export const clientRevoke = organizationOperation({
  name: 'client.revoke',
  doc: 'Revoke an OAuth client and every token that it has, at once and for good',
  route: { method: 'DELETE', path: clientPath },
  permission: 'client.manage',
  input: z.strictObject(ofClient),
  output: shownClient,
  target,
  async run({ clientId }, { organization }, ports) {
    await ownClient(organization.name, clientId, ports);
    if (!(await ports.clients.revoke(clientId, ports.clock.now()))) {
      throw new AdministrationRefusal('conflict', 'the client was revoked before');
    }
    return showClient(await ownClient(organization.name, clientId, ports));
  },
});

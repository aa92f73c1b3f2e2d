import { z } from 'zod';

import { CommandError } from '#config/usage-error';
import {
  insertClientSecret,
  listClientSecrets,
  revokeClientSecret,
  type ClientSecret,
} from '#db/client-secrets';
import { hashSecret, mintSecret, secretHint } from '#secrets/secrets';
import { clientPath, findActiveClient, ofClient, ownClient } from './clients.ts';
import { command, type Command } from './command.ts';
import { fields, readDays, surfaces } from './fields.ts';
import { actorName, organizationOperation, type Operation } from './operation.ts';
import type { Positional } from './positionals.ts';
import { conflict, notFound } from './refusal.ts';
import { viewOf } from './views.ts';

const mostSecrets = 5;
const secondsADay = 86_400;
const path = `${clientPath}/secrets`;

/** The view of a client's secret: on pages, in the API and in commands. */
export const clientSecretViewSchema = z
  .object({
    id: z.string(),
    hint: z.string().describe('Prefix and last four characters'),
    createdAt: fields.at,
    expiresAt: fields.maybeAt,
    lastUsedAt: fields.maybeAt,
    revokedAt: fields.maybeAt,
  })
  .meta({ id: 'ClientSecret' });

/** Converts a stored secret to its view, which contains only its hint. */
const toClientSecretView = (secret: ClientSecret) => viewOf(clientSecretViewSchema, secret);

export const clientSecretList = organizationOperation({
  name: 'client.secrets',
  doc: 'List the secrets of an OAuth client by their hints, newest first',
  route: { method: 'GET', path },
  permission: 'client.read',
  input: z.strictObject(ofClient),
  output: z.object({ items: z.array(clientSecretViewSchema) }),
  async run({ clientId }, { organization }, ports) {
    await ownClient(organization.name, clientId, ports);
    return { items: (await listClientSecrets(ports.db, clientId)).map(toClientSecretView) };
  },
});

export const clientRotate = organizationOperation({
  name: 'client.rotate',
  doc: 'Create another secret for an OAuth client; older secrets work until they are revoked or expire',
  route: { method: 'POST', path, made: path },
  permission: 'client.manage',
  input: z.strictObject({
    ...ofClient,
    expireOthersInDays: fields
      .days(0, 90)
      .optional()
      .describe('When the older secrets expire: 0 is immediately, omitted is never')
      .register(surfaces, {
        option: {
          value: 'DAYS',
          doc: 'in how many days the older secrets expire, up to 90; 0 is immediately (default: never)',
          read: readDays(/^\d{1,2}$/),
        },
      }),
  }),
  output: clientSecretViewSchema
    .extend({ clientId: z.string(), clientSecret: z.string().describe('Shown only once') })
    .meta({ id: 'CreatedClientSecret' }),
  target: ({ clientId }) => `client:${clientId}`,
  async run({ clientId, expireOthersInDays: days }, { organization, actor }, ports) {
    const client = await ownClient(organization.name, clientId, ports);
    if (client.jwks !== undefined) throw conflict('the client authenticates with its own keys');
    if (client.trusts) throw conflict('the client of a workload has no secret');
    if (client.revokedAt !== undefined) throw conflict('the client is revoked');
    const createdAt = ports.clock.now();
    const clientSecret = mintSecret('secret_');
    const hint = secretHint(clientSecret);
    const id = await insertClientSecret(
      ports.db,
      { clientId, hint, createdBy: actorName(actor), createdAt, hash: hashSecret(clientSecret) },
      {
        most: mostSecrets,
        othersExpireAt: days === undefined ? undefined : createdAt + days * secondsADay,
      },
    );
    if (id === undefined) {
      throw conflict(`the client already has ${mostSecrets} active secrets: revoke one first`);
    }
    const unused = { expiresAt: null, lastUsedAt: null, revokedAt: null };
    return { id, clientId, clientSecret, hint, createdAt, ...unused };
  },
});

export const clientSecretRevoke = organizationOperation({
  name: 'client.revoke-secret',
  doc: 'Revoke one secret of an OAuth client immediately; this cannot be undone',
  route: { method: 'DELETE', path: `${path}/{secretId}` },
  permission: 'client.manage',
  input: z.strictObject({ ...ofClient, secretId: z.string().max(100) }),
  output: clientSecretViewSchema,
  target: ({ clientId, secretId }) => `client:${clientId}/${secretId}`,
  async run({ clientId, secretId }, { organization }, ports) {
    await ownClient(organization.name, clientId, ports);
    const find = async () =>
      (await listClientSecrets(ports.db, clientId)).find(({ id }) => id === secretId);
    if (!(await find())) throw notFound('secret');
    if (!(await revokeClientSecret(ports.db, clientId, secretId, ports.clock.now()))) {
      throw conflict('the secret is already revoked');
    }
    const revoked = await find();
    if (!revoked) throw notFound('secret');
    return toClientSecretView(revoked);
  },
});

export const clientSecretOperations: readonly Operation[] = [
  clientSecretList,
  clientRotate,
  clientSecretRevoke,
];

const activeServerClient: Positional = {
  usage: 'ID',
  async read(text, { stores }) {
    const { clientId, organization } = await findActiveClient(text, stores.db);
    if (organization !== undefined) return { clientId, organization };
    throw new CommandError(`the client ${clientId} registered itself and manages its own secret`);
  },
};

export const clientSecretCommands: readonly Command[] = [
  command(clientRotate, {
    words: 'client rotate',
    positionals: [activeServerClient],
    doc: 'create another secret for an OAuth client, shown once; older secrets keep working',
    prints: ['clientId', 'id', 'clientSecret'],
    secret: 'client_secret',
  }),
];

import { z } from 'zod';

import { hashSecret, mintSecret, secretHint } from '#credentials/secret-format';
import { AdministrationRefusal, notFound } from './administration-refusal.ts';
import { fields } from './fields.ts';
import { organizationOperation } from './operation.ts';
import { clientPath, ofClient, ownClient, showSecret, shownSecret } from './shown-client.ts';

const mostSecrets = 5;
const secondsADay = 86_400;
const path = `${clientPath}/secrets`;

export const clientSecretList = organizationOperation({
  name: 'client.secrets',
  doc: 'List the secrets of an OAuth client by their hints, the newest first',
  route: { method: 'GET', path },
  permission: 'client.read',
  input: z.strictObject(ofClient),
  output: z.object({ items: z.array(shownSecret) }),
  async run({ clientId }, { organization }, ports) {
    await ownClient(organization.name, clientId, ports);
    return { items: (await ports.clientSecrets.list(clientId)).map(showSecret) };
  },
});

export const clientRotate = organizationOperation({
  name: 'client.rotate',
  doc: 'Give an OAuth client one more secret; the older ones count until they are revoked or expire',
  route: { method: 'POST', path, made: path },
  permission: 'client.manage',
  input: z.strictObject({
    ...ofClient,
    expireOthersInDays: fields
      .days(0, 90)
      .optional()
      .describe('When the older secrets end by themselves; 0 is at once, not given is never'),
  }),
  output: shownSecret
    .extend({ clientId: z.string(), clientSecret: z.string().describe('Shown this once') })
    .meta({ id: 'CreatedClientSecret' }),
  target: ({ clientId }) => `client:${clientId}`,
  async run({ clientId, expireOthersInDays: days }, { organization }, ports) {
    const client = await ownClient(organization.name, clientId, ports);
    if (client.jwks !== undefined) {
      throw new AdministrationRefusal('conflict', 'the client proves itself by keys of its own');
    }
    if (client.revokedAt !== undefined) {
      throw new AdministrationRefusal('conflict', 'the client is revoked');
    }
    const createdAt = ports.clock.now();
    const clientSecret = mintSecret('secret_');
    const hint = secretHint(clientSecret);
    const id = await ports.clientSecrets.add(
      { clientId, hint, createdAt, hash: hashSecret(clientSecret) },
      {
        most: mostSecrets,
        othersExpireAt: days === undefined ? undefined : createdAt + days * secondsADay,
      },
    );
    if (id === undefined) {
      const why = `the client has ${mostSecrets} secrets that count: revoke one first`;
      throw new AdministrationRefusal('conflict', why);
    }
    const unused = { expiresAt: null, lastUsedAt: null, revokedAt: null };
    return { id, clientId, clientSecret, hint, createdAt, ...unused };
  },
});

export const clientSecretRevoke = organizationOperation({
  name: 'client.revoke-secret',
  doc: 'Revoke one secret of an OAuth client, at once and for good',
  route: { method: 'DELETE', path: `${path}/{secretId}` },
  permission: 'client.manage',
  input: z.strictObject({ ...ofClient, secretId: z.string().max(100) }),
  output: shownSecret,
  target: ({ clientId, secretId }) => `client:${clientId}/${secretId}`,
  async run({ clientId, secretId }, { organization }, ports) {
    await ownClient(organization.name, clientId, ports);
    const find = async () =>
      (await ports.clientSecrets.list(clientId)).find(({ id }) => id === secretId);
    if (!(await find())) throw notFound('secret');
    if (!(await ports.clientSecrets.revoke(clientId, secretId, ports.clock.now()))) {
      throw new AdministrationRefusal('conflict', 'the secret was revoked before');
    }
    const revoked = await find();
    if (!revoked) throw notFound('secret');
    return showSecret(revoked);
  },
});

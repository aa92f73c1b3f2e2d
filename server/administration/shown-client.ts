import { z } from 'zod';

import type { ClientSecret } from '#credentials/client-secret-store';
import type { ListedOAuthClient, OAuthClient } from '#credentials/oauth-client';
import { allScopes } from '#credentials/scope';
import type { AdministrationPorts } from './administration-ports.ts';
import { notFound } from './administration-refusal.ts';
import { fields } from './fields.ts';

/** The fields that name one client, and its path. */
export const ofClient = { organization: fields.organization, clientId: fields.clientId };
export const clientPath = '/organizations/{organization}/clients/{clientId}';

/** An OAuth client as every surface shows it; `secretHint` is of its newest secret. */
export const shownClient = z
  .object({
    clientId: z.string(),
    name: z.string(),
    server: z.string().describe('The name of the server it is for'),
    scopes: z.array(z.enum(allScopes)).describe('The most it may ever get'),
    redirectUris: z.array(z.string()),
    authentication: z
      .enum(['secret', 'keys'])
      .describe('What it proves itself with: a secret, or keys of its own (private_key_jwt)'),
    secretHint: z
      .string()
      .nullable()
      .describe('Prefix and last four characters of the newest secret'),
    createdAt: fields.at,
    lastUsedAt: fields.maybeAt,
    revokedAt: fields.maybeAt,
  })
  .meta({ id: 'Client' });

/** Times in seconds since 1970, `null` for what never was. */
export type ShownClient = z.output<typeof shownClient>;

/** A client as it is kept, as every surface shows it; never its secret or its keys. */
export function showClient(client: ListedOAuthClient): ShownClient {
  return {
    clientId: client.id,
    name: client.name,
    server: client.serverPath?.split('/')[1] ?? '',
    scopes: [...client.scopes],
    redirectUris: [...client.redirectUris],
    authentication: client.jwks === undefined ? 'secret' : 'keys',
    secretHint: client.secretHint ?? null,
    createdAt: client.createdAt,
    lastUsedAt: client.lastUsedAt ?? null,
    revokedAt: client.revokedAt ?? null,
  };
}

/** A secret of a client as every surface shows it. */
export const shownSecret = z
  .object({
    id: z.string(),
    hint: z.string().describe('Prefix and last four characters'),
    createdAt: fields.at,
    expiresAt: fields.maybeAt,
    lastUsedAt: fields.maybeAt,
    revokedAt: fields.maybeAt,
  })
  .meta({ id: 'ClientSecret' });

/** A secret as it is kept, as every surface shows it: its hint, never itself. */
export function showSecret(secret: ClientSecret): z.output<typeof shownSecret> {
  return {
    id: secret.id,
    hint: secret.hint,
    createdAt: secret.createdAt,
    expiresAt: secret.expiresAt ?? null,
    lastUsedAt: secret.lastUsedAt ?? null,
    revokedAt: secret.revokedAt ?? null,
  };
}

/**
 * A client of this organization, its newest secret's hint beside it.
 *
 * @throws {AdministrationRefusal} `not_found`
 */
export async function ownClient(
  organization: string,
  clientId: string,
  { clients, clientSecrets }: Pick<AdministrationPorts, 'clients' | 'clientSecrets'>,
): Promise<OAuthClient & ListedOAuthClient> {
  const client = await clients.byId(clientId);
  if (client?.serverPath?.split('/')[0] !== organization) throw notFound('client');
  const [newest] = await clientSecrets.list(clientId);
  return { ...client, secretHint: newest?.hint };
}

import { z } from 'zod';

import { listClientSecrets } from '#db/client-secrets';
import {
  findClient,
  type ListedOAuthClient,
  type OAuthClient,
  listClients,
  revokeClient,
  updateClient,
} from '#db/clients';
import { findTrustRule } from '#db/trust-rules';
import { allScopes, ordinaryScopes } from '#model/scopes';
import {
  actorName,
  organizationOperation,
  personalOperation,
  type Operation,
  type WithDb,
} from './operation.ts';
import { conflict, forbidden, invalidField, notFound } from './refusal.ts';
import { type IsShown, namesShownOf, type NameReader } from './shown-names.ts';
import { fields, readScope, surfaces, type FormChoice, nameControl } from './fields.ts';
import { clientKeysField, codeAttributes, jwksField } from './client-keys.ts';
import { createProvedClient } from './create-credentials.ts';
import { pageFields, pageOf, pageQuery, toPageView } from './paging.ts';
import { ownServer, serverPath } from './paths.ts';
import {
  maybeToolSelection,
  selectionCell,
  toolSelectionView,
  toSelectionView,
} from './tool-selection.ts';
import { viewOf } from './views.ts';

import { CommandError, UsageError } from '#config/usage-error';
import type { Db } from '#db/transaction';
import { checkRedirectUri } from '#oauth/redirect-uris';
import { partsOf } from '#model/slug';
import { command, listCommand, type Command } from './command.ts';
import {
  organizationIn,
  organizationOrServerArgument,
  serverArgument,
  type Positional,
} from './positionals.ts';

/** The input fields that name a client, and its path in the API. */
export const ofClient = { organization: fields.organization, clientId: fields.clientId };
export const clientPath = '/organizations/{organization}/clients/{clientId}';

/** The view of an OAuth client: on pages, in the API and in commands. `secretHint` belongs to its newest secret. */
export const clientViewSchema = z
  .object({
    clientId: z.string(),
    name: z.string(),
    server: z
      .string()
      .describe('The name of its server; empty for a client of the whole organization'),
    scopes: z.array(z.enum(allScopes)).describe('The scopes that it can request'),
    tools: toolSelectionView,
    redirectUris: z.array(z.string()),
    authentication: z
      .enum(['secret', 'keys', 'workload'])
      .describe(
        'How it authenticates: with a secret, with its own keys (private_key_jwt), or with tokens of a platform (workload)',
      ),
    trustedIssuer: z.string().nullable().describe('Whose tokens prove a workload'),
    trustedSubject: z.string().nullable().describe('Which tokens of that issuer do'),
    secretHint: z
      .string()
      .nullable()
      .describe('Prefix and last four characters of the newest secret'),
    createdAt: fields.at,
    lastUsedAt: fields.maybeAt,
    revokedAt: fields.maybeAt,
    suspended: z.boolean().describe('Whether it is refused because its owner left'),
  })
  .meta({ id: 'Client' });

/** A client that was just created. */
export const createdClientSchema = clientViewSchema.extend({
  clientSecret: z.string().nullable().describe('Shown only once; null for a client with jwks'),
});

/** Times in seconds since 1970, `null` for what has not happened. */
export type ClientView = z.output<typeof clientViewSchema>;

/** Converts a stored client to its view, which contains neither secrets nor keys, and of the chosen tools only those that are shown to its reader. */
export function toClientView(client: ListedOAuthClient, isShown?: IsShown): ClientView {
  return viewOf(clientViewSchema, {
    ...client,
    clientId: client.id,
    server: serverNameOf(client),
    tools: toSelectionView(client.tools, isShown),
    authentication: authenticationOf(client),
    trustedIssuer: client.trusts?.issuer,
    trustedSubject: client.trusts?.subject,
    suspended: client.isSuspended,
  });
}

function serverNameOf(client: Pick<ListedOAuthClient, 'serverPath'>): string {
  return client.serverPath === undefined ? '' : partsOf(client.serverPath).server;
}

/** Finds which names at the servers of these clients are shown to a reader. */
function shownOfClients(
  reader: NameReader,
  organization: string,
  clients: readonly ListedOAuthClient[],
  ports: WithDb,
): Promise<(server: string) => IsShown> {
  const chosen = clients.filter(({ tools }) => tools.type === 'chosen');
  return namesShownOf(reader, organization, chosen.map(serverNameOf), ports);
}

function authenticationOf({ jwks, trusts }: ListedOAuthClient): ClientView['authentication'] {
  if (trusts) return 'workload';
  return jwks === undefined ? 'secret' : 'keys';
}

/**
 * Finds a client of an organization, with its trust rule and the hint of its newest secret.
 *
 * @throws {AdministrationRefusal} `not_found`
 */
export async function ownClient(
  organization: string,
  clientId: string,
  { db }: WithDb,
): Promise<OAuthClient & ListedOAuthClient> {
  const client = await findClient(db, clientId);
  if (client?.organization !== organization) throw notFound('client');
  const [newest] = await listClientSecrets(db, clientId);
  const trusts = await findTrustRule(db, clientId);
  return { ...client, secretHint: newest?.hint, trusts };
}

/** The fields that the forms for creating and for changing a client share. */
export const clientName = fields.name.clone().register(surfaces, {
  control: nameControl('People see it when the application asks for their consent.'),
});
export const clientScopes = fields.scopes.clone().register(surfaces, {
  control: {
    kind: 'scopes',
    label: 'Scopes',
    subject: 'The scopes',
    chosen: ordinaryScopes,
  },
});
const clientRedirectUris = fields.redirectUris.clone().register(surfaces, {
  control: {
    kind: 'textarea',
    label: 'Redirect URIs',
    subject: 'A redirect URI',
    help: 'Where the browser returns after consent, one per line. For a program on the person’s own computer: http://127.0.0.1/callback, which allows any port. Leave it empty for an application that acts on its own behalf.',
    attributes: codeAttributes,
    entries: { between: 'lines', subject: 'The redirect URI' },
  },
});

const proof: FormChoice = {
  name: 'proof',
  label: 'Authentication',
  choices: [
    {
      value: 'secret',
      text: 'Client secret',
      help: 'Latchkey generates the secret and shows it once.',
    },
    {
      value: 'keys',
      text: 'Private key',
      help: 'The application signs with its own private key (private_key_jwt).',
    },
  ],
};

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
  output: pageOf(clientViewSchema),
  async run(input, { organization, ...reader }, ports) {
    const { server, status } = input;
    const serverId = server && (await ownServer(organization.name, server, ports)).id;
    const query = { ...pageQuery(input), sort: sorts[input.sort], status, serverId };
    const page = await listClients(ports.db, { ...query, organizationId: organization.id });
    const shownOf = await shownOfClients(reader, organization.name, page.items, ports);
    return toPageView(page, input, (client) => toClientView(client, shownOf(serverNameOf(client))));
  },
});

export const clientCreate = organizationOperation({
  name: 'client.create',
  doc: 'Create an OAuth client for a server; only this response contains its secret',
  route: {
    method: 'POST',
    path: `${serverPath}/clients`,
    made: clientPath,
  },
  permission: 'client.manage',
  input: z.strictObject({
    ...inOrganization,
    server: fields.server,
    name: clientName
      .describe('The application that uses the client')
      .register(surfaces, { option: { value: 'NAME' } }),
    scopes: clientScopes.describe('The scopes that it can request').register(surfaces, {
      option: {
        name: 'scope',
        value: 'SCOPE',
        repeated: true,
        doc: `a scope that the client can request: ${allScopes.join(', ')}`,
        read: readScope,
      },
    }),
    tools: maybeToolSelection,
    redirectUris: clientRedirectUris
      .default([])
      .describe('Where the browser may return after consent; a loopback host allows any port')
      .register(surfaces, {
        option: {
          name: 'redirect-uri',
          value: 'URI',
          repeated: true,
          doc: 'where the browser may return after consent',
          read: readRedirectUri,
        },
      }),
    jwks: clientKeysField({
      help: 'A JWK set: {"keys":[…]}, public members only.',
      rows: 6,
      optional: false,
      when: { choice: proof, is: ['keys'], part: 'keys' },
    }),
  }),
  output: createdClientSchema.meta({ id: 'CreatedClient' }),
  target: (_, made) => made && target(made),
  async run(input, { organization, actor }, ports) {
    const { name, scopes, tools, redirectUris, jwks } = input;
    const server = await ownServer(organization.name, input.server, ports);
    const createdBy = actorName(actor);
    const chosen = { name, serverId: server.id, scopes, tools, redirectUris, createdBy };
    const made = await createProvedClient({ ...chosen, jwks }, ports);
    const client = await ownClient(organization.name, made.id, ports);
    return { ...toClientView(client), clientSecret: made.secret };
  },
});

export const clientRead = organizationOperation({
  name: 'client.read',
  doc: 'Read an OAuth client with the hints of its secrets',
  route: { method: 'GET', path: clientPath },
  permission: 'client.read',
  input: z.strictObject(ofClient),
  output: clientViewSchema,
  async run({ clientId }, { organization, ...reader }, ports) {
    const client = await ownClient(organization.name, clientId, ports);
    const shownOf = await shownOfClients(reader, organization.name, [client], ports);
    return toClientView(client, shownOf(serverNameOf(client)));
  },
});

export const clientUpdate = organizationOperation({
  name: 'client.update',
  doc: 'Change an OAuth client; omitted fields keep their value, and fewer scopes or tools take effect on the next call',
  route: { method: 'PATCH', path: clientPath },
  permission: 'client.manage',
  input: z.strictObject({
    ...ofClient,
    name: clientName.optional(),
    scopes: clientScopes.optional(),
    tools: maybeToolSelection,
    redirectUris: clientRedirectUris.optional(),
    jwks: jwksField
      .optional()
      .describe('New public keys, for a client that authenticates with keys'),
  }),
  output: clientViewSchema,
  target,
  async run({ clientId, name, scopes, tools, redirectUris, jwks }, { organization }, ports) {
    const client = await ownClient(organization.name, clientId, ports);
    if (jwks && client.jwks === undefined) {
      throw invalidField('jwks', 'applies only to a client with keys; this client has secrets');
    }
    const changed = await updateClient(ports.db, clientId, {
      ...(name !== undefined && { name }),
      ...(scopes && { scopes }),
      ...(tools && { tools }),
      ...(redirectUris && { redirectUris }),
      ...(jwks && { jwks: JSON.stringify(jwks) }),
    });
    if (!changed) throw conflict('the client is revoked');
    return toClientView(await ownClient(organization.name, clientId, ports));
  },
});

export const clientRevoke = organizationOperation({
  name: 'client.revoke',
  doc: 'Revoke an OAuth client and all its tokens immediately; this cannot be undone',
  route: { method: 'DELETE', path: clientPath },
  permission: 'client.manage',
  input: z.strictObject(ofClient),
  output: clientViewSchema,
  target,
  async run({ clientId }, { organization }, ports) {
    await ownClient(organization.name, clientId, ports);
    if (!(await revokeClient(ports.db, clientId, ports.clock.now()))) {
      throw conflict('the client is already revoked');
    }
    return toClientView(await ownClient(organization.name, clientId, ports));
  },
});

const registeredClientRevoke = personalOperation({
  name: 'registered-client.revoke',
  doc: 'Revoke a self-registered client, which belongs to no server; for the operator',
  input: z.strictObject({ clientId: fields.clientId }),
  output: z.object({ clientId: z.string(), revokedAt: fields.at }),
  target: ({ clientId }) => `client:${clientId}`,
  async run({ clientId }, { actor }, { db, clock }) {
    // The client may act for people of all organizations, so no single organization may change or revoke it.
    if (actor.type !== 'operator') throw forbidden('only the operator can do this');
    const client = await findClient(db, clientId);
    if (!client || client.organization !== undefined) throw notFound('client');
    if (!(await revokeClient(db, clientId, clock.now()))) {
      throw conflict('the client is already revoked');
    }
    return { clientId, revokedAt: clock.now() };
  },
});

export const clientOperations: readonly Operation[] = [
  clientList,
  clientCreate,
  clientRead,
  clientUpdate,
  clientRevoke,
  registeredClientRevoke,
];

/** @throws {UsageError} */
function readRedirectUri(uri: string, option: string): string {
  const problem = checkRedirectUri(uri);
  if (problem === undefined) return uri;
  throw new UsageError(`--${option} '${uri}' ${problem}`);
}

/** Finds an active client, and the organization that it belongs to, if any. @throws {CommandError} */
export async function findActiveClient(clientId: string, db: Db) {
  const client = await findClient(db, clientId);
  if (client && client.revokedAt === undefined) {
    return { clientId, organization: client.organization };
  }
  throw new CommandError(
    `there is no active client ${clientId}`,
    'latchkey-server client list ORG',
  );
}

const activeClient: Positional = {
  usage: 'ID',
  async read(text, { stores }) {
    const { clientId, organization } = await findActiveClient(text, stores.db);
    return { clientId, ...(organization !== undefined && { organization }) };
  },
};

const activeOrganizationClient: Positional = {
  usage: 'ID',
  async read(text, { stores }) {
    const { clientId, organization } = await findActiveClient(text, stores.db);
    if (organization !== undefined) return { clientId, organization };
    const hint = 'limit what it may do for one person: latchkey-server consent limit ORG ID';
    throw new CommandError(`the client ${clientId} registered itself`, hint);
  },
};

export const clientCommands: readonly Command[] = [
  command(clientCreate, {
    words: 'client create',
    positionals: [serverArgument],
    doc: 'create an OAuth client; its secret is shown once',
    prints: [
      'clientId',
      'clientSecret',
      'name',
      // The scopes as they were typed.
      { scopes: ({ scopes }, { given }) => given['scopes'] ?? scopes, tools: selectionCell },
    ],
    secret: 'client_secret',
  }),
  listCommand(clientList, {
    words: 'client list',
    positionals: [organizationOrServerArgument],
    doc: 'list OAuth clients',
    always: { order: 'asc' },
    prints: [
      'clientId',
      { client_secret: 'secretHint' },
      'name',
      { server: ({ server }, { given }) => `${organizationIn(given)}/${server || '*'}` },
      'scopes',
      { tools: selectionCell },
      'createdAt',
      'lastUsedAt',
      { expires_at: () => null },
      'revokedAt',
    ],
    empty:
      'no OAuth clients yet: latchkey-server client create ORG/SERVER --name NAME --scope SCOPE',
  }),
  command(clientUpdate, {
    words: 'client update',
    positionals: [activeOrganizationClient],
    doc: 'change which tools an OAuth client can use; takes effect on the next call',
    prints: ['clientId', 'name', 'scopes', { tools: selectionCell }],
  }),
];

const revokeCommand = command(clientRevoke, {
  words: 'client revoke',
  positionals: [activeClient],
  options: [
    { name: 'yes', doc: 'revoke also the client of Latchkey’s own proxy, which ends every proxy' },
  ],
  doc: 'revoke an OAuth client and all its tokens immediately; this cannot be undone, so an application with a client metadata document is refused from then on',
  instead: ({ organization }) => (organization === undefined ? registeredClientRevoke : undefined),
  prints: ['clientId', 'revokedAt'],
});

export const clientRevokeCommand: Command = {
  ...revokeCommand,
  async run(input, ports) {
    const clientId = input.positionals[0] ?? '';
    const client = await findClient(ports.stores.db, clientId);
    // All proxies in all organizations share this client, and it cannot be registered again under the same id.
    if (client?.isLatchkeyProxy && client.revokedAt === undefined && !input.flag('yes')) {
      throw new CommandError(
        'nothing was revoked: this is the client of Latchkey’s own proxy, and revoking it ends every proxy in all organizations for good',
        'to stop the proxies of one organization: latchkey-server organization update ORG --latchkey-proxy no; to revoke it all the same, repeat the command with --yes',
      );
    }
    return revokeCommand.run(input, ports);
  },
};

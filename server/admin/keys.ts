import { z } from 'zod';

import type { EpochSeconds } from '#model/clock';
import { CommandError } from '#config/usage-error';
import {
  findKey,
  findKeyOrigins,
  listKeys,
  revokeKey,
  setKeyTools,
  type NamedApiKey,
} from '#db/keys';
import { createKey } from './create-credentials.ts';
import { allScopes, defaultKeyScopes } from '#model/scopes';
import { command, listCommand, type Command } from './command.ts';
import {
  type Given,
  type Ports,
  type Stores,
  organizationIn,
  organizationOrServerArgument,
  serverArgument,
  type Positional,
} from './positionals.ts';
import {
  expiry,
  expiryChoices,
  fields,
  expiresInField,
  readScope,
  surfaces,
  nameControl,
} from './fields.ts';
import {
  actorName,
  mayDo,
  organizationOperation,
  type AdministrationPorts,
  type Operation,
  type WithDb,
  type WithDbAndClock,
} from './operation.ts';
import { pageFields, pageOf, pageQuery, toPageView } from './paging.ts';
import { agentPath, ofAgent, ownAgent, ownServer, serverPath } from './paths.ts';
import { conflict, notFound } from './refusal.ts';
import { type IsShown, namesShownOf } from './shown-names.ts';
import {
  maybeToolSelection,
  selectionCell,
  toolSelection,
  toolSelectionView,
  toSelectionView,
} from './tool-selection.ts';
import { unlistedHint } from './unlisted-names.ts';
import { viewOf } from './views.ts';

const secondsADay = 86_400;
const mostDays = 99_999;

/** The view of a key: on pages, in the API and in commands. Times in seconds since 1970, `null` for what has not happened. */
export type KeyView = z.output<typeof keyViewSchema>;
export const keyViewSchema = z
  .object({
    id: z.string(),
    name: z.string(),
    server: z.string().nullable().describe('The server that it gives access to'),
    agent: z.string().nullable().describe('The agent that it belongs to'),
    hint: z.string().describe('Prefix and last four characters'),
    scopes: z.array(z.enum(allScopes)),
    tools: toolSelectionView,
    status: z.enum(['active', 'expired', 'revoked']),
    ageDays: z.int().describe('Whole days since it was created'),
    createdAt: fields.at,
    expiresAt: fields.maybeAt,
    lastUsedAt: fields.maybeAt,
    revokedAt: fields.maybeAt,
    suspended: z.boolean().describe('Whether it is refused because its owner left'),
  })
  .meta({ id: 'Key' });

/** A key in a list, with its creator and the rotation that it is part of. */
const listedKeySchema = keyViewSchema
  .extend({
    createdBy: z.string().nullable().describe('The actor that created it, as in the audit log'),
    replaces: z.string().nullable().describe('The hint of the active key that it replaces'),
    replacedBy: z.string().nullable().describe('The hint of the active key that replaces it'),
  })
  .meta({ id: 'ListedKey' });

/** Converts a stored key to its view at `now`, which has only the hint of the key, and only the tool names that its reader is shown. */
export function toKeyView(key: NamedApiKey, now: EpochSeconds, isShown?: IsShown): KeyView {
  const { expiresAt, revokedAt } = key;
  const isExpired = expiresAt !== undefined && expiresAt <= now;
  return viewOf(keyViewSchema, {
    ...key,
    tools: toSelectionView(key.tools, isShown),
    status: revokedAt !== undefined ? 'revoked' : isExpired ? 'expired' : 'active',
    ageDays: Math.max(0, Math.floor((now - key.createdAt) / secondsADay)),
    suspended: key.isSuspended,
  });
}

/** Finds a key of an organization. @throws {AdministrationRefusal} `not_found` */
async function ownKey(organization: string, keyId: string, { db }: WithDb): Promise<NamedApiKey> {
  const key = await findKey(db, keyId);
  if (key?.organization === organization) return key;
  throw notFound('key');
}

async function keyView(
  organization: string,
  keyId: string,
  ports: WithDbAndClock,
): Promise<KeyView> {
  return toKeyView(await ownKey(organization, keyId, ports), ports.clock.now());
}

/** The servers of those keys that are limited to chosen names. */
function chosenServers(keys: readonly NamedApiKey[]): string[] {
  return keys.flatMap(({ tools, server }) =>
    tools.type === 'chosen' && server !== undefined ? [server] : [],
  );
}

/** @throws {AdministrationRefusal} `conflict` */
async function revokeOnce(keyId: string, { db, clock }: AdministrationPorts): Promise<void> {
  if (await revokeKey(db, keyId, clock.now())) return;
  throw conflict('the key is already revoked');
}

const ofKey = { organization: fields.organization, keyId: fields.keyId };
const listPath = '/organizations/{organization}/keys';
const keyPath = `${listPath}/{keyId}`;
const createdPath = `${listPath}/{id}`;
const createdKey = keyViewSchema
  .extend({ key: z.string().describe('Shown only once') })
  .meta({ id: 'CreatedKey' });

const sorts = {
  created_at: 'createdAt',
  name: 'name',
  last_used_at: 'lastUsedAt',
  expires_at: 'expiresAt',
} as const;

export const keyList = organizationOperation({
  name: 'key.list',
  doc: 'List the API keys of an organization or of one server',
  route: { method: 'GET', path: listPath },
  permission: 'key.read',
  input: z.strictObject({
    organization: fields.organization,
    server: fields.server.optional(),
    status: z.enum(['active', 'expired', 'revoked']).optional(),
    ...pageFields(['created_at', 'name', 'last_used_at', 'expires_at'], { order: 'desc' }),
  }),
  output: pageOf(listedKeySchema),
  async run(input, { organization, ...reader }, ports) {
    const { server, status } = input;
    const now = ports.clock.now();
    const serverId = server && (await ownServer(organization.name, server, ports)).id;
    const query = { ...pageQuery(input), sort: sorts[input.sort], status, serverId, now };
    const page = await listKeys(ports.db, { ...query, organizationId: organization.id });
    const ids = page.items.map(({ id }) => id);
    const origins = await findKeyOrigins(ports.db, ids, now);
    const servers = chosenServers(page.items);
    const shownOf = await namesShownOf(reader, organization.name, servers, ports);
    return toPageView(page, input, (key) => {
      const { createdBy = null, replaces = null, replacedBy = null } = origins.get(key.id) ?? {};
      const view = toKeyView(key, now, shownOf(key.server));
      return { ...view, createdBy, replaces, replacedBy };
    });
  },
});

export const keyCreate = organizationOperation({
  name: 'key.create',
  doc: 'Create an API key for a server; only this response contains it',
  route: { method: 'POST', path: `${serverPath}/keys`, made: createdPath },
  permission: 'key.manage',
  input: z.strictObject({
    organization: fields.organization,
    server: fields.server,
    name: fields.name.describe('Who or what uses the key').register(surfaces, {
      option: { value: 'NAME' },
      control: nameControl('Who or what uses it. Example: Nightly report'),
    }),
    scopes: fields.scopes
      .optional()
      .describe('The scopes of the key; all except mcp:server:manage if omitted')
      .register(surfaces, {
        option: {
          name: 'scope',
          value: 'SCOPE',
          repeated: true,
          doc: `a scope of the key: ${allScopes.join(', ')} (default: all except mcp:server:manage)`,
          read: readScope,
        },
        control: { kind: 'scopes', label: 'Scopes', chosen: defaultKeyScopes },
      }),
    tools: maybeToolSelection,
    expiresInDays: expiresInField(mostDays, {
      help: 'Rotate a key every 90 days. The list of keys shows when rotation is due.',
      chosen: '90',
      choices: [...expiryChoices, { value: '', text: 'Never' }],
    }),
    expiresOn: fields.expiresOn,
  }),
  output: createdKey,
  target: (_, made) => made && `key:${made.id}`,
  async run({ server, name, scopes, tools, ...chosenExpiry }, { organization, actor }, ports) {
    const { id: serverId } = await ownServer(organization.name, server, ports);
    const chosen = {
      name,
      owner: { type: 'server', serverId } as const,
      scopes: scopes ?? defaultKeyScopes,
      tools,
      expiresAt: expiry(chosenExpiry, mostDays, ports.clock.now()),
      createdBy: actorName(actor),
    };
    const { id, key } = await createKey(chosen, ports);
    return { ...(await keyView(organization.name, id, ports)), key };
  },
});

export const keyRead = organizationOperation({
  name: 'key.read',
  doc: 'Read a key by its id',
  route: { method: 'GET', path: keyPath },
  permission: 'key.read',
  input: z.strictObject(ofKey),
  output: keyViewSchema,
  async run({ keyId }, { organization, ...reader }, ports) {
    const key = await ownKey(organization.name, keyId, ports);
    if (key.agent !== undefined && !mayDo(reader.role, 'agent.read')) throw notFound('key');
    const shownOf = await namesShownOf(reader, organization.name, chosenServers([key]), ports);
    return toKeyView(key, ports.clock.now(), shownOf(key.server));
  },
});

export const keyRotate = organizationOperation({
  name: 'key.rotate',
  doc: 'Create a key that replaces a key of a server, with the same name, scopes, tools and lifetime; both are active until the older one is revoked',
  route: { method: 'POST', path: `${keyPath}/rotate`, made: createdPath },
  permission: 'key.manage',
  input: z.strictObject(ofKey),
  output: createdKey,
  // Both ids, so that the audit log records which key replaced which.
  target: ({ keyId }, made) => (made ? `key:${keyId}/${made.id}` : `key:${keyId}`),
  async run({ keyId }, { organization, actor }, ports) {
    const { name, owner, scopes, tools, createdAt, expiresAt, revokedAt } = await ownKey(
      organization.name,
      keyId,
      ports,
    );
    if (owner.type !== 'server') throw notFound('key');
    if (revokedAt !== undefined) throw conflict('the key is revoked');
    // Whole days, as for a new key.
    const days = expiresAt && Math.ceil((expiresAt - createdAt) / secondsADay);
    const chosen = {
      name,
      owner,
      scopes,
      tools,
      expiresAt: days && ports.clock.now() + days * secondsADay,
      createdBy: actorName(actor),
      replacesId: keyId,
    };
    const { id, key } = await createKey(chosen, ports);
    return { ...(await keyView(organization.name, id, ports)), key };
  },
});

export const keyUpdate = organizationOperation({
  name: 'key.update',
  doc: 'Change which tools a key of a server can use; takes effect on the next call',
  route: { method: 'PATCH', path: keyPath },
  permission: 'key.manage',
  input: z.strictObject({ ...ofKey, tools: toolSelection }),
  output: keyViewSchema,
  target: ({ keyId }) => `key:${keyId}`,
  async run({ keyId, tools }, { organization }, ports) {
    const { server } = await ownKey(organization.name, keyId, ports);
    if (server === undefined) throw notFound('key');
    if (!(await setKeyTools(ports.db, keyId, tools))) throw conflict('the key is revoked');
    return keyView(organization.name, keyId, ports);
  },
});

export const keyRevoke = organizationOperation({
  name: 'key.revoke',
  doc: 'Revoke a key of a server immediately; this cannot be undone',
  route: { method: 'DELETE', path: keyPath },
  permission: 'key.manage',
  input: z.strictObject(ofKey),
  output: keyViewSchema,
  target: ({ keyId }) => `key:${keyId}`,
  async run({ keyId }, { organization }, ports) {
    const { server } = await ownKey(organization.name, keyId, ports);
    if (server === undefined) throw notFound('key');
    await revokeOnce(keyId, ports);
    return keyView(organization.name, keyId, ports);
  },
});

export const agentKeyCreate = organizationOperation({
  name: 'agent.create-key',
  doc: 'Create another key for an agent; older keys work until they are revoked',
  route: { method: 'POST', path: `${agentPath}/keys`, made: agentPath },
  permission: 'agent.manage',
  input: z.strictObject({
    ...ofAgent,
    name: fields.name
      .optional()
      .register(surfaces, { option: { value: 'NAME', doc: 'the name of the key' } }),
  }),
  output: keyViewSchema
    .extend({ key: z.string().describe('Shown only once') })
    .meta({ id: 'CreatedAgentKey' }),
  target: (_, made) => made && `key:${made.id}`,
  async run({ agent: agentName, name = agentName }, { organization, actor }, ports) {
    const agent = await ownAgent(organization.name, agentName, ports);
    if (agent.revokedAt !== undefined) throw conflict('the agent is revoked');
    const owner = { type: 'agent', agentId: agent.id } as const;
    const createdBy = actorName(actor);
    const chosen = { name, owner, scopes: [], expiresAt: undefined, createdBy };
    const { id, key } = await createKey(chosen, ports);
    return { ...(await keyView(organization.name, id, ports)), key };
  },
});

export const agentKeyRevoke = organizationOperation({
  name: 'agent.revoke-key',
  doc: 'Revoke one key of an agent immediately; this cannot be undone',
  route: { method: 'DELETE', path: `${agentPath}/keys/{keyId}` },
  permission: 'agent.manage',
  input: z.strictObject({ ...ofAgent, keyId: fields.keyId }),
  output: keyViewSchema,
  target: ({ keyId }) => `key:${keyId}`,
  async run({ agent: agentName, keyId }, { organization }, ports) {
    await ownAgent(organization.name, agentName, ports);
    const key = await ownKey(organization.name, keyId, ports);
    if (key.agent !== agentName) throw notFound('key');
    await revokeOnce(keyId, ports);
    return keyView(organization.name, keyId, ports);
  },
});

export const keyOperations: readonly Operation[] = [
  keyList,
  keyCreate,
  keyRead,
  keyUpdate,
  keyRotate,
  keyRevoke,
];

/** Finds a key that is not revoked, in any organization. @throws {CommandError} */
async function findActiveKey(keyId: string, { db }: Pick<Stores, 'db'>): Promise<NamedApiKey> {
  const key = await findKey(db, keyId);
  if (key && key.revokedAt === undefined) return key;
  throw new CommandError(`there is no active key ${keyId}`, 'latchkey-server key list ORG');
}

const activeKey: Positional = {
  usage: 'ID',
  async read(keyId, { stores }) {
    const { organization, agent } = await findActiveKey(keyId, stores);
    return { organization, keyId, ...(agent !== undefined && { agent }) };
  },
};

const activeServerKey: Positional = {
  usage: 'ID',
  async read(keyId, { stores }) {
    const { organization, agent } = await findActiveKey(keyId, stores);
    if (agent === undefined) return { organization, keyId };
    const hint = `latchkey-server agent create-key ${organization}/${agent}`;
    throw new CommandError(`the key ${keyId} is for an agent`, hint);
  },
};

/** The hint for a key that is limited to tools that its server has not listed. */
function unlistedOf({ server, tools }: KeyView, given: Given, ports: Ports) {
  if (server === null || tools.type !== 'chosen') return undefined;
  return unlistedHint({ organization: organizationIn(given), server }, tools.tools, ports);
}

export const keyCommands: readonly Command[] = [
  command(keyCreate, {
    words: 'key create',
    positionals: [serverArgument],
    doc: 'create an API key; it is shown once',
    prints: [
      'id',
      'name',
      'key',
      // The scopes as they were typed.
      { scopes: ({ scopes }, { given }) => given['scopes'] ?? scopes, tools: selectionCell },
      'expiresAt',
    ],
    secret: 'key',
    hint: unlistedOf,
  }),
  listCommand(keyList, {
    words: 'key list',
    positionals: [organizationOrServerArgument],
    doc: 'list API keys',
    always: { order: 'asc' },
    prints: [
      'id',
      'name',
      {
        key: 'hint',
        server: ({ server }, { given }) => server && `${organizationIn(given)}/${server}`,
      },
      'scopes',
      { tools: selectionCell },
      'createdBy',
      'replaces',
      'replacedBy',
      'createdAt',
      'lastUsedAt',
      'expiresAt',
      'revokedAt',
    ],
    empty: 'no API keys yet: latchkey-server key create ORG/SERVER --name NAME',
  }),
  command(keyUpdate, {
    words: 'key update',
    positionals: [activeServerKey],
    doc: 'change which tools a key can use; takes effect on the next call',
    prints: ['id', 'name', 'scopes', { tools: selectionCell }],
    hint: unlistedOf,
  }),
  command(keyRotate, {
    words: 'key rotate',
    positionals: [activeServerKey],
    doc: 'create a key that replaces another, shown once; both are active until you revoke the older one',
    prints: ['id', 'name', 'key', 'scopes', { tools: selectionCell }, 'expiresAt'],
    secret: 'key',
    hint: (_, { keyId }) =>
      `once nothing uses the older key: latchkey-server key revoke ${String(keyId)}`,
  }),
  command(keyRevoke, {
    words: 'key revoke',
    positionals: [activeKey],
    doc: 'revoke a key immediately',
    instead: ({ agent }) => (agent === undefined ? undefined : agentKeyRevoke),
    prints: ['id', 'revokedAt'],
  }),
];

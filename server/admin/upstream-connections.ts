import { z } from 'zod';
import { findUpstreamAccess, type UpstreamAccess } from '#db/upstream-access';
import {
  endUpstreamConnection,
  findUpstreamConnection,
  listUpstreamConnections,
} from '#db/upstream-connections';
import { findAgent } from '#db/agents';
import { deletePersonKey, findPersonKey, listPersonKeys } from '#db/person-keys';
import type { Db } from '#db/transaction';
import type { ServerRecord, Target } from '#model/endpoints';
import { keyPlace, type PersonKeyRule } from '#model/person-keys';
import { takesCredentials } from '#model/upstream-kinds';
import { fields } from './fields.ts';
import {
  type Actor,
  type Operation,
  organizationOperation,
  personOf,
  type WithDb,
} from './operation.ts';
import { ofServer, ownServer, serverPath, serverTarget } from './paths.ts';
import { notFound } from './refusal.ts';
import { viewOf } from './views.ts';

const userId = z.string().max(100);
const path = `${serverPath}/connections`;
const ownPath = `${serverPath}/own-connection`;

const connectionViewSchema = z.object({
  userId: z.string(),
  email: z.string(),
  kind: z.enum(['account', 'key']),
  createdAt: fields.at,
  renewedAt: fields.at,
  failedAt: fields.maybeAt.describe(
    'When the authorization server stopped accepting the account, or the upstream the key',
  ),
  provedAt: fields.maybeAt.describe('When the tool that was chosen for that answered to the key'),
  lastUsedAt: fields.maybeAt.describe(
    'When the upstream last accepted the key, to within five minutes; null for accounts',
  ),
});

export const connectionList = organizationOperation({
  name: 'connection.list',
  doc: 'List the people who connected an account, or entered a key, at the upstream of a server',
  route: { method: 'GET', path },
  permission: 'server.manage',
  input: z.strictObject(ofServer),
  output: z.object({ items: z.array(connectionViewSchema.meta({ id: 'UpstreamConnection' })) }),
  async run({ server }, { organization }, ports) {
    const { id: targetId, personKey } = (await ownServer(organization.name, server, ports)).target;
    if (personKey) {
      const keys = await listPersonKeys(ports.db, targetId);
      return {
        items: keys.map((key) =>
          viewOf(connectionViewSchema, {
            ...key,
            kind: 'key',
            createdAt: key.setAt,
            renewedAt: key.setAt,
            failedAt: key.refusedAt,
          }),
        ),
      };
    }
    const access = await accessOf(organization.name, server, ports);
    const items = access ? await listUpstreamConnections(ports.db, access.id) : [];
    return {
      // For an account, only failures are stored.
      items: items.map((one) =>
        viewOf(connectionViewSchema, {
          ...one,
          kind: 'account',
          provedAt: null,
          lastUsedAt: null,
        }),
      ),
    };
  },
});

export const connectionEnd = organizationOperation({
  name: 'connection.end',
  doc: 'Disconnect a person’s account immediately and revoke its tokens, or remove their key',
  route: { method: 'DELETE', path: `${path}/{userId}` },
  permission: 'server.manage',
  input: z.strictObject({ ...ofServer, userId }),
  output: z.object({ server: z.string(), userId: z.string() }),
  target: ({ userId: id, ...at }) => `connection:${id} ${serverTarget(at)}`,
  async run({ server, userId: id }, { organization }, ports) {
    const { id: targetId, personKey } = (await ownServer(organization.name, server, ports)).target;
    const access = await accessOf(organization.name, server, ports);
    const isEnded = personKey
      ? await deletePersonKey(ports.db, { targetId, userId: id })
      : access && (await endUpstreamConnection(ports.db, access.id, id));
    if (!isEnded) throw notFound('connection');
    return { server, userId: id };
  },
});

const ownConnectionViewSchema = z
  .object({
    server: z.string(),
    isNeeded: z.boolean().describe('Whether each person uses their own account or key'),
    kind: z.enum(['account', 'key']).nullable().describe('What each person needs'),
    issuer: z.string().nullable().describe('The authorization server'),
    state: z
      .enum(['none', 'connected', 'ended'])
      .describe('`ended`: the account or the key is no longer accepted'),
    scopes: z.array(z.string()).describe('The requested scopes'),
    createdAt: fields.maybeAt,
    key: z
      .object({
        label: z.string(),
        helpUrl: z.string().nullable(),
        header: z.string(),
        place: z.string().describe('The origin that the key is sent to, or the agent'),
        hint: z.string().nullable().describe('Its last characters, if it is long enough'),
        provedAt: fields.maybeAt,
        refusedAt: fields.maybeAt,
        lastUsedAt: fields.maybeAt.describe('To within five minutes'),
        hasPrevious: z.boolean().describe('Whether the key before it is kept until it is proved'),
      })
      .nullable(),
  })
  .meta({ id: 'OwnConnection' });

/** The state of a person's account or key at the upstream of a server. */
export type OwnConnectionView = z.output<typeof ownConnectionViewSchema>;

export const ownConnectionRead = organizationOperation({
  name: 'connection.read-own',
  doc: 'Read whether you connected your account, or entered your key, at the upstream of a server',
  route: { method: 'GET', path: ownPath },
  permission: 'server.read',
  input: z.strictObject(ofServer),
  output: ownConnectionViewSchema,
  run: async ({ server }, { organization, actor }, ports) =>
    ownConnectionView(await ownServer(organization.name, server, ports), actor, ports),
});

export const ownConnectionEnd = organizationOperation({
  name: 'connection.end-own',
  doc: 'Disconnect your account immediately and revoke its tokens, or remove your key',
  route: { method: 'DELETE', path: ownPath },
  permission: 'server.read',
  input: z.strictObject(ofServer),
  output: ownConnectionViewSchema,
  target: serverTarget,
  async run({ server }, { organization, actor }, ports) {
    const record = await ownServer(organization.name, server, ports);
    const access = await accessOf(organization.name, server, ports);
    const mine = personOf(actor);
    if (record.target.personKey) {
      await deletePersonKey(ports.db, { targetId: record.target.id, userId: mine });
    } else if (access) await endUpstreamConnection(ports.db, access.id, mine);
    return ownConnectionView(record, actor, ports);
  },
});

export const connectionOperations: readonly Operation[] = [
  connectionList,
  connectionEnd,
  ownConnectionRead,
  ownConnectionEnd,
];

async function ownConnectionView(
  record: ServerRecord,
  actor: Actor,
  ports: WithDb,
): Promise<OwnConnectionView> {
  const mine = personOf(actor);
  const { organization, name: server, target } = record;
  if (target.personKey) return ownKeyView(record, target.personKey, mine, ports);
  const access = await accessOf(organization, server, ports);
  if (access?.kind !== 'authorization_code') {
    const none = { kind: null, issuer: null, scopes: [], createdAt: null, key: null };
    return { server, isNeeded: false, state: 'none', ...none };
  }
  const connection = await findUpstreamConnection(ports.db, access.id, mine);
  const state = !connection ? 'none' : connection.failedAt === undefined ? 'connected' : 'ended';
  return {
    server,
    isNeeded: true,
    kind: 'account',
    issuer: access.metadata.issuer,
    state,
    scopes: [...access.scopes],
    createdAt: connection?.createdAt ?? null,
    key: null,
  };
}

async function ownKeyView(
  { name, target }: ServerRecord,
  { label, helpUrl, header }: PersonKeyRule,
  owner: string,
  { db }: WithDb,
): Promise<OwnConnectionView> {
  const found = await findPersonKey(db, { targetId: target.id, userId: owner });
  const mine = found?.place === keyPlace(target.upstream) ? found : undefined;
  return {
    server: name,
    isNeeded: true,
    kind: 'key',
    issuer: null,
    state: !mine ? 'none' : mine.refusedAt === undefined ? 'connected' : 'ended',
    scopes: [],
    createdAt: mine?.setAt ?? null,
    key: {
      label,
      helpUrl: helpUrl ?? null,
      header,
      place: await shownPlace(target, db),
      hint: mine?.hint ?? null,
      provedAt: mine?.provedAt ?? null,
      refusedAt: mine?.refusedAt ?? null,
      lastUsedAt: mine?.lastUsedAt ?? null,
      hasPrevious: mine?.sealedPrevious !== undefined,
    },
  };
}

/** The origin that keys are sent to, or the name of the agent. */
async function shownPlace({ upstream }: Target, db: Db): Promise<string> {
  if (upstream.kind !== 'agent') return keyPlace(upstream) ?? '';
  return (await findAgent(db, upstream.agentId))?.name ?? '';
}

/** Finds the access that the upstream of a server requires. @throws {AdministrationRefusal} `not_found` */
export async function accessOf(
  organization: string,
  name: string,
  ports: WithDb,
): Promise<UpstreamAccess | undefined> {
  const { upstream } = (await ownServer(organization, name, ports)).target;
  if (!takesCredentials(upstream) || upstream.accessId === undefined) return undefined;
  return findUpstreamAccess(ports.db, upstream.accessId);
}

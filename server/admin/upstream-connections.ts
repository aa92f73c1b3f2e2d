import { z } from 'zod';
import { findUpstreamAccess, type UpstreamAccess } from '#db/upstream-access';
import {
  endUpstreamConnection,
  findUpstreamConnection,
  listUpstreamConnections,
} from '#db/upstream-connections';
import { takesCredentials } from '#model/upstream-kinds';
import { fields } from './fields.ts';
import {
  type Actor,
  type AdministrationPorts,
  organizationOperation,
  personOf,
} from './operation.ts';
import { ofServer, ownServer, serverPath, serverTarget } from './paths.ts';
import { notFound } from './refusal.ts';

const userId = z.string().max(100);
const path = `${serverPath}/connections`;
const ownPath = `${serverPath}/own-connection`;

const connectionViewSchema = z.object({
  userId: z.string(),
  email: z.string(),
  createdAt: fields.at,
  renewedAt: fields.at,
  failedAt: fields.maybeAt.describe('When the authorization server stopped accepting it'),
});

export const connectionList = organizationOperation({
  name: 'connection.list',
  doc: 'List the people who connected an account at the upstream of a server',
  route: { method: 'GET', path },
  permission: 'server.manage',
  input: z.strictObject(ofServer),
  output: z.object({ items: z.array(connectionViewSchema.meta({ id: 'UpstreamConnection' })) }),
  async run({ server }, { organization }, ports) {
    const access = await accessOf(organization.name, server, ports);
    const items = access ? await listUpstreamConnections(ports.db, access.id) : [];
    return {
      items: items.map(({ userId: id, email, createdAt, renewedAt, failedAt = null }) => {
        return { userId: id, email, createdAt, renewedAt, failedAt };
      }),
    };
  },
});

export const connectionEnd = organizationOperation({
  name: 'connection.end',
  doc: 'Disconnect a person’s account immediately and revoke its tokens',
  route: { method: 'DELETE', path: `${path}/{userId}` },
  permission: 'server.manage',
  input: z.strictObject({ ...ofServer, userId }),
  output: z.object({ server: z.string(), userId: z.string() }),
  target: ({ userId: id, ...at }) => `connection:${id} ${serverTarget(at)}`,
  async run({ server, userId: id }, { organization }, ports) {
    const access = await accessOf(organization.name, server, ports);
    if (!access || !(await endUpstreamConnection(ports.db, access.id, id))) {
      throw notFound('connection');
    }
    return { server, userId: id };
  },
});

const ownConnectionViewSchema = z
  .object({
    server: z.string(),
    isNeeded: z.boolean().describe('Whether each person uses their own account'),
    issuer: z.string().nullable().describe('The authorization server'),
    state: z.enum(['none', 'connected', 'ended']),
    scopes: z.array(z.string()).describe('The requested scopes'),
    createdAt: fields.maybeAt,
  })
  .meta({ id: 'OwnConnection' });

/** The state of a person's account at the upstream of a server. `ended`: the authorization server no longer accepts its tokens. */
export type OwnConnectionView = z.output<typeof ownConnectionViewSchema>;

export const ownConnectionRead = organizationOperation({
  name: 'connection.read-own',
  doc: 'Read whether you connected your account at the upstream of a server',
  route: { method: 'GET', path: ownPath },
  permission: 'server.read',
  input: z.strictObject(ofServer),
  output: ownConnectionViewSchema,
  run: async ({ server }, { organization, actor }, ports) =>
    ownConnectionView(await accessOf(organization.name, server, ports), { server, actor }, ports),
});

export const ownConnectionEnd = organizationOperation({
  name: 'connection.end-own',
  doc: 'Disconnect your account immediately and revoke its tokens',
  route: { method: 'DELETE', path: ownPath },
  permission: 'server.read',
  input: z.strictObject(ofServer),
  output: ownConnectionViewSchema,
  target: serverTarget,
  async run({ server }, { organization, actor }, ports) {
    const access = await accessOf(organization.name, server, ports);
    if (access) await endUpstreamConnection(ports.db, access.id, personOf(actor));
    return ownConnectionView(access, { server, actor }, ports);
  },
});

async function ownConnectionView(
  access: UpstreamAccess | undefined,
  { server, actor }: { server: string; actor: Actor },
  ports: Pick<AdministrationPorts, 'db'>,
): Promise<OwnConnectionView> {
  const mine = personOf(actor);
  if (access?.kind !== 'authorization_code') {
    const none = { issuer: null, scopes: [], createdAt: null };
    return { server, isNeeded: false, state: 'none', ...none };
  }
  const connection = await findUpstreamConnection(ports.db, access.id, mine);
  const state = !connection ? 'none' : connection.failedAt === undefined ? 'connected' : 'ended';
  return {
    server,
    isNeeded: true,
    issuer: access.metadata.issuer,
    state,
    scopes: [...access.scopes],
    createdAt: connection?.createdAt ?? null,
  };
}

/** Finds the access that the upstream of a server requires. @throws {AdministrationRefusal} `not_found` */
export async function accessOf(
  organization: string,
  name: string,
  ports: Pick<AdministrationPorts, 'db'>,
): Promise<UpstreamAccess | undefined> {
  const { upstream } = (await ownServer(organization, name, ports)).target;
  if (!takesCredentials(upstream) || upstream.accessId === undefined) return undefined;
  return findUpstreamAccess(ports.db, upstream.accessId);
}

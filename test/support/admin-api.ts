import { loopbackProviders } from './provider-setup.ts';
import { domainAdd } from '#server/admin/domains';
import { providerCreate } from '#server/admin/identity-providers';
import { serverGroupsSet } from '#server/admin/server-access';
import { insertAccessRequest } from '#server/db/access-requests';
import { recordDevice } from '#server/db/devices';
import { linkMember } from '#server/db/member-identities';
import { z } from 'zod';
import type { Role } from '#server/model/roles';
import { agentCreate } from '#server/admin/agents';
import { clientRotate } from '#server/admin/client-secrets';
import { clientCreate } from '#server/admin/clients';
import { groupAddMember, groupCreate, groupMap } from '#server/admin/groups';
import { invitationCreate } from '#server/admin/invitations';
import { keyCreate } from '#server/admin/keys';
import { mailServerSet } from '#server/admin/mail';
import { fieldsInPath, filledPath } from '#server/admin/openapi';
import { type Actor, type Operation, operator, perform } from '#server/admin/operation';
import { organizationCreate } from '#server/admin/organizations';
import { collectionCreate } from '#server/admin/collections';
import { listMembers, noteNames } from '#server/db/collections';
import { serverCreate } from '#server/admin/servers';
import { tokenCreate } from '#server/admin/tokens';
import { deploymentPublish } from '#server/admin/deployment';
import { headerSet } from '#server/admin/upstream-headers';
import { webhookCreate, webhookList, webhookRemove } from '#server/admin/webhooks';
import { toWire, wireName } from '#server/admin/wire-names';
import { everyRefusal } from '#server/audit/counted-refusals';
import { findOrganization } from '#server/db/organizations';
import { insertUser } from '#server/db/people';
import { insertScimToken } from '#server/db/scim-tokens';
import { findServer } from '#server/db/servers';
import { type ServerRecord } from '#server/model/endpoints';
import { noteTools } from './listed-tools.ts';
import { replaceUpstreamAccess } from '#server/db/upstream-access';
import { replaceUpstreamConnection } from '#server/db/upstream-connections';
import { type ApiAnswer, pageApp, type PageApp } from './page-app.ts';
import { signedIn } from './signed-in.ts';
import { loopbackSetup } from './upstream-setup.ts';
import { deadMailServer, loopbackMail } from './mail-setup.ts';
import { deadWebhook, loopbackWebhooks } from './webhook-setup.ts';
import { masterKey } from '#server/secrets/master-key';

const record = z.record(z.string(), z.unknown());
const texts = z.record(z.string(), z.string());

type Fields = Readonly<Record<string, unknown>>;

/** The admin API over two organizations: `other` has one resource of each kind, and `things` makes the same for `acme`. */
export interface AdminApi extends AsyncDisposable {
  readonly app: PageApp;
  /** The ids of the resources of `other`, by the name of their field. */
  readonly foreign: Readonly<Record<string, string>>;
  /** The ids of new resources of `acme`, by the name of their field. */
  things(): Promise<Readonly<Record<string, string>>>;
  /** A new person of acme with this role, and their token. */
  person(role: Role): Promise<{ readonly userId: string; readonly token: string }>;
  /** Requests an operation through its HTTP route. */
  ask(
    operation: Operation,
    fields: Fields,
    headers: Readonly<Record<string, string>>,
    address?: string,
  ): Promise<ApiAnswer>;
}

export async function adminApi(): Promise<AdminApi> {
  const app = await pageApp();
  const { stores, clock } = app.server;
  const refusals = everyRefusal({ ...stores, clock });
  const ports = {
    ...stores,
    clock,
    refusals,
    upstreamSetup: loopbackSetup(),
    webhookSetup: loopbackWebhooks(clock),
    mailSetup: loopbackMail(clock),
    providerSetup: loopbackProviders(clock, app.txt),
    contentKey: masterKey(new Uint8Array(32)),
  };
  let count = 0;

  async function thingsOf(organization: string): Promise<Record<string, string>> {
    const name = `thing-${(count += 1)}`;
    const at = { organization, server: name };
    const upstream = { kind: 'http', url: 'https://mcp.example/mcp' };
    await perform(serverCreate, { organization, name, upstream }, operator, ports);
    await perform(deploymentPublish, { ...at, description: 'A thing' }, operator, ports);
    const collection = await collectionOf(organization, name);
    const header = `x-of-${name}`;
    for (const value of ['first', 'second']) {
      await perform(headerSet, { ...at, name: header, value }, operator, ports);
    }
    const scopes = ['mcp:tools:read'];
    const { clientId } = await perform(clientCreate, { ...at, name, scopes }, operator, ports);
    const ofClient = { organization, clientId };
    const { id: secretId } = await perform(clientRotate, ofClient, operator, ports);
    const { id: keyId } = await perform(keyCreate, { ...at, name }, operator, ports);
    await perform(agentCreate, { organization, name }, operator, ports);
    const people = await peopleOf(organization, { name, clientId });
    const webhookId = await webhookOf(organization);
    await perform(mailServerSet, { organization, ...deadMailServer }, operator, ports);
    const { userId } = people;
    const sso = await signInOf(organization, { name, userId });
    const directory = await directoryOf(organization, { name, server: name });
    const request = await requestOf(organization, { name, userId });
    const things = {
      server: name,
      collection,
      clientId,
      secretId,
      keyId,
      agent: name,
      webhookId,
      header,
      ...request,
      ...directory,
      ...sso,
    };
    return { organization, ...things, ...people };
  }

  /** A collection of this server, which has listed a tool. */
  async function collectionOf(organization: string, server: string): Promise<string> {
    const name = `${server}-desk`;
    const made = { organization, name, members: [{ server }] };
    const { id } = await perform(collectionCreate, made, operator, ports);
    const [member] = await listMembers(stores.db, id);
    const lists = [{ kind: 'tool' as const, member: member?.id ?? '', names: ['echo'] }];
    await noteNames(stores.db, id, { lists, withApps: [] }, clock.now());
    return name;
  }

  /** A server for a group without members, and the access request of a member for that server. */
  async function requestOf(organization: string, at: { name: string; userId: string }) {
    const closed = `${at.name}-closed`;
    const upstream = { kind: 'demo' };
    await perform(serverCreate, { organization, name: closed, upstream }, operator, ports);
    const group = { organization, name: closed };
    const { id: openingGroup } = await perform(groupCreate, group, operator, ports);
    const choice = { access: 'groups', groupIds: [openingGroup], accessRequests: true };
    const of = { organization, server: closed };
    await perform(serverGroupsSet, { ...of, ...choice }, operator, ports);
    const organizationId = (await findOrganization(stores.db, organization))?.id ?? '';
    const requestId = `request_of_${at.name}`;
    const asked = { id: requestId, organizationId, server: closed, reason: 'the quarter ends' };
    await insertAccessRequest(stores.db, { ...asked, userId: at.userId }, clock.now());
    return { closed, openingGroup, requestId };
  }

  /** The only SCIM token of the organization, and a key that needs an owner. */
  async function directoryOf(organization: string, at: { name: string; server: string }) {
    const organizationId = (await findOrganization(stores.db, organization))?.id ?? '';
    await stores.db
      .deleteFrom('scim_token')
      .where('organization_id', '=', organizationId)
      .execute();
    const scimTokenId = `scimtoken_of_${at.name}`;
    const token = { id: scimTokenId, hash: scimTokenId, hint: 'scim_…aaaa' };
    const made = { createdBy: 'operator', createdAt: clock.now(), expiresAt: undefined };
    await insertScimToken(stores.db, { ...token, ...made, organizationId }, { most: 2 });
    const key = { organization, server: at.server, name: 'without an owner' };
    const { id: resourceId } = await perform(keyCreate, key, operator, ports);
    await stores.db
      .updateTable('api_key')
      .set({ owner_id: 'user_who_left', ownerless_at: clock.now(), suspended_at: clock.now() })
      .where('id', '=', resourceId)
      .execute();
    return { scimTokenId, resourceId };
  }

  /** An identity provider with a linked member, and a domain. They replace earlier ones, because their number is limited. */
  async function signInOf(organization: string, at: { name: string; userId: string }) {
    const place = await findOrganization(stores.db, organization);
    const organizationId = place?.id ?? '';
    for (const table of ['identity_provider', 'organization_domain'] as const) {
      await stores.db.deleteFrom(table).where('organization_id', '=', organizationId).execute();
    }
    const issuer = `https://127.0.0.1:9/${at.name}`;
    const client = { clientId: 'latchkey', clientSecret: 'secret' };
    const wish = { organization, name: at.name, issuer, ...client };
    const { id: providerId } = await perform(providerCreate, wish, operator, ports);
    const member = { organizationId, userId: at.userId };
    await linkMember(stores.db, { providerId, subject: at.name }, member, clock.now());
    const domain = `${at.name}.example`;
    const added = await perform(domainAdd, { organization, domain }, operator, ports);
    app.txt.set(added.recordName, [added.recordValue]);
    return { providerId, domain };
  }

  /** A webhook. It replaces those of earlier tests, because an organization has no more than ten. */
  async function webhookOf(organization: string): Promise<string> {
    const { items } = await perform(webhookList, { organization }, operator, ports);
    for (const { id: webhookId } of items) {
      await perform(webhookRemove, { organization, webhookId }, operator, ports);
    }
    const wish = { organization, url: deadWebhook };
    return (await perform(webhookCreate, wish, operator, ports)).id;
  }

  /** A member with a group, a grant, a device and an upstream connection; and an invitation. */
  async function peopleOf(organization: string, at: { name: string; clientId: string }) {
    const place = await findOrganization(stores.db, organization);
    const server = await findServer(stores.db, organization, at.name);
    if (!place || !server) throw new Error('what was made is not there');
    const userId = `user_of_${at.name}`;
    const user = { id: userId, email: `${userId}@example.com`, createdAt: clock.now() };
    await insertUser(stores.db, user, { organizationId: place.id, role: 'member' });
    const group = { organization, name: at.name };
    const { id: groupId } = await perform(groupCreate, group, operator, ports);
    await perform(groupAddMember, { organization, groupId, userId }, operator, ports);
    await perform(groupMap, { organization, groupId, externalName: 'mapped' }, operator, ports);
    const invited = { organization, role: 'viewer' };
    const { id: invitationId } = await perform(invitationCreate, invited, operator, ports);
    const grantId = `grant_of_${at.name}`;
    const grant = {
      id: grantId,
      person_id: userId,
      client_id: at.clientId,
      endpoint_id: server.id,
    };
    const rest = { scopes: '[]', redirect_host: 'x', authenticated: 0, revoked_at: null };
    const times = { created_at: clock.now(), expires_at: clock.now() + 3600 };
    const named = { claimHash: `of ${at.name}`, name: 'laptop', system: 'Linux' };
    const device = { id: `device_of_${at.name}`, ...named };
    const deviceId = (await recordDevice(stores.db, userId, device, clock.now())) ?? '';
    await stores.db
      .insertInto('oauth_grant')
      .values({ ...grant, ...rest, ...times, device_id: deviceId })
      .execute();
    await connect(place.id, server, userId);
    for (const digest of ['accepted', 'another'])
      await noteTools(
        stores.db,
        server.target.id,
        [{ name: 'echo', digest, text: '{}' }],
        clock.now(),
      );
    return { userId, groupId, invitationId, grantId, deviceId };
  }

  /** A person's account at the upstream of a server. */
  async function connect(
    organizationId: string,
    { id: endpointId, name, target: { id: targetId } }: ServerRecord,
    userId: string,
  ) {
    const url = 'https://mcp.example/mcp';
    const issuer = 'https://as.example';
    const accessId = `upa_of_${name}`;
    const what = {
      id: accessId,
      targetId,
      endpointId,
      kind: 'authorization_code',
      url,
      resource: url,
    } as const;
    const metadata = { issuer, token_endpoint: `${issuer}/token` };
    const client = { clientId: 'latchkey', sealedClientSecret: undefined, scopes: [] };
    const createdAt = clock.now();
    const kept = { vouchedHosts: [], createdAt };
    await replaceUpstreamAccess(stores.db, { ...what, ...client, ...kept, metadata });
    const of = { id: `upc_of_${name}`, accessId, targetId, userId, organizationId };
    await replaceUpstreamConnection(stores.db, { ...of, sealedTokens: '', createdAt });
  }

  await perform(organizationCreate, { name: 'other' }, operator, ports);
  const foreign = await thingsOf('other');
  return {
    app,
    foreign,
    things: () => thingsOf('acme'),

    async person(role) {
      const userId = `user_api_${(count += 1)}`;
      const user = { id: userId, email: `${userId}@example.com`, createdAt: clock.now() };
      await insertUser(stores.db, user, { organizationId: 'org_acme', role });
      const from = { address: undefined, requestId: undefined };
      const credential = await signedIn(stores.db, userId);
      const person = { type: 'person', userId, credential } as const;
      const actor: Actor = { ...person, provedAt: clock.now(), factors: 1, ...from };
      const { token } = await perform(tokenCreate, { name: 'script' }, actor, ports);
      return { userId, token };
    },

    async ask({ route }, fields, headers, address = '127.0.0.1') {
      if (!route) throw new TypeError('an operation without a route');
      const inPath = new Set(fieldsInPath(route.path));
      const others = Object.entries(fields).filter(([name]) => !inPath.has(name));
      const rest = record.parse(toWire(Object.fromEntries(others)));
      const inQuery = route.method === 'GET' || route.method === 'DELETE';
      const query =
        inQuery && others.length > 0 ? `?${new URLSearchParams(texts.parse(rest)).toString()}` : '';
      return app.api({
        method: route.method,
        path: `/api/admin${filledPath(route.path, fields)}${query}`,
        headers,
        address,
        body: inQuery ? undefined : rest,
      });
    },

    [Symbol.asyncDispose]: () => app[Symbol.asyncDispose](),
  };
}

/** The names of the fields in an operation's path, except `organization` and `file`. */
export function idsOf({ route }: Operation): string[] {
  // A file has the same name everywhere.
  return fieldsInPath(route?.path ?? '').filter(
    (name) => name !== 'organization' && name !== 'file',
  );
}

/** A route as fastify spells it. */
export function spelling({ route }: Operation): string {
  return `${route?.method} /api/admin${wireName(route?.path ?? '').replaceAll(/\{(\w+)\}/g, ':$1')}`;
}

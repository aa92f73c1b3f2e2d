import { z } from 'zod';

import type { ServerRecord } from '#organizations/server-record';
import { randomBase62 } from '#credentials/secret-format';
import { AdministrationRefusal } from './administration-refusal.ts';
import { changeServer, checkRevision } from './change-server.ts';
import { fields } from './fields.ts';
import { organizationOperation } from './operation.ts';
import { settingsChange } from './server-change.ts';
import { serverSettingFields } from './server-setting-fields.ts';
import { pageFields, pageOf, pageQuery, shownPage } from './paging.ts';
import {
  agentNamesOf,
  ofServer,
  ownServer,
  serverPath,
  serverTarget,
  showServer,
  shownServer,
} from './shown-server.ts';
import { chosenUpstream, staysVouched, upstreamField } from './upstream-field.ts';
import { headersOf, noteHeaders, upstreamWith } from './upstream-header-changes.ts';

const inOrganization = { organization: fields.organization };

const { hiddenTools: hiddenToolsField, limits: limitsField, ...chosenWords } = serverSettingFields;

const sorts = { name: 'name', created_at: 'createdAt' } as const;

export const serverList = organizationOperation({
  name: 'server.list',
  doc: 'List the MCP servers of an organization',
  route: { method: 'GET', path: '/organizations/{organization}/servers' },
  permission: 'server.read',
  input: z.strictObject({
    ...inOrganization,
    status: z.enum(['enabled', 'disabled']).optional(),
    ...pageFields(['name', 'created_at']),
  }),
  output: pageOf(shownServer),
  async run(input, { organization }, ports) {
    const query = { ...pageQuery(input), sort: sorts[input.sort], status: input.status };
    const page = await ports.serverDirectory.page({ ...query, organizationId: organization.id });
    const names = await agentNamesOf(page.items, ports);
    return shownPage(page, input, (server) => showServer(server, names));
  },
});

export const serverCreate = organizationOperation({
  name: 'server.create',
  doc: 'Make an MCP endpoint and say where its calls go',
  route: {
    method: 'POST',
    path: '/organizations/{organization}/servers',
    made: '/organizations/{organization}/servers/{name}',
  },
  permission: 'server.manage',
  input: z.strictObject({
    ...inOrganization,
    name: fields.slug,
    upstream: upstreamField,
    ...chosenWords,
  }),
  output: shownServer,
  target: ({ organization, name }) => serverTarget({ organization, server: name }),
  async run(input, { organization, actor }, ports) {
    const { name, title, description, instructions } = input;
    const place = { organization: organization.name, actor };
    const chosen = await chosenUpstream(input.upstream, place, ports);
    const id = `srv_${randomBase62(16)}`;
    const given = input.upstream.kind === 'http' ? input.upstream.headers : undefined;
    const upstream = upstreamWith(chosen, { serverId: id, given }, ports);
    const added = await ports.organizations.addServer({
      id,
      organizationId: organization.id,
      name,
      upstream,
      ...(title && { title }),
      ...(description && { description }),
      ...(instructions && { instructions }),
      createdAt: ports.clock.now(),
    });
    if (!added) {
      const why = `there is a server ${organization.name}/${name} already`;
      throw new AdministrationRefusal('conflict', why);
    }
    const made = await ownServer(organization.name, name, ports);
    await noteHeaders({ set: headersOf(made) }, { server: made, actor }, ports);
    return showServer(made, await agentNamesOf([made], ports));
  },
});

export const serverRead = organizationOperation({
  name: 'server.read',
  doc: 'Read a server, and what would stop working with it',
  route: { method: 'GET', path: serverPath },
  permission: 'server.read',
  input: z.strictObject(ofServer),
  output: shownServer
    .extend({ activeKeys: z.int(), activeClients: z.int(), activeGrants: z.int() })
    .meta({ id: 'ServerInUse' }),
  async run({ server: name }, { organization }, ports) {
    const server = await ownServer(organization.name, name, ports);
    const dependents = await ports.serverDirectory.dependents(server.id, ports.clock.now());
    const names = await agentNamesOf([server], ports);
    return { ...showServer(server, names), ...dependents };
  },
});

export const serverUpdate = organizationOperation({
  name: 'server.update',
  doc: 'Change a server; what is not given stays, and everything counts from the next call on',
  route: { method: 'PATCH', path: serverPath },
  permission: 'server.manage',
  input: z.strictObject({
    ...ofServer,
    ...chosenWords,
    upstream: upstreamField.optional(),
    hiddenTools: hiddenToolsField,
    changedTools: z
      .enum(['flag', 'withhold'])
      .optional()
      .describe('What becomes of a tool that turns into another one: flagged, or closed besides'),
    limits: limitsField,
    revision: z.int().optional().describe('Change it only while it is at this revision'),
  }),
  output: shownServer
    .extend({
      removedHeaders: z
        .array(z.string())
        .describe('Fixed headers that were for another origin and are no longer there'),
    })
    .meta({ id: 'ChangedServer' }),
  target: serverTarget,
  async run(input, { organization, actor }, ports) {
    const at = { organization: organization.name, server: input.server };
    const { upstream: before } = await ownServer(at.organization, at.server, ports);
    const place = { organization: organization.name, actor, before };
    const chosen = input.upstream && (await chosenUpstream(input.upstream, place, ports));
    const given = input.upstream?.kind === 'http' ? input.upstream.headers : undefined;
    let had: readonly string[] = [];
    const change = (now: ServerRecord) => {
      checkRevision(now, input.revision);
      had = headersOf(now);
      const isOther = chosen !== undefined && !staysVouched(now.upstream, chosen);
      const of = { serverId: now.id, before: now.upstream, given };
      const upstream = upstreamWith(isOther ? chosen : now.upstream, of, ports);
      return {
        ...settingsChange(now, input),
        ...(input.changedTools && { changedTools: input.changedTools }),
        ...((isOther || given) && { upstream }),
      };
    };
    const changed = await changeServer(at, change, ports);
    const set = given?.map(({ name }) => name) ?? [];
    const removed = had.filter((name) => !headersOf(changed).includes(name));
    await noteHeaders({ set, removed }, { server: changed, actor }, ports);
    const shown = showServer(changed, await agentNamesOf([changed], ports));
    return { ...shown, removedHeaders: [...removed] };
  },
});

export const serverDisable = switching('disable', 'Let a server serve nobody, at once', true);
export const serverEnable = switching('enable', 'Let a disabled server serve again', false);

function switching(verb: 'disable' | 'enable', doc: string, off: boolean) {
  return organizationOperation({
    name: `server.${verb}`,
    doc,
    route: { method: 'POST', path: `${serverPath}/${verb}` },
    permission: 'server.manage',
    input: z.strictObject(ofServer),
    output: shownServer,
    target: serverTarget,
    async run({ server: name }, { organization }, ports) {
      const at = { organization: organization.name, server: name };
      const change = ({ disabledAt }: ServerRecord) => ({
        disabledAt: off ? (disabledAt ?? ports.clock.now()) : null,
      });
      const changed = await changeServer(at, change, ports);
      return showServer(changed, await agentNamesOf([changed], ports));
    },
  });
}

export const serverDelete = organizationOperation({
  name: 'server.delete',
  doc: 'Remove a server with its clients, keys and grants, at once and for good',
  route: { method: 'DELETE', path: serverPath },
  permission: 'server.manage',
  input: z.strictObject(ofServer),
  output: z.object({ id: z.string(), organization: z.string(), name: z.string() }),
  target: serverTarget,
  async run({ server: name }, { organization }, ports) {
    const { id } = await ownServer(organization.name, name, ports);
    await ports.serverDirectory.remove(id);
    return { id, organization: organization.name, name };
  },
});

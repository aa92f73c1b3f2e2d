import { z } from 'zod';

import {
  deploymentOf,
  findDeployments,
  listInstalled,
  listPublished,
  mostPublished,
  publishServer,
  setInstallation,
  unpublishServer,
  type Deployment,
} from '#db/deployment';
import { areGroupsOf } from '#db/server-access';
import { listServers } from '#db/servers';
import {
  assistantFileNames,
  assistantFiles,
  connections,
  type DeploymentPlan,
  nothingPublished,
} from '#deployment/assistant-files';
import {
  cardUrl,
  mostPublicCharacters,
  publicVersion,
  registryName,
  registryUrl,
} from '#deployment/registry-entries';
import { fewNames } from '#model/few-names';
import type { ServerRecord } from '#model/endpoints';
import { fields, surfaces, words } from './fields.ts';
import { groupIdsInQuery, groupsControl, ofGroup, unknownGroup } from './groups.ts';
import {
  type AdministrationPorts,
  type Operation,
  organizationOperation,
  type WithDb,
} from './operation.ts';
import { pageFields, pageOf, pageQuery, toPageView } from './paging.ts';
import { ofServer, ownServer, serverPath, serverTarget } from './paths.ts';
import { conflict, invalidField, notFound } from './refusal.ts';
import { viewOf } from './views.ts';

const inOrganization = { organization: fields.organization };
const installs = ['nobody', 'everyone', 'groups'] as const;

const publicationSchema = z.object({
  title: z.string(),
  description: z.string(),
  version: z.string(),
  name: z.string().nullable().describe('Its name in the registry; null if the URL is unknown'),
  card: z.string().nullable().describe('The URL of its server card; null if the URL is unknown'),
  publishedAt: fields.at,
  updatedAt: fields.at,
});

const deploymentViewSchema = z
  .object({
    server: z.string().describe('The name of the server'),
    title: z.string(),
    install: z.enum(installs).describe('On whose computers it is installed by default'),
    groups: z.array(z.object({ id: z.string(), name: z.string() })),
    publication: publicationSchema
      .nullable()
      .describe('What anyone can read of it; null for nothing'),
    disabledAt: fields.maybeAt,
  })
  .meta({ id: 'Deployment' });
export type DeploymentView = z.output<typeof deploymentViewSchema>;

/** For whom deployment files install a server, in words; `undefined` if for nobody. */
export function installedForWhom({
  install,
  groups,
}: Pick<DeploymentView, 'install' | 'groups'>): string | undefined {
  if (install === 'nobody') return undefined;
  return install === 'everyone' ? install : fewNames(groups.map(({ name }) => name));
}

function toDeploymentView(
  { organization, name, title = '', disabledAt }: ServerRecord,
  deployment: Deployment,
  base: string | undefined,
): DeploymentView {
  const { publication } = deployment;
  return viewOf(deploymentViewSchema, {
    ...deployment,
    server: name,
    title,
    publication: publication
      ? {
          ...publication,
          version: publicVersion(publication),
          name: base === undefined ? null : registryName(base, { organization, name }),
          card: base === undefined ? null : cardUrl(base, organization, name),
        }
      : null,
    disabledAt,
  });
}

async function deploymentViewOf(
  server: ServerRecord,
  { db, base }: Pick<AdministrationPorts, 'db' | 'base'>,
): Promise<DeploymentView> {
  const found = await findDeployments(db, [server.id]);
  return toDeploymentView(server, deploymentOf(found, server.id), base);
}

export const deploymentList = organizationOperation({
  name: 'deployment.list',
  doc: 'List servers with the computers on which they are installed by default, and what is public of them',
  route: { method: 'GET', path: '/organizations/{organization}/deployment' },
  permission: 'server.manage',
  input: z.strictObject({ ...inOrganization, ...pageFields(['name']) }),
  output: pageOf(deploymentViewSchema).extend({
    registryUrl: z
      .string()
      .nullable()
      .describe('The address of the registry, to which clients append /v0.1/servers'),
  }),
  async run(input, { organization }, { db, base }) {
    const page = await listServers(db, { ...pageQuery(input), organizationId: organization.id });
    const ids = page.items.map(({ id }) => id);
    const found = await findDeployments(db, ids);
    const shown = toPageView(page, input, (server) =>
      toDeploymentView(server, deploymentOf(found, server.id), base),
    );
    return {
      ...shown,
      registryUrl: base === undefined ? null : registryUrl(base, organization.name),
    };
  },
});

export const deploymentRead = organizationOperation({
  name: 'deployment.read',
  doc: 'Read on whose computers a server is installed by default, and what is public of it',
  route: { method: 'GET', path: `${serverPath}/deployment` },
  permission: 'server.manage',
  input: z.strictObject(ofServer),
  output: deploymentViewSchema,
  run: async ({ server }, { organization }, ports) =>
    deploymentViewOf(await ownServer(organization.name, server, ports), ports),
});

export const deploymentSet = organizationOperation({
  name: 'deployment.set',
  doc: 'Choose on whose computers a server is installed by default; this gives nobody access',
  route: { method: 'PATCH', path: `${serverPath}/deployment` },
  permission: 'server.manage',
  input: z.strictObject({
    ...ofServer,
    install: z
      .enum(installs)
      .describe('On whose computers it is installed by default')
      .register(surfaces, {
        control: {
          kind: 'radio',
          label: 'Install by default',
          subject: 'The choice',
          choices: [
            { value: 'nobody', text: 'For nobody' },
            { value: 'everyone', text: 'For everyone in the organization' },
            { value: 'groups', text: 'For members of these groups' },
          ],
        },
      }),
    groupIds: z
      .array(ofGroup.groupId)
      .max(100)
      .default([])
      .register(surfaces, {
        control: {
          ...groupsControl,
          when: { choice: 'install', is: ['groups'], part: 'groups' },
        },
      }),
  }),
  output: deploymentViewSchema,
  target: ({ organization, server, install }) =>
    `${serverTarget({ organization, server })} install:${install}`,
  async run({ server: name, install, groupIds }, { organization }, ports) {
    if (install !== 'groups' && groupIds.length > 0) {
      throw invalidField('groupIds', 'must be empty unless it is installed for groups');
    }
    if (install === 'groups' && groupIds.length === 0) {
      throw invalidField('groupIds', 'must contain at least one group');
    }
    const server = await ownServer(organization.name, name, ports);
    const at = { id: server.id, organizationId: organization.id };
    if (!(await setInstallation(ports.db, at, { install, groupIds }))) throw unknownGroup();
    return deploymentViewOf(server, ports);
  },
});

export const deploymentPublish = organizationOperation({
  name: 'deployment.publish',
  doc: 'Publish a server: anyone can read its URL and these words in the MCP registry and in its server card, without signing in',
  route: { method: 'POST', path: `${serverPath}/publication` },
  // Publishing tells strangers that the server exists.
  permission: 'organization.manage',
  input: z.strictObject({
    ...ofServer,
    title: words(mostPublicCharacters)
      .default('')
      .describe('The public title')
      .register(surfaces, {
        option: { value: 'TITLE' },
        control: {
          kind: 'text',
          label: 'Public title',
          subject: 'The public title',
          help: 'Without one, the name of the server is shown.',
          attributes: { maxlength: String(mostPublicCharacters), autocomplete: 'off' },
        },
      }),
    description: words(mostPublicCharacters)
      .min(1)
      .describe('The public description, at most 100 characters')
      .register(surfaces, {
        option: { value: 'TEXT' },
        control: {
          kind: 'text',
          label: 'Public description',
          subject: 'The public description',
          help: 'What the server is for, in at most 100 characters.',
          attributes: { maxlength: String(mostPublicCharacters), autocomplete: 'off' },
        },
      }),
  }),
  output: deploymentViewSchema,
  target: serverTarget,
  async run({ server: name, title, description }, { organization }, ports) {
    const server = await ownServer(organization.name, name, ports);
    const at = { id: server.id, organizationId: organization.id };
    const isDone = await publishServer(ports.db, at, { title, description }, ports.clock.now());
    if (!isDone) {
      const why = `${organization.name} has published ${mostPublished} servers, which is the most`;
      throw conflict(why);
    }
    return deploymentViewOf(server, ports);
  },
});

export const deploymentUnpublish = organizationOperation({
  name: 'deployment.unpublish',
  doc: 'Stop publishing a server; copies that others made of the words remain',
  route: { method: 'DELETE', path: `${serverPath}/publication` },
  permission: 'server.manage',
  input: z.strictObject(ofServer),
  output: deploymentViewSchema,
  target: serverTarget,
  async run({ server: name }, { organization }, ports) {
    const server = await ownServer(organization.name, name, ports);
    if (!(await unpublishServer(ports.db, server.id))) throw notFound('publication');
    return deploymentViewOf(server, ports);
  },
});

const selectedGroups = groupIdsInQuery.describe(
  'Also the servers for members of these groups; without any, only those for everyone',
);

export const deploymentSelection = organizationOperation({
  name: 'deployment.selection',
  doc: 'List the servers that are installed by default for a selection, and tell whether any server is published',
  onlyReads: true,
  permission: 'server.manage',
  input: z.strictObject({ ...inOrganization, groupIds: selectedGroups }),
  output: z.object({ servers: z.array(z.string()), isAnyPublished: z.boolean() }),
  run: async ({ groupIds }, { organization }, ports) => ({
    servers: (await installedFor(organization, groupIds, ports)).map(({ name }) => name),
    isAnyPublished: (await listPublished(ports.db, organization.name)).length > 0,
  }),
});

export const deploymentFile = organizationOperation({
  name: 'deployment.file',
  doc: 'Make a file for device management with the servers that are installed by default; it contains no secret',
  route: { method: 'GET', path: '/organizations/{organization}/deployment/files/{file}' },
  permission: 'server.manage',
  input: z.strictObject({
    ...inOrganization,
    file: z.enum(assistantFileNames),
    connection: z
      .enum(connections)
      .default('direct')
      .describe('Whether assistants connect themselves, or start the installed command latchkey'),
    groupIds: selectedGroups,
  }),
  output: z
    .object({
      file: z.string(),
      fileName: z.string(),
      mediaType: z.string(),
      places: z.array(z.string()).describe('Where it belongs'),
      servers: z.array(z.string()).describe('The servers in it'),
      warning: z.string().nullable().describe('What to know before it is distributed'),
      text: z.string(),
    })
    .meta({ id: 'DeploymentFile' }),
  async run({ file, connection, groupIds }, { organization }, ports) {
    const { base } = ports;
    if (base === undefined) throw new Error('no public URL');
    const servers = await installedFor(organization, groupIds, ports);
    const { fileName, mediaType, places, allowsOnlyPublished, write } = assistantFiles[file];
    if (!allowsOnlyPublished && servers.length === 0) {
      const why = `no server is installed by default for this selection, so ${fileName} would contain none: first choose where servers are installed`;
      throw conflict(why);
    }
    const { name } = organization;
    const address = registryUrl(base, name);
    const text = write({ base, registryUrl: address, organization: name, connection, servers });
    const names = allowsOnlyPublished ? [] : servers.map((server) => server.name);
    const isEmpty = allowsOnlyPublished && (await listPublished(ports.db, name)).length === 0;
    const warning = isEmpty ? nothingPublished : null;
    return { file, fileName, mediaType, places: [...places], servers: names, warning, text };
  },
});

/** The servers that are installed for everyone, and those for members of these groups. @throws {AdministrationRefusal} */
async function installedFor(
  { id }: { readonly id: string },
  groupIds: readonly string[],
  { db }: WithDb,
): Promise<DeploymentPlan['servers']> {
  if (!(await areGroupsOf(db, id, groupIds))) throw unknownGroup();
  return listInstalled(db, id, groupIds);
}

export const deploymentOperations: readonly Operation[] = [
  deploymentList,
  deploymentRead,
  deploymentSet,
  deploymentPublish,
  deploymentUnpublish,
  deploymentSelection,
  deploymentFile,
];

import { z } from 'zod';

import { json } from '#config/option';
import { UsageError } from '#config/usage-error';
import {
  areGroupsOf,
  countAllowedMembers,
  findServerAccess,
  previewServerAccess,
  setServerAccess,
  type AccessChoice,
  type CountedPeople,
} from '#db/server-access';
import { administer, type Command } from './command.ts';
import { surfaces } from './fields.ts';
import { findGroups, groupIdsInQuery, groupsControl, unknownGroup } from './groups.ts';
import { organizationOperation, type Operation, type WithDb } from './operation.ts';
import { ofServer, ownServer, serverPath, serverTarget } from './paths.ts';
import { namedServer } from './positionals.ts';
import { affectedCell, printMade } from './print.ts';
import { invalidField, notFound } from './refusal.ts';

const path = `${serverPath}/groups`;
/** The most people that a preview names. */
const mostNamed = 50;

const accessViewSchema = z
  .object({
    server: z.string(),
    access: z
      .enum(['everyone', 'groups'])
      .describe('Whether everyone in the organization can use it, or only these groups'),
    groups: z.array(z.object({ id: z.string(), name: z.string() })),
    accessRequests: z
      .boolean()
      .describe(
        'Whether people without access see the title and description, and can ask for access',
      ),
  })
  .meta({ id: 'ServerGroups' });

/** @throws {AdministrationRefusal} `not_found` */
async function accessOf(id: string, server: string, { db }: WithDb) {
  const found = await findServerAccess(db, id);
  if (!found) throw notFound('server');
  const { access, groups, isRequestable } = found;
  return { server, access, groups: [...groups], accessRequests: isRequestable };
}

export const serverGroupsRead = organizationOperation({
  name: 'server.groups',
  doc: 'Read who may use a server: everyone, or only some groups',
  route: { method: 'GET', path },
  permission: 'people.read',
  input: z.strictObject(ofServer),
  output: accessViewSchema,
  async run({ server }, { organization }, ports) {
    const { id } = await ownServer(organization.name, server, ports);
    return accessOf(id, server, ports);
  },
});

/** The fields that choose who may use a server. */
const choice = {
  ...ofServer,
  access: z
    .enum(['everyone', 'groups'])
    .describe('Whether everyone in the organization can use it, or only the groups')
    .register(surfaces, {
      control: {
        kind: 'radio',
        label: 'Who can use this server',
        subject: 'The choice',
        choices: [
          { value: 'everyone', text: 'Everyone in the organization' },
          {
            value: 'groups',
            text: 'Only members of these groups',
            help: 'This applies to owners too.',
          },
        ],
      },
    }),
  groupIds: groupIdsInQuery.clone().register(surfaces, {
    control: { ...groupsControl, when: { choice: 'access', is: ['groups'], part: 'groups' } },
  }),
};

/** Whether people without access may ask for it. */
const accessRequestsField = z
  .boolean()
  .optional()
  .describe(
    'Whether people without access see the title and description of the server, and can ask for access; omitted, it stays as it is',
  )
  .register(surfaces, {
    control: {
      kind: 'checkbox',
      label: 'People without access can ask for it',
      help: 'They see its title and description under Your servers. Requests appear under People.',
      group: { name: 'ask', label: 'Requests' },
      when: { choice: 'access', is: ['groups'], part: 'groups' },
    },
  });

/** @throws {AdministrationRefusal} `invalid` when groups are given with `everyone`, or none with `groups` */
function checkChoice({ access, groupIds: ids }: AccessChoice): void {
  if (access === 'everyone' && ids.length > 0) {
    throw invalidField('groupIds', 'must be empty if everyone has access');
  }
  if (access === 'groups' && ids.length === 0) {
    throw invalidField('groupIds', 'must contain at least one group');
  }
}

const listed = ({ count, people }: CountedPeople) => ({ count, people: [...people] });

const countedPeople = z.object({
  count: z.int(),
  people: z
    .array(z.object({ id: z.string(), email: z.string() }))
    .describe(`The first ${mostNamed}, by e-mail address`),
});

export const serverGroupsPreview = organizationOperation({
  name: 'server.preview-groups',
  doc: 'Preview who would gain and who would lose access to a server, without changing anything',
  route: { method: 'GET', path: `${path}/preview` },
  permission: 'server.manage',
  input: z.strictObject(choice),
  output: z
    .object({
      gains: countedPeople,
      loses: countedPeople,
      allowed: z.int().describe('The number of people who could use the server then'),
    })
    .meta({ id: 'ServerGroupsPreview' }),
  async run({ server, ...chosen }, { organization }, ports) {
    checkChoice(chosen);
    const { id } = await ownServer(organization.name, server, ports);
    if (!(await areGroupsOf(ports.db, organization.id, chosen.groupIds))) throw unknownGroup();
    const { gains, loses } = await previewServerAccess(ports.db, id, chosen, mostNamed);
    const allowed = await countAllowedMembers(ports.db, id, chosen);
    return { gains: listed(gains), loses: listed(loses), allowed };
  },
});

export const serverGroupsSet = organizationOperation({
  name: 'server.set-groups',
  doc: 'Restrict a server to groups, or open it to everyone in the organization; people outside the groups lose access immediately',
  route: { method: 'PATCH', path },
  permission: 'server.manage',
  input: z.strictObject({ ...choice, accessRequests: accessRequestsField }),
  output: accessViewSchema,
  target: serverTarget,
  async run({ server, accessRequests: isRequestable, ...chosen }, { organization }, ports) {
    checkChoice(chosen);
    const { id } = await ownServer(organization.name, server, ports);
    if (!(await setServerAccess(ports.db, id, { ...chosen, isRequestable }))) throw unknownGroup();
    return accessOf(id, server, ports);
  },
});

export const serverGroupOperations: readonly Operation[] = [
  serverGroupsRead,
  serverGroupsPreview,
  serverGroupsSet,
];

export const serverSetGroups: Command = {
  words: 'server set-groups',
  positionals: ['ORG/SERVER'],
  options: [
    { name: 'group', value: 'GROUP', repeated: true, doc: 'a group that can use the server' },
    { name: 'everyone', doc: 'open the server to everyone in the organization' },
    {
      name: 'requests',
      value: 'WHETHER',
      doc: 'whether people without access see the title and can ask for access: on or off',
    },
    { name: 'dry-run', doc: 'print who would gain and lose access, without changing anything' },
    json,
  ],
  doc: 'restrict a server to groups, or open it to everyone in the organization',
  async run(input, { out, ...ports }) {
    const { organization, name: server } = await namedServer(
      input.positionals[0] ?? '',
      ports.stores,
    );
    const [names, isForEveryone] = [input.list('group'), input.flag('everyone')];
    const requests = input.text('requests');
    if (requests !== undefined && requests !== 'on' && requests !== 'off') {
      throw new UsageError(`--requests '${requests}' is neither on nor off`);
    }
    const isChosen = isForEveryone || names.length > 0;
    if ((isForEveryone && names.length > 0) || (!isChosen && requests === undefined)) {
      throw new UsageError('give --group, or --everyone, but not both');
    }
    const of = { organization, server };
    const name = `${organization}/${server}`;
    const present = isChosen ? undefined : await administer(serverGroupsRead, of, ports);
    const ids =
      present?.groups.map(({ id }) => id) ?? (await findGroups(organization, names, ports));
    const access = present?.access ?? (isForEveryone ? 'everyone' : 'groups');
    const wanted = { ...of, access, groupIds: ids };
    if (input.flag('dry-run')) {
      const { gains, loses, allowed } = await administer(serverGroupsPreview, wanted, ports);
      const isJson = input.flag('json');
      const cell = (people: CountedPeople) => affectedCell(named(people), { json: isJson });
      const facts = { name, access, allowed, gains: cell(gains), loses: cell(loses) };
      return printMade(facts, { json: isJson, out });
    }
    const { groups, accessRequests } = await administer(
      serverGroupsSet,
      { ...wanted, ...(requests !== undefined && { accessRequests: requests === 'on' }) },
      ports,
    );
    const facts = {
      name,
      access,
      groups: groups.map((group) => group.name),
      requests: accessRequests ? 'on' : 'off',
    };
    return printMade(facts, { json: input.flag('json'), out });
  },
};

/** The e-mail addresses of people, and how many more there are. */
function named({ count, people }: CountedPeople): string[] {
  const more = count - people.length;
  return [...people.map(({ email }) => email), ...(more > 0 ? [`and ${more} more`] : [])];
}

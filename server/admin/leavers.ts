import { z } from 'zod';

import { handOver, listOwnerless, type OwnerlessResource } from '#db/leavers';
import { findMember } from '#db/people';
import { command, listCommand, type Command } from './command.ts';
import { fields } from './fields.ts';
import { mayDo, organizationOperation, type Operation, type WithDb } from './operation.ts';
import {
  organizationArgument,
  organizationIn,
  personArgument,
  textArgument,
} from './positionals.ts';
import { conflict, invalidField, notFound } from './refusal.ts';
import { viewOf } from './views.ts';

const mostListed = 500;
const kinds = ['key', 'client', 'agent'] as const;

const ownerlessViewSchema = z
  .object({
    kind: z.enum(kinds),
    id: z.string(),
    name: z.string(),
    server: z.string().nullable().describe('The server of a key or client'),
    agent: z.string().nullable().describe('The agent of a key'),
    formerOwner: z.string().describe('The id of the person who left'),
    formerEmail: z.string().nullable().describe('Their address; null if the account is deleted'),
    ownerlessAt: fields.at.describe('When they left'),
    suspended: z.boolean(),
  })
  .meta({ id: 'OwnerlessResource' });

export type OwnerlessView = z.output<typeof ownerlessViewSchema>;

const toView = (resource: OwnerlessResource) =>
  viewOf(ownerlessViewSchema, { ...resource, suspended: resource.isSuspended });

const inOrganization = { organization: fields.organization };
const path = '/organizations/{organization}/ownerless';

export const leaverList = organizationOperation({
  name: 'leaver.list',
  doc: `List keys, clients and agents that need an owner because theirs left, at most ${mostListed}`,
  route: { method: 'GET', path },
  permission: 'agent.read',
  input: z.strictObject(inOrganization),
  output: z.object({ items: z.array(ownerlessViewSchema) }),
  run: async (_input, { organization: { id } }, { db }) => ({
    items: (await listOwnerless(db, id, mostListed)).map(toView),
  }),
});

export const leaverHandOver = organizationOperation({
  name: 'leaver.hand-over',
  doc: 'Make an owner or admin, yourself if omitted, the owner of a key, client or agent whose owner left; it works again immediately',
  route: { method: 'POST', path: `${path}/{resourceId}` },
  permission: 'key.manage',
  input: z.strictObject({
    ...inOrganization,
    resourceId: z.string().max(100).describe('The id of the key, client or agent'),
    userId: z.string().max(100).optional().describe('Yourself if omitted'),
  }),
  output: z.object({ kind: z.enum(kinds), id: z.string(), ownerId: z.string() }),
  target: ({ resourceId: id }, done) =>
    `${kindOf(id) ?? 'resource'}:${id}${done ? ` user:${done.ownerId}` : ''}`,
  async run({ resourceId: id, userId }, { organization, actor }, ports) {
    const kind = kindOf(id);
    if (!kind) throw notFound('resource');
    const to = userId ?? (actor.type === 'person' ? actor.userId : undefined);
    if (to === undefined) throw invalidField('userId', 'is missing');
    await checkMayOwn(organization.id, to, ports);
    switch (await handOver(ports.db, organization.id, { kind, id }, to)) {
      case 'stranger':
        throw notFound('person');
      case 'unknown':
        throw notFound('resource');
      case 'done':
        return { kind, id, ownerId: to };
    }
  },
});

function kindOf(id: string): (typeof kinds)[number] | undefined {
  return kinds.find((kind) => id.startsWith(`${kind}_`));
}

/** Only a member who may manage keys can own keys, clients and agents. @throws {AdministrationRefusal} `not_found`, `conflict` */
export async function checkMayOwn(
  organizationId: string,
  userId: string,
  { db }: WithDb,
): Promise<void> {
  const member = await findMember(db, organizationId, userId);
  if (!member) throw notFound('person');
  if (mayDo(member.role, 'key.manage')) return;
  throw conflict(`${member.email} is neither an owner nor an admin`);
}

export const leaverOperations: readonly Operation[] = [leaverList, leaverHandOver];

export const leaverCommands: readonly Command[] = [
  listCommand(leaverList, {
    words: 'leaver list',
    positionals: [organizationArgument],
    doc: 'list keys, clients and agents that need an owner because theirs left',
    prints: [
      'kind',
      'id',
      'name',
      'server',
      'agent',
      'formerEmail',
      'ownerlessAt',
      { suspended: ({ suspended }) => (suspended ? 'yes' : 'no') },
    ],
    empty: 'everything has an owner',
  }),
  command(leaverHandOver, {
    words: 'leaver hand-over',
    positionals: [organizationArgument, textArgument('ID', 'resourceId'), personArgument],
    doc: 'hand over a key, client or agent whose owner left to an owner or admin; it works again',
    prints: ['kind', 'id', { organization: (_, { given }) => organizationIn(given) }, 'ownerId'],
  }),
];

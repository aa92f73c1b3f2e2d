import { z } from 'zod';

import { hashSecret, randomBase62 } from '#secrets/secrets';
import { roles } from '#model/roles';
import { randomToken } from '#accounts/sessions';
import {
  insertInvitation,
  listInvitations,
  revokeInvitation,
  type Invitation,
} from '#db/invitations';
import { listGroups } from '#db/groups';
import { actorName, organizationOperation, type Operation } from './operation.ts';
import { invalidField, notFound } from './refusal.ts';
import { fields, surfaces, words } from './fields.ts';
import { checkOwnerChange, roleControl } from './people.ts';
import { checkBaseUrl } from '#config/base-url';
import { baseUrl, json } from '#config/option';
import { administer, command, listCommand, type Command } from './command.ts';
import { findGroups } from './groups.ts';
import { organizationArgument, organizationIn, textArgument } from './positionals.ts';
import { printMade } from './print.ts';

const lifeSeconds = 7 * 24 * 3600;
const inOrganization = { organization: fields.organization };
const invitationsPath = '/organizations/{organization}/invitations';

const invitationViewSchema = z
  .object({
    id: z.string(),
    role: z.enum(roles),
    groupIds: z.array(z.string()),
    note: z.string().describe('The intended recipient'),
    createdBy: z.string(),
    createdAt: fields.at,
    expiresAt: fields.at,
  })
  .meta({ id: 'Invitation' });

export const invitationList = organizationOperation({
  name: 'invitation.list',
  doc: 'List the pending invitations',
  route: { method: 'GET', path: invitationsPath },
  permission: 'people.manage',
  input: z.strictObject(inOrganization),
  output: z.object({ items: z.array(invitationViewSchema) }),
  async run(_input, { organization }, { db, clock }) {
    return {
      items: (await listInvitations(db, organization.id, clock.now())).map(toInvitationView),
    };
  },
});

export const invitationCreate = organizationOperation({
  name: 'invitation.create',
  doc: 'Create a link that lets one person join within seven days; only this response contains it',
  route: { method: 'POST', path: invitationsPath },
  permission: 'people.manage',
  input: z.strictObject({
    ...inOrganization,
    role: z.enum(roles).register(surfaces, { control: roleControl }),
    groupIds: z
      .array(z.string().max(100))
      .max(100)
      .default([])
      .register(surfaces, {
        control: {
          kind: 'checkboxes',
          name: 'group',
          label: 'Groups',
          subject: 'The list of groups',
          choices: [],
        },
      }),
    note: words(200)
      .default('')
      .register(surfaces, {
        control: {
          kind: 'text',
          label: 'Recipient',
          subject: 'The recipient',
          help: 'Shown in your list of invitations. Anyone with the link can use it.',
          attributes: { maxlength: '200', autocomplete: 'off' },
        },
      }),
  }),
  output: invitationViewSchema
    .extend({ path: z.string().describe('The path below the base URL; shown only once') })
    .meta({ id: 'CreatedInvitation' }),
  target: (_, made) => made && `invitation:${made.id}`,
  async run({ role, groupIds, note }, { organization, role: by, actor }, ports) {
    checkOwnerChange(by, role);
    const known = new Set((await listGroups(ports.db, organization.id)).map(({ id }) => id));
    if (!groupIds.every((id) => known.has(id))) {
      throw invalidField('groupIds', 'names a group that does not exist');
    }
    const linkToken = randomToken();
    const createdAt = ports.clock.now();
    const made = {
      id: `invitation_${randomBase62(16)}`,
      organizationId: organization.id,
      role,
      groupIds,
      note,
      createdBy: actorName(actor),
      createdAt,
      expiresAt: createdAt + lifeSeconds,
    };
    await insertInvitation(ports.db, { ...made, tokenHash: hashSecret(linkToken) });
    return { ...toInvitationView(made), path: `/invitation/${linkToken}` };
  },
});

export const invitationRevoke = organizationOperation({
  name: 'invitation.revoke',
  doc: 'Revoke an invitation; its link stops working',
  route: { method: 'DELETE', path: `${invitationsPath}/{invitationId}` },
  permission: 'people.manage',
  input: z.strictObject({ ...inOrganization, invitationId: z.string().max(100) }),
  output: z.object({ id: z.string() }),
  target: ({ invitationId }) => `invitation:${invitationId}`,
  async run({ invitationId: id }, { organization, role: by }, { db, clock }) {
    const pending = await listInvitations(db, organization.id, clock.now());
    const invitation = pending.find((one) => one.id === id);
    if (!invitation) throw notFound('invitation');
    checkOwnerChange(by, invitation.role);
    if (!(await revokeInvitation(db, organization.id, id))) throw notFound('invitation');
    return { id };
  },
});

function toInvitationView(
  invitation: Omit<Invitation, 'organization' | 'organizationTitle'>,
): z.output<typeof invitationViewSchema> {
  const { id, role, groupIds, note, createdBy, createdAt, expiresAt } = invitation;
  return { id, role, groupIds: [...groupIds], note, createdBy, createdAt, expiresAt };
}

export const invitationOperations: readonly Operation[] = [
  invitationList,
  invitationCreate,
  invitationRevoke,
];

const createCommand: Command = {
  words: 'invitation create',
  positionals: ['ORG'],
  options: [
    { name: 'role', value: 'ROLE', required: true, doc: `one of ${roles.join(', ')}` },
    { name: 'group', value: 'GROUP', repeated: true, doc: 'a group that the person joins' },
    { name: 'note', value: 'N', doc: 'the intended recipient' },
    baseUrl,
    json,
  ],
  doc: 'create a link that lets one person join within seven days',
  async run(input, { out, ...ports }) {
    const base = checkBaseUrl(input.must('base-url'));
    const organization = input.positionals[0] ?? '';
    const groupIds = await findGroups(organization, input.list('group'), ports);
    const note = input.text('note') ?? '';
    const chosen = { organization, role: input.must('role'), groupIds, note };
    const { id, role, expiresAt, path } = await administer(invitationCreate, chosen, ports);
    const facts = { id, role, expires_at: expiresAt, link: base + path };
    printMade(facts, { json: input.flag('json'), secret: 'link', out });
  },
};

export const invitationCommands: readonly Command[] = [
  createCommand,
  listCommand(invitationList, {
    words: 'invitation list',
    positionals: [organizationArgument],
    doc: 'list the pending invitations',
    prints: ['id', 'role', 'note', 'createdBy', 'createdAt', 'expiresAt'],
    empty: (given) =>
      `no pending invitations: latchkey-server invitation create ${organizationIn(given)} --role member`,
  }),
  command(invitationRevoke, {
    words: 'invitation revoke',
    positionals: [organizationArgument, textArgument('ID', 'invitationId')],
    doc: 'revoke an invitation; its link stops working',
    prints: ['id', { revoked_at: (_, { now }) => now }],
  }),
];

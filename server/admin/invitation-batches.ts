import { z } from 'zod';

import { insertInvitations, listInvitations, renewInvitation } from '#db/invitations';
import { roles } from '#model/roles';
import { fields, surfaces } from './fields.ts';
import { groupsControl } from './groups.ts';
import {
  type ListedPerson,
  longestList,
  mostListed,
  readInvitationList,
  skipReasons,
} from './invitation-list.ts';
import {
  createdInvitationSchema,
  invitationSeconds,
  invitationsPath,
  type InvitationView,
  newInvitation,
  newLink,
  sendField,
  sendInvitations,
  toInvitationView,
} from './invitations.ts';
import {
  actorName,
  type AuditPlace,
  noteDone,
  organizationOperation,
  type Operation,
  type WithDbAndClock,
} from './operation.ts';
import { checkOwnerChange, roleControl } from './people.ts';
import { type AdministrationRefusal, conflict, invalidField, notFound } from './refusal.ts';

const inOrganization = { organization: fields.organization };

const manyInput = {
  ...inOrganization,
  list: z
    .string()
    .max(longestList)
    .describe(
      `Up to ${mostListed} addresses, or CSV with the columns email, role and groups; a first line with their names is optional`,
    )
    .register(surfaces, {
      control: {
        kind: 'textarea',
        label: 'People',
        // Each problem names its line.
        subject: '',
        help: `Addresses, or CSV with the columns email, role and groups. A first line with these names is optional. Separate several groups by semicolons. At most ${mostListed} people.`,
        rows: 12,
        attributes: { spellcheck: 'false', autocomplete: 'off', maxlength: String(longestList) },
      },
    }),
  role: z
    .enum(roles)
    .default('member')
    .describe('For people without a role in the list')
    .register(surfaces, { control: { ...roleControl, label: 'Role, unless the list names one' } }),
  groupIds: z
    .array(z.string().max(100))
    .max(100)
    .default([])
    .describe('For people without groups in the list')
    .register(surfaces, {
      control: { ...groupsControl, label: 'Groups, unless the list names some' },
    }),
};

const skippedSchema = z.array(
  z.object({
    line: z.int(),
    email: z.string(),
    why: z
      .enum(skipReasons)
      .describe('A member already, invited already, or earlier in the same list'),
  }),
);

const ignoredSchema = z.array(z.string()).describe('The columns of the list that are not used');

export const invitationPreview = organizationOperation({
  name: 'invitation.preview',
  doc: 'Check a list of people to invite, without inviting anyone',
  route: { method: 'POST', path: `${invitationsPath}/preview` },
  onlyReads: true,
  permission: 'people.manage',
  input: z.strictObject(manyInput),
  output: z
    .object({
      items: z.array(
        z.object({
          line: z.int(),
          email: z.string(),
          note: z.string(),
          role: z.enum(roles),
          groups: z.array(z.string()).describe('The names of the groups'),
        }),
      ),
      skipped: skippedSchema,
      ignoredColumns: ignoredSchema,
    })
    .meta({ id: 'InvitationPreview' }),
  async run({ list, ...usual }, { organization, role: by }, ports) {
    checkOwnerChange(by, usual.role);
    const at = { organizationId: organization.id, by };
    const { people, ignored } = await readInvitationList(list, usual, at, ports);
    const items = people
      .filter(({ skipped }) => skipped === undefined)
      .map(({ line, email, name, role, groups }) => {
        return { line, email, note: name, role, groups: groups.map((group) => group.name) };
      });
    return { items, skipped: skippedOf(people), ignoredColumns: [...ignored] };
  },
});

export const invitationImport = organizationOperation({
  name: 'invitation.import',
  doc: 'Invite all people of a list, or none if a line is faulty; only this response contains the links',
  route: { method: 'POST', path: `${invitationsPath}/import` },
  permission: 'people.manage',
  input: z.strictObject({ ...manyInput, send: sendField }),
  output: z
    .object({
      items: z.array(createdInvitationSchema),
      skipped: skippedSchema,
      ignoredColumns: ignoredSchema,
    })
    .meta({ id: 'ImportedInvitations' }),
  target: (_, done) => done && countedInvitations(done.items.length),
  async run({ list, send, ...usual }, { organization, role: by, actor }, ports) {
    checkOwnerChange(by, usual.role);
    const at = { organizationId: organization.id, by };
    const { people, ignored } = await readInvitationList(list, usual, at, ports);
    const now = ports.clock.now();
    const made = people
      .filter(({ skipped }) => skipped === undefined)
      .map(({ email, name, role, groups }) => {
        const wanted = { role, groupIds: groups.map(({ id }) => id), note: name, email };
        return newInvitation(wanted, { organizationId: organization.id, actor, now });
      });
    await insertInvitations(ports.db, made, now);
    if (send) await sendInvitations(made, 'invitation', { organization, actor }, ports);
    await auditEach(made, 'invitation.create', { organization, actor }, ports);
    return {
      items: made.map((one) => Object.assign(toInvitationView(one, now), { path: one.path })),
      skipped: skippedOf(people),
      ignoredColumns: [...ignored],
    };
  },
});

function countedInvitations(count: number): string {
  return `${count} ${count === 1 ? 'invitation' : 'invitations'}`;
}

function skippedOf(people: readonly ListedPerson[]): z.output<typeof skippedSchema> {
  return people.flatMap(({ line, email, skipped }) =>
    skipped ? [{ line, email, why: skipped }] : [],
  );
}

/** Adds an entry to the audit log for each invitation, so that each can be found by its id. */
async function auditEach(
  invitations: readonly { readonly id: string }[],
  action: 'invitation.create' | 'invitation.renew',
  at: AuditPlace,
  ports: WithDbAndClock,
): Promise<void> {
  for (const { id } of invitations) {
    await noteDone({ action, target: `invitation:${id}` }, at, ports);
  }
}

export const invitationRenew = organizationOperation({
  name: 'invitation.renew',
  doc: 'Give invitations a new link and seven more days; only this response contains the links. Earlier links of pending invitations stay valid',
  route: { method: 'POST', path: `${invitationsPath}/renew` },
  permission: 'people.manage',
  input: z.strictObject({
    ...inOrganization,
    invitationIds: z.array(z.string().max(100)).min(1).max(mostListed).optional(),
    all: z
      .enum(['expired', 'pending'])
      .optional()
      .describe(`Instead of \`invitation_ids\`: the newest ${mostListed} of these`),
    send: sendField,
  }),
  output: z.object({ items: z.array(createdInvitationSchema) }).meta({ id: 'RenewedInvitations' }),
  target: (_, done) => done && countedInvitations(done.items.length),
  async run({ invitationIds, all, send }, { organization, role: by, actor }, ports) {
    if ((invitationIds === undefined) === (all === undefined)) {
      throw invalidField('invitationIds', 'or all is needed, and not both');
    }
    const now = ports.clock.now();
    const stored = await listInvitations(ports.db, organization.id, now, 'all');
    const views = stored.map((one) => toInvitationView(one, now));
    const chosen = views.filter(({ id, status, email }) =>
      invitationIds ? invitationIds.includes(id) : status === all && (!send || email !== null),
    );
    if (chosen.length < (invitationIds ? new Set(invitationIds).size : 1)) {
      throw notFound('invitation');
    }
    const unaddressed = send ? chosen.find(({ email }) => email === null) : undefined;
    if (unaddressed) throw withoutAddress(unaddressed);
    const renewed: z.output<typeof createdInvitationSchema>[] = [];
    for (const invitation of chosen.slice(0, mostListed)) {
      checkOwnerChange(by, invitation.role);
      const { path, tokenHash } = newLink();
      const change = {
        createdBy: actorName(actor),
        createdAt: now,
        expiresAt: now + invitationSeconds,
      };
      const link = { tokenHash, keepsLinks: invitation.status === 'pending' };
      const { id } = invitation;
      await renewInvitation(ports.db, organization.id, id, { ...change, ...link });
      renewed.push({ ...invitation, ...change, status: 'pending', path });
    }
    if (send) await sendInvitations(renewed, 'reminder', { organization, actor }, ports);
    await auditEach(renewed, 'invitation.renew', { organization, actor }, ports);
    return { items: renewed };
  },
});

function withoutAddress({ note }: InvitationView): AdministrationRefusal {
  const which = note === '' ? 'an invitation' : `the invitation for “${note}”`;
  return conflict(`${which} has no address: renew it without sending`);
}

export const invitationBatchOperations: readonly Operation[] = [
  invitationPreview,
  invitationImport,
  invitationRenew,
];

import { z } from 'zod';

import { randomToken } from '#accounts/sessions';
import { insertAuditEvent } from '#db/audit';
import { listGroups } from '#db/groups';
import {
  insertInvitation,
  insertInvitations,
  type Invitation,
  listInvitations,
  renewInvitation,
  revokeInvitation,
} from '#db/invitations';
import type { EpochSeconds } from '#model/clock';
import { isEmail } from '#model/email';
import { roles } from '#model/roles';
import { hashSecret, randomBase62 } from '#secrets/secrets';
import { type FieldControl, fields, surfaces, words } from './fields.ts';
import {
  checkRoom,
  type ListedPerson,
  longestList,
  mostListed,
  readInvitationList,
  skipReasons,
} from './invitation-list.ts';
import {
  type Actor,
  actorName,
  type AdministrationPorts,
  organizationOperation,
  type Operation,
} from './operation.ts';
import { pageFields, pageOf } from './paging.ts';
import { checkOwnerChange, roleControl } from './people.ts';
import { invalidField, notFound } from './refusal.ts';

const lifeSeconds = 7 * 24 * 3600;
const inOrganization = { organization: fields.organization };
const ofInvitation = { ...inOrganization, invitationId: z.string().max(100) };
const invitationsPath = '/organizations/{organization}/invitations';

/** How forms take groups. Pages offer those of the organization. */
const groupsControl = {
  kind: 'checkboxes',
  name: 'group',
  label: 'Groups',
  subject: 'The list of groups',
  choices: [],
} as const satisfies FieldControl;

const invitationViewSchema = z
  .object({
    id: z.string(),
    email: z.string().nullable().describe('The address that it is for'),
    role: z.enum(roles),
    groupIds: z.array(z.string()),
    note: z.string().describe('The intended recipient'),
    status: z.enum(['pending', 'expired']),
    createdBy: z.string(),
    createdAt: fields.at,
    expiresAt: fields.at,
  })
  .meta({ id: 'Invitation' });

export type InvitationView = z.output<typeof invitationViewSchema>;

const createdInvitationSchema = invitationViewSchema
  .extend({ path: z.string().describe('The path below the base URL; shown only once') })
  .meta({ id: 'CreatedInvitation' });

const paging = pageFields(['created_at', 'expires_at', 'recipient'], { order: 'desc' });

export const invitationList = organizationOperation({
  name: 'invitation.list',
  doc: 'List the invitations that were not accepted: those that are pending, and those that expired in the last 30 days',
  route: { method: 'GET', path: invitationsPath },
  permission: 'people.manage',
  input: z.strictObject({
    ...inOrganization,
    ...paging,
    status: z.enum(['pending', 'expired']).optional().describe('All if omitted'),
  }),
  output: pageOf(invitationViewSchema),
  async run(input, { organization }, { db, clock }) {
    const now = clock.now();
    const { status, page, limit } = input;
    const text = input.text?.toLowerCase() ?? '';
    const all = (await listInvitations(db, organization.id, now, 'all'))
      .map((one) => toInvitationView(one, now))
      .filter((one) => status === undefined || one.status === status)
      .filter((one) => recipientOf(one).includes(text));
    const sorted = sortedBy(all, input.sort, input.order === 'desc');
    const items = sorted.slice((page - 1) * limit, page * limit);
    return { items, total: all.length, page, limit };
  },
});

function recipientOf({ email, note }: InvitationView): string {
  return `${email ?? ''} ${note}`.trim().toLowerCase();
}

function sortedBy(
  all: readonly InvitationView[],
  sort: 'created_at' | 'expires_at' | 'recipient',
  isDescending: boolean,
): InvitationView[] {
  const direction = isDescending ? -1 : 1;
  return all.toSorted((one, other) => {
    if (sort === 'created_at') return direction * (one.createdAt - other.createdAt);
    if (sort === 'expires_at') return direction * (one.expiresAt - other.expiresAt);
    const [mine, theirs] = [recipientOf(one), recipientOf(other)];
    return mine === theirs ? 0 : mine < theirs ? -direction : direction;
  });
}

export const invitationRead = organizationOperation({
  name: 'invitation.read',
  doc: 'Read an invitation that was not accepted yet',
  route: { method: 'GET', path: `${invitationsPath}/{invitationId}` },
  permission: 'people.manage',
  input: z.strictObject(ofInvitation),
  output: invitationViewSchema,
  run: async ({ invitationId }, { organization }, ports) =>
    ownInvitation(organization.id, invitationId, ports),
});

/** @throws {AdministrationRefusal} `not_found` */
async function ownInvitation(
  organizationId: string,
  id: string,
  { db, clock }: Pick<AdministrationPorts, 'db' | 'clock'>,
): Promise<InvitationView> {
  const now = clock.now();
  const all = await listInvitations(db, organizationId, now, 'all');
  const invitation = all.find((one) => one.id === id);
  if (!invitation) throw notFound('invitation');
  return toInvitationView(invitation, now);
}

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
      .register(surfaces, { control: groupsControl }),
    email: z
      .string()
      .trim()
      .refine(isEmail, 'is not an e-mail address, for example dana@example.com')
      .optional()
      .describe('The address that it is for; anyone with the link can accept it'),
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
  output: createdInvitationSchema,
  target: (_, made) => made && `invitation:${made.id}`,
  async run(asked, { organization, role: by, actor }, ports) {
    checkOwnerChange(by, asked.role);
    const known = new Set((await listGroups(ports.db, organization.id)).map(({ id }) => id));
    if (!asked.groupIds.every((id) => known.has(id))) {
      throw invalidField('groupIds', 'names a group that does not exist');
    }
    await checkRoom(ports.db, organization.id, 1);
    const now = ports.clock.now();
    const made = newInvitation(asked, { organizationId: organization.id, actor, now });
    await insertInvitation(ports.db, made);
    return { ...toInvitationView(made, now), path: made.path };
  },
});

/** An invitation with its link, still to be stored. */
function newInvitation(
  wanted: Pick<Invitation, 'role' | 'groupIds' | 'note' | 'email'>,
  at: { readonly organizationId: string; readonly actor: Actor; readonly now: EpochSeconds },
) {
  const { organizationId, actor, now } = at;
  const { role, groupIds, note, email } = wanted;
  return {
    id: `invitation_${randomBase62(16)}`,
    organizationId,
    role,
    groupIds,
    note,
    email,
    createdBy: actorName(actor),
    createdAt: now,
    expiresAt: now + lifeSeconds,
    ...newLink(),
  };
}

function newLink(): { readonly path: string; readonly tokenHash: string } {
  const linkToken = randomToken();
  return { path: `/invitation/${linkToken}`, tokenHash: hashSecret(linkToken) };
}

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
      ignoredColumns: z.array(z.string()),
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
  input: z.strictObject(manyInput),
  output: z
    .object({ items: z.array(createdInvitationSchema), skipped: skippedSchema })
    .meta({ id: 'ImportedInvitations' }),
  target: (_, done) => done && countedInvitations(done.items.length),
  async run({ list, ...usual }, { organization, role: by, actor }, ports) {
    checkOwnerChange(by, usual.role);
    const at = { organizationId: organization.id, by };
    const { people } = await readInvitationList(list, usual, at, ports);
    const now = ports.clock.now();
    const made = people
      .filter(({ skipped }) => skipped === undefined)
      .map(({ email, name, role, groups }) => {
        const wanted = { role, groupIds: groups.map(({ id }) => id), note: name, email };
        return newInvitation(wanted, { organizationId: organization.id, actor, now });
      });
    await insertInvitations(ports.db, made, now);
    await auditEach(made, 'invitation.create', { organization: organization.name, actor }, ports);
    return {
      items: made.map((one) => Object.assign(toInvitationView(one, now), { path: one.path })),
      skipped: skippedOf(people),
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

/** An entry for each invitation, so that each can be found by its id. */
async function auditEach(
  invitations: readonly { readonly id: string }[],
  action: 'invitation.create' | 'invitation.renew',
  { organization, actor }: { readonly organization: string; readonly actor: Actor },
  { db, clock }: Pick<AdministrationPorts, 'db' | 'clock'>,
): Promise<void> {
  for (const { id } of invitations) {
    await insertAuditEvent(db, {
      at: clock.now(),
      actor: actorName(actor),
      organization,
      action,
      target: `invitation:${id}`,
      address: actor.address,
      requestId: actor.requestId,
      outcome: 'done',
    });
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
    all: z.enum(['expired', 'pending']).optional().describe('Instead of `invitation_ids`'),
  }),
  output: z.object({ items: z.array(createdInvitationSchema) }).meta({ id: 'RenewedInvitations' }),
  target: (_, done) => done && countedInvitations(done.items.length),
  async run({ invitationIds, all }, { organization, role: by, actor }, ports) {
    if ((invitationIds === undefined) === (all === undefined)) {
      throw invalidField('invitationIds', 'or all is needed, and not both');
    }
    const now = ports.clock.now();
    const stored = await listInvitations(ports.db, organization.id, now, 'all');
    const views = stored.map((one) => toInvitationView(one, now));
    const chosen = views.filter(({ id, status }) => invitationIds?.includes(id) ?? status === all);
    if (chosen.length < (invitationIds ? new Set(invitationIds).size : 1)) {
      throw notFound('invitation');
    }
    const renewed: z.output<typeof createdInvitationSchema>[] = [];
    for (const invitation of chosen.slice(0, mostListed)) {
      checkOwnerChange(by, invitation.role);
      const { path, tokenHash } = newLink();
      const change = {
        createdBy: actorName(actor),
        createdAt: now,
        expiresAt: now + lifeSeconds,
      };
      const link = { tokenHash, keepsLinks: invitation.status === 'pending' };
      const { id } = invitation;
      await renewInvitation(ports.db, organization.id, id, { ...change, ...link });
      renewed.push({ ...invitation, ...change, status: 'pending', path });
    }
    await auditEach(renewed, 'invitation.renew', { organization: organization.name, actor }, ports);
    return { items: renewed };
  },
});

export const invitationRevoke = organizationOperation({
  name: 'invitation.revoke',
  doc: 'Revoke an invitation; its link stops working',
  route: { method: 'DELETE', path: `${invitationsPath}/{invitationId}` },
  permission: 'people.manage',
  input: z.strictObject(ofInvitation),
  output: z.object({ id: z.string() }),
  target: ({ invitationId }) => `invitation:${invitationId}`,
  async run({ invitationId: id }, { organization, role: by }, ports) {
    const invitation = await ownInvitation(organization.id, id, ports);
    checkOwnerChange(by, invitation.role);
    if (!(await revokeInvitation(ports.db, organization.id, id))) throw notFound('invitation');
    return { id };
  },
});

function toInvitationView(
  invitation: Omit<Invitation, 'organization' | 'organizationTitle'>,
  now: EpochSeconds,
): InvitationView {
  const { id, email = null, role, groupIds, note, createdBy, createdAt, expiresAt } = invitation;
  const status = expiresAt > now ? 'pending' : 'expired';
  return {
    id,
    email,
    role,
    groupIds: [...groupIds],
    note,
    status,
    createdBy,
    createdAt,
    expiresAt,
  };
}

export const invitationOperations: readonly Operation[] = [
  invitationList,
  invitationRead,
  invitationCreate,
  invitationPreview,
  invitationImport,
  invitationRenew,
  invitationRevoke,
];

import { z } from 'zod';

import { randomToken } from '#accounts/sessions';
import { listGroups } from '#db/groups';
import {
  insertInvitation,
  type NewInvitation,
  listInvitations,
  revokeInvitation,
} from '#db/invitations';
import { findMailsAbout } from '#db/mail';
import type { Organization } from '#db/organizations';
import { findUser } from '#db/people';
import type { EpochSeconds } from '#model/clock';
import { isEmail } from '#model/email';
import { roles } from '#model/roles';
import { hashSecret, randomBase62 } from '#secrets/secrets';
import { fields, surfaces, words } from './fields.ts';
import { groupsControl, unknownGroup } from './groups.ts';
import { checkRoom, skipper } from './invitation-list.ts';
import { enqueueMails } from './mail.ts';
import {
  type Actor,
  actorName,
  type AdministrationPorts,
  organizationOperation,
  type Operation,
  type WithDbAndClock,
} from './operation.ts';
import { pageFields, pageOf } from './paging.ts';
import { checkOwnerChange, roleControl } from './people.ts';
import { conflict, invalidField, notFound } from './refusal.ts';
import { viewOf } from './views.ts';

/** How long an invitation is valid. */
export const invitationSeconds = 7 * 24 * 3600;
const inOrganization = { organization: fields.organization };
const ofInvitation = { ...inOrganization, invitationId: z.string().max(100) };
export const invitationsPath = '/organizations/{organization}/invitations';

/** Whether the links are also sent by e-mail. */
export const sendField = z
  .boolean()
  .default(false)
  .describe('Whether the mail server of the organization also sends the link to the address')
  .register(surfaces, {
    control: {
      kind: 'checkbox',
      group: { name: 'mail', label: 'E-mail' },
      label: 'Send the link by e-mail',
      help: 'The mail server of the organization sends it. Otherwise it is shown once, for you to send.',
    },
  });

const invitationViewSchema = z
  .object({
    id: z.string(),
    email: z.string().nullable().describe('The address that it is for'),
    role: z.enum(roles),
    groupIds: z.array(z.string()),
    note: z.string().describe('The intended recipient'),
    status: z.enum(['pending', 'expired']),
    mail: z
      .object({
        status: z.enum(['waiting', 'sent', 'refused']),
        answer: z.string().nullable().describe('What the mail server did last, as a predicate'),
        at: fields.at,
      })
      .nullable()
      .describe('The last mail about it'),
    createdBy: z.string(),
    createdAt: fields.at,
    expiresAt: fields.at,
  })
  .meta({ id: 'Invitation' });

export type InvitationView = z.output<typeof invitationViewSchema>;

export const createdInvitationSchema = invitationViewSchema
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
    await addMails(items, db);
    return { items, total: all.length, page, limit };
  },
});

/** Adds to each invitation the last mail about it. */
async function addMails(items: InvitationView[], db: AdministrationPorts['db']): Promise<void> {
  const mails = await findMailsAbout(
    db,
    items.map(({ id }) => id),
  );
  for (const invitation of items) {
    const mail = mails.get(invitation.id);
    if (!mail) continue;
    const { status, answer = null, endedAt, createdAt } = mail;
    invitation.mail = { status, answer, at: endedAt ?? createdAt };
  }
}

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
  { db, clock }: WithDbAndClock,
): Promise<InvitationView> {
  const now = clock.now();
  const all = await listInvitations(db, organizationId, now, 'all');
  const invitation = all.find((one) => one.id === id);
  if (!invitation) throw notFound('invitation');
  const view = toInvitationView(invitation, now);
  await addMails([view], db);
  return view;
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
      .describe('The address that it is for; anyone with the link can accept it')
      .register(surfaces, {
        control: {
          kind: 'text',
          label: 'E-mail address',
          subject: 'The e-mail address',
          help: 'Entered for the person when they join. Anyone with the link can use it.',
          optional: true,
          attributes: { maxlength: '254', autocomplete: 'off', spellcheck: 'false' },
        },
      }),
    send: sendField,
    note: words(200)
      .default('')
      .register(surfaces, {
        control: {
          kind: 'text',
          label: 'Recipient',
          subject: 'The recipient',
          help: 'A name or a note, shown in your list of invitations.',
          attributes: { maxlength: '200', autocomplete: 'off' },
        },
      }),
  }),
  output: createdInvitationSchema,
  target: (_, made) => made && `invitation:${made.id}`,
  async run(asked, { organization, role: by, actor }, ports) {
    checkOwnerChange(by, asked.role);
    const known = new Set((await listGroups(ports.db, organization.id)).map(({ id }) => id));
    if (!asked.groupIds.every((id) => known.has(id))) throw unknownGroup();
    if (asked.send && asked.email === undefined) throw invalidField('email', 'is missing');
    await checkNew(asked, organization, ports);
    await checkRoom(ports.db, organization.id, 1);
    const now = ports.clock.now();
    const made = newInvitation(asked, { organizationId: organization.id, actor, now });
    await insertInvitation(ports.db, made);
    if (asked.send) await sendInvitations([made], 'invitation', { organization, actor }, ports);
    return { ...toInvitationView(made, now), path: made.path };
  },
});

const whyNotInvited = {
  member: 'is a member already: change their role or their groups instead',
  invited: 'is invited already: renew or revoke that invitation instead',
  repeated: '',
} as const;

/** Refuses an address that a list import would skip. @throws {AdministrationRefusal} `conflict` */
async function checkNew(
  { email }: { readonly email?: string | undefined },
  { id }: Pick<Organization, 'id'>,
  ports: WithDbAndClock,
): Promise<void> {
  if (email === undefined) return;
  const skippedBecause = await skipper([{ email }], id, ports);
  const reason = skippedBecause({ email });
  if (reason) throw conflict(`${email} ${whyNotInvited[reason]}`);
}

/** Queues mails that send the links of invitations to their addresses. @throws {AdministrationRefusal} `conflict` */
export async function sendInvitations(
  invitations: readonly Sendable[],
  kind: 'invitation' | 'reminder',
  { organization, actor }: { readonly organization: Organization; readonly actor: Actor },
  ports: AdministrationPorts,
): Promise<void> {
  const author = actor.type === 'person' ? await findUser(ports.db, actor.userId) : undefined;
  const about = {
    kind,
    organization: organization.title || organization.name,
    ...(author && { by: author.email }),
  };
  const mails = invitations.flatMap(({ id, email, role, path, expiresAt }) => {
    if (!email) return [];
    const content = { ...about, role, path, expiresAt };
    return [ports.mailSetup.sealMail({ recipient: email, invitationId: id }, content)];
  });
  await enqueueMails(organization, mails, ports);
}

interface Sendable {
  readonly id: string;
  readonly email?: string | null | undefined;
  readonly role: NewInvitation['role'];
  readonly path: string;
  readonly expiresAt: EpochSeconds;
}

/** An invitation with its link, still to be stored. */
export function newInvitation(
  wanted: Pick<NewInvitation, 'role' | 'groupIds' | 'note' | 'email'>,
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
    expiresAt: now + invitationSeconds,
    ...newLink(),
  };
}

/** A new link, and the hash of its token, which is stored. */
export function newLink(): { readonly path: string; readonly tokenHash: string } {
  const linkToken = randomToken();
  return { path: `/invitation/${linkToken}`, tokenHash: hashSecret(linkToken) };
}

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

export function toInvitationView(
  invitation: Omit<NewInvitation, 'tokenHash'>,
  now: EpochSeconds,
): InvitationView {
  const status = invitation.expiresAt > now ? 'pending' : 'expired';
  return viewOf(invitationViewSchema, { ...invitation, status, mail: null });
}

export const invitationOperations: readonly Operation[] = [
  invitationList,
  invitationRead,
  invitationCreate,
  invitationRevoke,
];

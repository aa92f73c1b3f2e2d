import { z } from 'zod';

import { hashSecret, randomBase62 } from '#credentials/secret-format';
import { roles } from '#people/role';
import { randomToken } from '#people/start-session';
import { actorName } from './actor.ts';
import { invalidField, notFound } from './administration-refusal.ts';
import { fields, words } from './fields.ts';
import { organizationOperation } from './operation.ts';
import { checkOwnersTouch } from './shown-person.ts';
import type { Invitation } from '#people/invitation-store';

const lifeSeconds = 7 * 24 * 3600;
const inOrganization = { organization: fields.organization };
const path = '/organizations/{organization}/invitations';

const shownInvitation = z
  .object({
    id: z.string(),
    role: z.enum(roles),
    groupIds: z.array(z.string()),
    note: z.string().describe('Whom it is meant for'),
    createdBy: z.string(),
    createdAt: fields.at,
    expiresAt: fields.at,
  })
  .meta({ id: 'Invitation' });

export const invitationList = organizationOperation({
  name: 'invitation.list',
  doc: 'List the invitations that nobody has taken yet',
  route: { method: 'GET', path },
  permission: 'people.manage',
  input: z.strictObject(inOrganization),
  output: z.object({ items: z.array(shownInvitation) }),
  async run(_input, { organization }, { invitations, clock }) {
    return { items: (await invitations.list(organization.id, clock.now())).map(show) };
  },
});

export const invitationCreate = organizationOperation({
  name: 'invitation.create',
  doc: 'Make a link by which one person joins, within seven days; it is in this answer and never again',
  route: { method: 'POST', path },
  permission: 'people.manage',
  input: z.strictObject({
    ...inOrganization,
    role: z.enum(roles),
    groupIds: z.array(z.string().max(100)).max(100).default([]),
    note: words(200).default(''),
  }),
  output: shownInvitation
    .extend({ path: z.string().describe('Below the base URL; shown this once') })
    .meta({ id: 'CreatedInvitation' }),
  target: (_, made) => made && `invitation:${made.id}`,
  async run({ role, groupIds, note }, { organization, role: by, actor }, ports) {
    checkOwnersTouch(by, role);
    const known = new Set((await ports.groups.list(organization.id)).map(({ id }) => id));
    if (!groupIds.every((id) => known.has(id))) {
      throw invalidField('groupIds', 'names a group that is not there');
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
    await ports.invitations.add({ ...made, tokenHash: hashSecret(linkToken) });
    const shown = show({ ...made, organization: organization.name });
    return { ...shown, path: `/invitation/${linkToken}` };
  },
});

export const invitationRevoke = organizationOperation({
  name: 'invitation.revoke',
  doc: 'Take an invitation back; its link opens nothing any more',
  route: { method: 'DELETE', path: `${path}/{invitationId}` },
  permission: 'people.manage',
  input: z.strictObject({ ...inOrganization, invitationId: z.string().max(100) }),
  output: z.object({ id: z.string() }),
  target: ({ invitationId }) => `invitation:${invitationId}`,
  async run({ invitationId: id }, { organization, role: by }, { invitations, clock }) {
    const pending = await invitations.list(organization.id, clock.now());
    const invitation = pending.find((one) => one.id === id);
    if (!invitation) throw notFound('invitation');
    checkOwnersTouch(by, invitation.role);
    if (!(await invitations.revoke(organization.id, id))) throw notFound('invitation');
    return { id };
  },
});

function show(invitation: Invitation): z.output<typeof shownInvitation> {
  const { id, role, groupIds, note, createdBy, createdAt, expiresAt } = invitation;
  return { id, role, groupIds: [...groupIds], note, createdBy, createdAt, expiresAt };
}

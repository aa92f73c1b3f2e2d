import { z } from 'zod';

import {
  findMember,
  listMemberships,
  type Member,
  changeRole,
  listMembers,
  removeMember,
  transferOwnership,
  type MembershipChange,
} from '#db/people';
import { unlinkIdentities } from '#db/identities';
import { setAuditor } from '#db/call-contents';
import { roles, type Role } from '#model/roles';
import { emailKey } from '#model/email';
import {
  type Actor,
  mayDo,
  openMemberships,
  organizationOperation,
  type Operation,
  type WithDb,
} from './operation.ts';
import { AdministrationRefusal, conflict, forbidden, notFound } from './refusal.ts';
import { fields, words, surfaces, type FieldControl } from './fields.ts';
import { announceLeaver } from '#accounts/leaving';
import { isRecentProof } from '#accounts/sessions';
import type { EpochSeconds } from '#model/clock';
import { deletePasskey, deleteTotp, findPasswordHash, listPasskeys } from '#db/authenticators';
import { endSessions } from '#db/sessions';
import { command, listCommand, type Command } from './command.ts';
import {
  organizationArgument,
  organizationIn,
  requireMember,
  type Positional,
} from './positionals.ts';
import { viewOf } from './views.ts';

/** The view of a member: on pages, in the API and in commands. */
export const personViewSchema = z
  .object({
    id: z.string(),
    email: z.string(),
    role: z.enum(roles),
    groups: z.array(z.object({ id: z.string(), name: z.string() })),
    secondFactor: z.boolean().describe('Whether they can sign in with two factors'),
    auditor: z.boolean().describe('Whether they can read stored arguments and results of calls'),
    source: z.enum(['manual', 'sso', 'scim']).describe('How they became a member'),
    provisioned: z.boolean().describe('Whether a directory manages the membership by SCIM'),
    seenAt: fields.maybeAt,
  })
  .meta({ id: 'Person' });

/** Converts a stored member to their view. */
export function toPersonView(member: Member): z.output<typeof personViewSchema> {
  return viewOf(personViewSchema, {
    ...member,
    id: member.userId,
    groups: member.groups.map(({ id, name }) => ({ id, name })),
    secondFactor: member.hasSecondFactor,
    auditor: member.isAuditor,
    provisioned: member.isProvisioned,
  });
}

/** Finds a member of an organization. @throws {AdministrationRefusal} `not_found` */
export async function ownMember(
  organizationId: string,
  userId: string,
  { db }: WithDb,
): Promise<Member> {
  const member = await findMember(db, organizationId, userId);
  if (member) return member;
  throw notFound('person');
}

/**
 * Throws unless the actor is an owner, or no owner's role is affected. `affected` contains all roles that are held, given or
 * removed.
 *
 * @throws {AdministrationRefusal} `forbidden`
 */
export function checkOwnerChange(by: Role, ...affected: readonly Role[]): void {
  if (!affected.includes('owner') || mayDo(by, 'owners.manage')) return;
  throw forbidden('only an owner can add, change or remove an owner');
}

/**
 * Throws unless the actor is an administrator of every organization that the person belongs to. Changes to a person's account,
 * as opposed to their membership, require that: otherwise one organization could weaken the security of another.
 *
 * @throws {AdministrationRefusal} `forbidden`, `conflict`
 */
async function checkWholeAccount(userId: string, actor: Actor, { db }: WithDb): Promise<void> {
  if (actor.type === 'operator') return;
  if (actor.userId === userId) throw conflict('change your own account on your account page');
  const mine = new Map(
    (await openMemberships(actor, { db })).map(({ organization, role }) => [organization, role]),
  );
  for (const { organization, role } of await listMemberships(db, userId)) {
    const by = mine.get(organization);
    if (!by || !mayDo(by, 'people.manage')) {
      throw forbidden('this person also belongs to another organization: ask the operator');
    }
    checkOwnerChange(by, role);
  }
}

/** Descriptions of the roles, for people who choose one. */
const roleWords: Readonly<Record<Role, string>> = {
  owner:
    'Can manage everything. Only owners change settings, owners and the organization itself. Reading stored arguments and results of calls also requires the Auditor right.',
  admin:
    'Manages servers, clients, keys, agents, people and groups, and reads the audit log. Cannot change owners or settings.',
  member:
    'Uses servers, consents to applications and tries tools. Cannot change anything in the dashboard.',
  viewer:
    'Views the dashboard and uses servers through applications. Cannot change anything in the dashboard.',
};

/** The roles to choose from: only owners can choose owner, but everyone sees it if the person is one. */
export function roleChoices(mayMakeOwners: boolean, present?: Role) {
  return roles
    .filter((role) => role !== 'owner' || mayMakeOwners || present === 'owner')
    .map((role) => ({
      value: role,
      text: `${role.charAt(0).toUpperCase()}${role.slice(1)}`,
      help: roleWords[role],
    }));
}

/** The control with which forms choose a role. Pages offer the roles that their reader may give. */
export const roleControl = {
  kind: 'radio',
  label: 'Role',
  subject: 'The role',
  chosen: 'member',
  choices: roleChoices(true),
} as const satisfies FieldControl;

const inOrganization = { organization: fields.organization };
export const ofPerson = {
  organization: fields.organization.clone().register(surfaces, {
    option: { name: 'organization', value: 'ORG', doc: 'the organization of the person' },
  }),
  userId: z.string().max(100),
};
const list = '/organizations/{organization}/people';
const path = `${list}/{userId}`;
const target = ({ userId }: { userId: string }) => `user:${userId}`;
const mostALimit = 200;

export const personList = organizationOperation({
  name: 'person.list',
  doc: 'List the people of an organization, sorted by e-mail address',
  route: { method: 'GET', path: list },
  permission: 'people.read',
  input: z.strictObject({
    ...inOrganization,
    text: words(200).optional().describe('Only people whose e-mail address contains this'),
    after: words(320).optional().describe('Only people after this e-mail address'),
    limit: z.coerce.number().int().min(1).max(mostALimit).default(50),
  }),
  output: z.object({
    items: z.array(personViewSchema),
    next: z.string().nullable().describe('The `after` value of the next page'),
  }),
  async run({ text: search, after, limit }, { organization }, { db }) {
    const page = {
      after: after === undefined ? undefined : emailKey(after),
      search,
      limit: limit + 1,
    };
    const found = await listMembers(db, organization.id, page);
    const items = found.slice(0, limit).map(toPersonView);
    return { items, next: found.length > limit ? (items.at(-1)?.email ?? null) : null };
  },
});

export const personRead = organizationOperation({
  name: 'person.read',
  doc: 'Read a person of an organization',
  route: { method: 'GET', path },
  permission: 'people.read',
  input: z.strictObject(ofPerson),
  output: personViewSchema,
  run: async ({ userId }, { organization }, ports) =>
    toPersonView(await ownMember(organization.id, userId, ports)),
});

export const personSetRole = organizationOperation({
  name: 'person.set-role',
  doc: 'Change a person’s role in an organization; the permissions of their tokens change immediately',
  route: { method: 'PATCH', path },
  permission: 'people.manage',
  input: z.strictObject({
    ...ofPerson,
    role: z.enum(roles).register(surfaces, {
      option: { value: 'ROLE', doc: `one of ${roles.join(', ')}` },
      control: { ...roleControl, label: 'Role' },
    }),
  }),
  output: personViewSchema,
  target,
  async run({ userId, role: to }, { organization, role: by }, ports) {
    const { role: from } = await ownMember(organization.id, userId, ports);
    checkOwnerChange(by, from, to);
    settled(await changeRole(ports.db, organization.id, userId, { from, to }));
    return toPersonView(await ownMember(organization.id, userId, ports));
  },
});

export const personRemove = organizationOperation({
  name: 'person.remove',
  doc: 'Remove a person and their consents from an organization immediately; what they created there needs an owner',
  route: { method: 'DELETE', path },
  permission: 'people.manage',
  input: z.strictObject(ofPerson),
  output: personViewSchema,
  target,
  async run({ userId }, { organization, role: by, actor }, ports) {
    const member = await ownMember(organization.id, userId, ports);
    checkOwnerChange(by, member.role);
    settled(await removeMember(ports.db, organization.id, userId, member.role));
    await announceLeaver(
      ports.db,
      organization,
      { id: userId, email: member.email },
      ports.clock.now(),
      actor,
    );
    return toPersonView(member);
  },
});

export const ownershipTransfer = organizationOperation({
  name: 'organization.transfer',
  doc: 'Make another person an owner and yourself an admin in one step',
  permission: 'owners.manage',
  input: z.strictObject(ofPerson),
  output: personViewSchema,
  target,
  async run({ userId: to }, { organization, actor }, ports) {
    await ownMember(organization.id, to, ports);
    if (actor.type === 'operator') {
      throw conflict('ownership cannot be transferred here: set the roles instead');
    }
    checkRecent(actor, ports.clock.now());
    const people = { from: actor.userId, to };
    if (!(await transferOwnership(ports.db, organization.id, people))) throw stale();
    return toPersonView(await ownMember(organization.id, to, ports));
  },
});

export const secondFactorReset = organizationOperation({
  name: 'person.reset-second-factor',
  doc: 'Remove a person’s authenticator app, recovery codes, passkeys and, if they have a password, linked accounts, and end their sessions',
  permission: 'people.manage',
  input: z.strictObject(ofPerson),
  output: personViewSchema,
  target,
  async run({ userId }, { organization, actor }, ports) {
    await ownMember(organization.id, userId, ports);
    await checkWholeAccount(userId, actor, ports);
    checkRecent(actor, ports.clock.now());
    const passkeys = await listPasskeys(ports.db, userId);
    for (const { id } of passkeys) await deletePasskey(ports.db, userId, id);
    // For a person without a password, the linked account is the only way to sign in, so it is not a second factor.
    const hasPassword = (await findPasswordHash(ports.db, userId)) !== undefined;
    const isUnlinked = hasPassword && (await unlinkIdentities(ports.db, userId));
    if (!(await deleteTotp(ports.db, userId)) && !isUnlinked && passkeys.length === 0) {
      throw conflict('this person has no second factor');
    }
    await endSessions(ports.db, userId);
    return toPersonView(await ownMember(organization.id, userId, ports));
  },
});

export const sessionsEnd = organizationOperation({
  name: 'person.end-sessions',
  doc: 'Sign a person out of every browser',
  route: { method: 'DELETE', path: `${path}/sessions` },
  permission: 'people.manage',
  input: z.strictObject(ofPerson),
  output: personViewSchema,
  target,
  async run({ userId }, { organization, actor }, ports) {
    const member = await ownMember(organization.id, userId, ports);
    await checkWholeAccount(userId, actor, ports);
    await endSessions(ports.db, userId);
    return toPersonView(member);
  },
});

/** A right beside the role. An owner who gives it to themselves is reported to all owners; see the overview. */
function auditorChange(verb: 'grant' | 'revoke', doc: string, isOne: boolean) {
  return organizationOperation({
    name: `person.${verb}-auditor`,
    doc,
    permission: 'owners.manage',
    input: z.strictObject(ofPerson),
    output: personViewSchema,
    target,
    async run({ userId }, { organization, actor }, ports) {
      await ownMember(organization.id, userId, ports);
      checkRecent(actor, ports.clock.now());
      if (!(await setAuditor(ports.db, organization.id, userId, isOne))) {
        const why = isOne
          ? 'this person already has the right'
          : 'this person does not have the right';
        throw conflict(why);
      }
      return toPersonView(await ownMember(organization.id, userId, ports));
    },
  });
}

export const auditorGrant = auditorChange(
  'grant',
  'Let a person read the stored arguments and results of calls (Auditor)',
  true,
);
export const auditorRevoke = auditorChange(
  'revoke',
  'Remove the right of a person to read stored arguments and results (Auditor)',
  false,
);

/** Irreversible changes require a recent sign-in. @throws {AdministrationRefusal} `proof_old` */
export function checkRecent(actor: Actor, now: EpochSeconds): void {
  if (actor.type === 'operator') return;
  const { provedAt: createdAt } = actor;
  if (createdAt !== undefined && isRecentProof({ createdAt }, now)) return;
  throw new AdministrationRefusal(
    'proof_old',
    'this requires a sign-in within the last ten minutes',
  );
}

/** @throws {AdministrationRefusal} `conflict` unless the membership was changed */
export function settled(change: MembershipChange): void {
  if (change === 'stale') throw stale();
  if (change === 'done') return;
  throw conflict('an organization must have an owner: make another person an owner first');
}

function stale(): AdministrationRefusal {
  return conflict('another person changed this in the meantime: reload and try again');
}

export const personOperations: readonly Operation[] = [
  personList,
  personRead,
  personSetRole,
  personRemove,
  ownershipTransfer,
  secondFactorReset,
  sessionsEnd,
  auditorGrant,
  auditorRevoke,
];

/** A member of the organization that an option names. */
export const memberArgument: Positional = {
  usage: 'EMAIL',
  read: async (text, { stores }, given) => ({
    userId: (await requireMember(text, organizationIn(given), stores)).id,
  }),
};

/** A command that changes the role or access of a member. */
const memberCommand = (name: string, doc: string, operation: typeof personRemove): Command =>
  command(operation, {
    words: name,
    positionals: [memberArgument],
    doc,
    prints: ['id', 'email', { organization: (_, { given }) => organizationIn(given) }, 'role'],
  });

export const personCommands: readonly Command[] = [
  listCommand(personList, {
    words: 'user members',
    positionals: [organizationArgument],
    doc: 'list the people of an organization with their roles and groups',
    prints: [
      'email',
      'id',
      'role',
      {
        groups: ({ groups }) => groups.map(({ name }) => name),
        second_factor: ({ secondFactor }) => (secondFactor ? 'yes' : 'no'),
        last_used_at: 'seenAt',
      },
    ],
    empty: (given) =>
      `no people yet: latchkey-server invitation create ${organizationIn(given)} --role member`,
  }),
  command(personSetRole, {
    words: 'user set-role',
    positionals: [memberArgument],
    doc: 'change a person’s role in an organization immediately',
    prints: ['id', 'email', { organization: (_, { given }) => organizationIn(given) }, 'role'],
  }),
  memberCommand('user end-sessions', 'sign a person out of every browser', sessionsEnd),
  memberCommand(
    'user grant-auditor',
    'let a person read the stored arguments and results of calls',
    auditorGrant,
  ),
  memberCommand(
    'user revoke-auditor',
    'remove the right of a person to read stored arguments and results',
    auditorRevoke,
  ),
  memberCommand(
    'user reset-second-factor',
    'remove a person’s authenticator app, recovery codes, passkeys and linked accounts',
    secondFactorReset,
  ),
];

import { z } from 'zod';

import { emailKey } from '#people/email';
import type { MembershipChange } from '#people/membership-store';
import { isRecentProof } from '#people/recent-proof';
import { roles } from '#people/role';
import type { Actor } from './actor.ts';
import { AdministrationRefusal } from './administration-refusal.ts';
import { fields, words } from './fields.ts';
import { organizationOperation } from './operation.ts';
import {
  checkOwnersTouch,
  checkWholeAccount,
  ownMember,
  showPerson,
  shownPerson,
} from './shown-person.ts';
import type { EpochSeconds } from '#clock/clock';

const inOrganization = { organization: fields.organization };
const ofPerson = { ...inOrganization, userId: z.string().max(100) };
const list = '/organizations/{organization}/people';
const path = `${list}/{userId}`;
const target = ({ userId }: { userId: string }) => `user:${userId}`;
const mostALimit = 200;

export const personList = organizationOperation({
  name: 'person.list',
  doc: 'List the people of an organization, by address',
  route: { method: 'GET', path: list },
  permission: 'people.read',
  input: z.strictObject({
    ...inOrganization,
    text: words(200).optional().describe('Only who has this in their address'),
    after: words(320).optional().describe('Only those after this address'),
    limit: z.coerce.number().int().min(1).max(mostALimit).default(50),
  }),
  output: z.object({
    items: z.array(shownPerson),
    next: z.string().nullable().describe('What `after` must be for those that follow'),
  }),
  async run({ text: search, after, limit }, { organization }, { memberships }) {
    const page = {
      after: after === undefined ? undefined : emailKey(after),
      search,
      limit: limit + 1,
    };
    const found = await memberships.list(organization.id, page);
    const items = found.slice(0, limit).map(showPerson);
    return { items, next: found.length > limit ? (items.at(-1)?.email ?? null) : null };
  },
});

export const personRead = organizationOperation({
  name: 'person.read',
  doc: 'Read a person of an organization',
  route: { method: 'GET', path },
  permission: 'people.read',
  input: z.strictObject(ofPerson),
  output: shownPerson,
  run: async ({ userId }, { organization }, ports) =>
    showPerson(await ownMember(organization.id, userId, ports)),
});

export const personSetRole = organizationOperation({
  name: 'person.set-role',
  doc: 'Change what a person is in an organization; what their tokens may do follows at once',
  route: { method: 'PATCH', path },
  permission: 'people.manage',
  input: z.strictObject({ ...ofPerson, role: z.enum(roles) }),
  output: shownPerson,
  target,
  async run({ userId, role: to }, { organization, role: by }, ports) {
    const { role: from } = await ownMember(organization.id, userId, ports);
    checkOwnersTouch(by, from, to);
    settled(await ports.memberships.setRole(organization.id, userId, { from, to }));
    return showPerson(await ownMember(organization.id, userId, ports));
  },
});

export const personRemove = organizationOperation({
  name: 'person.remove',
  doc: 'Remove a person from an organization, with what they allowed there, at once',
  route: { method: 'DELETE', path },
  permission: 'people.manage',
  input: z.strictObject(ofPerson),
  output: shownPerson,
  target,
  async run({ userId }, { organization, role: by }, ports) {
    const member = await ownMember(organization.id, userId, ports);
    checkOwnersTouch(by, member.role);
    settled(await ports.memberships.remove(organization.id, userId, member.role));
    return showPerson(member);
  },
});

export const ownershipTransfer = organizationOperation({
  name: 'organization.transfer',
  doc: 'Make another person an owner and oneself an admin, both at once',
  permission: 'owners.manage',
  input: z.strictObject(ofPerson),
  output: shownPerson,
  target,
  async run({ userId: to }, { organization, actor }, ports) {
    await ownMember(organization.id, to, ports);
    if (actor.type === 'operator') {
      throw new AdministrationRefusal('conflict', 'nobody hands on here: set the roles instead');
    }
    checkRecent(actor, ports.clock.now());
    const people = { from: actor.userId, to };
    if (!(await ports.memberships.transfer(organization.id, people))) throw stale();
    return showPerson(await ownMember(organization.id, to, ports));
  },
});

export const secondFactorReset = organizationOperation({
  name: 'person.reset-second-factor',
  doc: 'Take away a person’s authenticator app, its recovery codes, their passkeys and, if they have a password, linked accounts, and end their sessions',
  permission: 'people.manage',
  input: z.strictObject(ofPerson),
  output: shownPerson,
  target,
  async run({ userId }, { organization, actor }, ports) {
    await ownMember(organization.id, userId, ports);
    await checkWholeAccount(userId, actor, ports);
    checkRecent(actor, ports.clock.now());
    const passkeys = await ports.passkeys.list(userId);
    for (const { id } of passkeys) await ports.passkeys.remove(userId, id);
    // For who has no password the linked account is the only way in, and never a second factor.
    const hasPassword = (await ports.passwords.hashOf(userId)) !== undefined;
    const isUnlinked = hasPassword && (await ports.identities.unlinkAll(userId));
    if (!(await ports.totps.remove(userId)) && !isUnlinked && passkeys.length === 0) {
      throw new AdministrationRefusal('conflict', 'this person has no second factor');
    }
    await ports.sessions.endAll(userId);
    return showPerson(await ownMember(organization.id, userId, ports));
  },
});

export const sessionsEnd = organizationOperation({
  name: 'person.end-sessions',
  doc: 'Sign a person out of every browser',
  route: { method: 'DELETE', path: `${path}/sessions` },
  permission: 'people.manage',
  input: z.strictObject(ofPerson),
  output: shownPerson,
  target,
  async run({ userId }, { organization, actor }, ports) {
    const member = await ownMember(organization.id, userId, ports);
    await checkWholeAccount(userId, actor, ports);
    await ports.sessions.endAll(userId);
    return showPerson(member);
  },
});

/** @throws {AdministrationRefusal} `proof_old`: what could not be undone takes a sign-in just now. */
function checkRecent(actor: Actor, now: EpochSeconds): void {
  if (actor.type === 'operator') return;
  const { provedAt: createdAt } = actor;
  if (createdAt !== undefined && isRecentProof({ createdAt }, now)) return;
  throw new AdministrationRefusal('proof_old', 'this takes a sign-in within the last ten minutes');
}

function settled(change: MembershipChange): void {
  if (change === 'stale') throw stale();
  if (change === 'done') return;
  const why = 'an organization keeps an owner: make somebody else one first';
  throw new AdministrationRefusal('conflict', why);
}

function stale(): AdministrationRefusal {
  return new AdministrationRefusal('conflict', 'somebody else changed this meanwhile: look again');
}

import { z } from 'zod';

import type { Member } from '#people/membership-store';
import { roles } from '#people/role';
import type { Actor } from './actor.ts';
import type { AdministrationPorts } from './administration-ports.ts';
import { AdministrationRefusal, notFound } from './administration-refusal.ts';
import { fields } from './fields.ts';
import { mayDo } from './permission.ts';
import type { Role } from '#people/role';

/** A member of an organization as every surface shows them. */
export const shownPerson = z
  .object({
    id: z.string(),
    email: z.string(),
    role: z.enum(roles),
    groups: z.array(z.object({ id: z.string(), name: z.string() })),
    secondFactor: z.boolean().describe('Whether a sign-in of theirs can prove two factors'),
    seenAt: fields.maybeAt,
  })
  .meta({ id: 'Person' });

/** A member as they are kept, as every surface shows them. */
export function showPerson(member: Member): z.output<typeof shownPerson> {
  const { userId, email, role, groups, hasSecondFactor, seenAt } = member;
  return {
    id: userId,
    email,
    role,
    groups: groups.map(({ id, name }) => ({ id, name })),
    secondFactor: hasSecondFactor,
    seenAt: seenAt ?? null,
  };
}

/** A member of this organization. @throws {AdministrationRefusal} `not_found` */
export async function ownMember(
  organizationId: string,
  userId: string,
  { memberships }: Pick<AdministrationPorts, 'memberships'>,
): Promise<Member> {
  const member = await memberships.of(organizationId, userId);
  if (member) return member;
  throw notFound('person');
}

/**
 * Lets only an owner touch what is an owner's: `touched` are all roles that are held, given or taken.
 *
 * @throws {AdministrationRefusal} `forbidden`
 */
export function checkOwnersTouch(by: Role, ...touched: readonly Role[]): void {
  if (!touched.includes('owner') || mayDo(by, 'owners.manage')) return;
  throw new AdministrationRefusal('forbidden', 'only an owner makes, changes or removes an owner');
}

/**
 * What changes a person's account, and not only their place here, takes an administrator of every
 * organization that they belong to: else one organization could weaken another's.
 *
 * @throws {AdministrationRefusal} `forbidden`, `conflict`
 */
export async function checkWholeAccount(
  userId: string,
  actor: Actor,
  { users }: Pick<AdministrationPorts, 'users'>,
): Promise<void> {
  if (actor.type === 'operator') return;
  if (actor.userId === userId) {
    throw new AdministrationRefusal('conflict', 'change your own account on its own page');
  }
  const mine = new Map(
    (await users.memberships(actor.userId)).map(({ organization, role }) => [organization, role]),
  );
  for (const { organization, role } of await users.memberships(userId)) {
    const by = mine.get(organization);
    if (!by || !mayDo(by, 'people.manage')) {
      const why = 'this person belongs to another organization as well; ask the operator';
      throw new AdministrationRefusal('forbidden', why);
    }
    checkOwnersTouch(by, role);
  }
}

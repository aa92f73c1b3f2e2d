import { z } from 'zod';

import { isEmail } from '#people/email';
import { makeLink } from '#people/one-time-link';
import { roles } from '#people/role';
import { newUserId } from '#people/set-up';
import type { Actor } from './actor.ts';
import type { AdministrationPorts } from './administration-ports.ts';
import { AdministrationRefusal, notFound } from './administration-refusal.ts';
import { fields } from './fields.ts';
import { organizationOperation, personalOperation } from './operation.ts';

const ofUser = { userId: z.string().max(100) };
const target = ({ userId }: { userId: string }) => `user:${userId}`;
const shownUser = z.object({ id: z.string(), email: z.string() }).meta({ id: 'User' });

/** A whole account belongs to its person and to whoever runs the machine; an organization has memberships. */
export const userCreate = organizationOperation({
  name: 'user.create',
  doc: 'Make a person who can sign in, or a member of somebody known',
  permission: 'owners.manage',
  input: z.strictObject({
    organization: fields.organization,
    email: z.string().max(320).refine(isEmail, 'is not an e-mail address'),
    role: z.enum(roles),
    passwordHash: z.string().max(500).optional().describe('For somebody new'),
  }),
  output: shownUser,
  target: (_, made) => made && target({ userId: made.id }),
  async run({ email, role, passwordHash }, { organization, actor }, { users, passwords, clock }) {
    checkOperator(actor);
    const known = await users.byEmail(email);
    const user = known ?? { id: newUserId(), email, createdAt: clock.now() };
    if (!(await users.add(user, { organizationId: organization.id, role }))) {
      const why = `${email} belongs to ${organization.name} already`;
      throw new AdministrationRefusal('conflict', why);
    }
    if (!known && passwordHash !== undefined) await passwords.set(user.id, passwordHash);
    return { id: user.id, email: user.email };
  },
});

export const userRemove = personalOperation({
  name: 'user.remove',
  doc: 'Remove a person, and everything they allowed, at once',
  input: z.strictObject(ofUser),
  output: shownUser,
  target,
  async run({ userId }, { actor }, ports) {
    checkOperator(actor);
    const user = await ownUser(userId, ports);
    await ports.users.remove(userId);
    return user;
  },
});

export const userResetLink = personalOperation({
  name: 'user.reset-link',
  doc: 'Make a link that sets a new password, once, within an hour',
  input: z.strictObject(ofUser),
  output: shownUser.extend({ path: z.string().describe('Below the base URL; shown this once') }),
  target,
  async run({ userId }, { actor }, ports) {
    checkOperator(actor);
    const user = await ownUser(userId, ports);
    return { ...user, path: await makeLink({ type: 'reset', userId }, ports) };
  },
});

/** @throws {AdministrationRefusal} `forbidden` */
function checkOperator(actor: Actor): void {
  if (actor.type === 'operator') return;
  throw new AdministrationRefusal('forbidden', 'only the operator changes whole accounts');
}

/** @throws {AdministrationRefusal} `not_found` */
async function ownUser(userId: string, { users }: Pick<AdministrationPorts, 'users'>) {
  const user = await users.byId(userId);
  if (user) return { id: user.id, email: user.email };
  throw notFound('person');
}

import type { AuditLog } from '#audit/audit-log';
import type { Clock } from '#clock/clock';
import { hashSecret, randomBase62 } from '#credentials/secret-format';
import type { OrganizationStore } from '#organizations/organization-store';
import type { OneTimeLinkStore } from './one-time-link-store.ts';
import type { PasswordHashing } from './password-hashing.ts';
import type { PasswordStore } from './password-store.ts';
import { PeopleRefusal } from './people-refusal.ts';
import type { User, UserStore } from './user.ts';
import type { Visit } from './visit.ts';

interface SetUpStores {
  readonly users: UserStore;
  readonly passwords: Pick<PasswordStore, 'set'>;
  readonly links: OneTimeLinkStore;
  readonly organizations: Pick<OrganizationStore, 'add' | 'byName'>;
  readonly audit: Pick<AuditLog, 'append'>;
}

export interface SetUpPorts {
  readonly together: <Result>(work: (stores: SetUpStores) => Promise<Result>) => Promise<Result>;
  readonly hashing: Pick<PasswordHashing, 'hash'>;
  readonly clock: Clock;
}

/** Whether a set-up link still makes the first owner: it is live, and nobody is here yet. */
export async function isSetUpOpen(
  linkToken: string,
  { users, links, clock }: Pick<SetUpStores, 'users' | 'links'> & Pick<SetUpPorts, 'clock'>,
): Promise<boolean> {
  const purpose = await links.peek(hashSecret(linkToken), clock.now());
  return purpose?.type === 'set-up' && !(await users.hasAny());
}

/**
 * Makes the first owner, and their organization where there is none of that name, by the link that the
 * first start printed. All of it is one transaction: where it cannot be kept, the link stays good.
 *
 * @throws {PeopleRefusal} `set_up_over`
 */
export async function setUp(
  linkToken: string,
  chosen: { email: string; password: string; organization: string },
  { address, requestId }: Visit,
  { together, hashing, clock }: SetUpPorts,
): Promise<User> {
  const hash = await hashing.hash(chosen.password);
  return together(async ({ users, passwords, links, organizations, audit }) => {
    const isOpen = await isSetUpOpen(linkToken, { users, links, clock });
    const createdAt = clock.now();
    if (!isOpen || !(await links.take(hashSecret(linkToken), createdAt))) {
      throw new PeopleRefusal('set_up_over');
    }
    const { organization: name } = chosen;
    await organizations.add({ id: `org_${randomBase62(16)}`, name, createdAt });
    const organization = await organizations.byName(name);
    if (!organization) throw new Error(`the organization ${name} was removed while it was made`);
    const user = { id: newUserId(), email: chosen.email.trim(), createdAt };
    await users.add(user, { organizationId: organization.id, role: 'owner' });
    await passwords.set(user.id, hash);
    await audit.append({
      at: createdAt,
      actor: `user:${user.id}`,
      organization: name,
      action: 'set-up',
      target: `user:${user.id}`,
      address,
      requestId,
      outcome: 'done',
    });
    return user;
  });
}

export function newUserId(): string {
  return `user_${randomBase62(16)}`;
}

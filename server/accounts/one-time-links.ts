import { insertAuditEvent } from '#db/audit';
import { findOrganization, insertOrganization } from '#db/organizations';
import type { Clock } from '#model/clock';
import type { MasterKey } from '#secrets/master-key';
import { hashSecret, randomBase62, newUserId } from '#secrets/secrets';
import { replacePasswordHash } from '#db/authenticators';
import { insertLink, insertSetUpLink, findLink, takeLink, type LinkPurpose } from '#db/one-time';
import { insertUser, hasUsers, type User } from '#db/people';
import { transaction, type Db } from '#db/transaction';
import { AccountRefusal } from './account-refusal.ts';
import { linkLifeSeconds } from '#model/lifetimes';
import type { PasswordHashing } from './passwords.ts';
import { randomToken, type Visit } from './sessions.ts';

/** A link that expires sooner is replaced instead of handed out again. */
const leastLeftSeconds = 300;

/**
 * Creates a one-time link, valid for an hour, and returns its path. Earlier links for the same purpose become
 * invalid.
 */
export async function makeLink(
  purpose: LinkPurpose,
  { db, clock }: { db: Db; clock: Clock },
): Promise<string> {
  const linkToken = randomToken();
  await insertLink(db, hashSecret(linkToken), purpose, clock.now() + linkLifeSeconds);
  return `/${purpose.type}/${linkToken}`;
}

export interface HandedOutLink {
  readonly path: string;
  readonly secondsLeft: number;
}

/**
 * The link that creates the first owner; `undefined` if there already is a person. A link that is valid for five more
 * minutes is handed out again: every process of an installation prints the same link, which is derived from the master key
 * and the link's expiry.
 */
export async function firstLink({
  db,
  clock,
  masterKey,
}: {
  db: Db;
  clock: Clock;
  masterKey: Pick<MasterKey, 'mac'>;
}): Promise<HandedOutLink | undefined> {
  if (await hasUsers(db)) return undefined;
  const now = clock.now();
  const linkToken = (expiresAt: number) => masterKey.mac('set-up link', String(expiresAt));
  const expiresAt = await insertSetUpLink(db, {
    hashOf: (time) => hashSecret(linkToken(time)),
    isLongEnough: (time) => time - now >= leastLeftSeconds,
    expiresAt: now + linkLifeSeconds,
  });
  return { path: `/set-up/${linkToken(expiresAt)}`, secondsLeft: expiresAt - now };
}

export interface SetUpPorts {
  readonly db: Db;
  readonly hashing: Pick<PasswordHashing, 'hash'>;
  readonly clock: Clock;
}

/** Whether a set-up link is valid, and no person exists yet. */
export async function isSetUpOpen(
  linkToken: string,
  { db, clock }: Pick<SetUpPorts, 'db' | 'clock'>,
): Promise<boolean> {
  const purpose = await findLink(db, hashSecret(linkToken), clock.now());
  return purpose?.type === 'set-up' && !(await hasUsers(db));
}

/**
 * Creates the first owner, and their organization if it does not exist, by the link that the first start printed. All
 * in one transaction, so that the link stays valid if it fails.
 *
 * @throws {AccountRefusal} `set_up_expired`
 */
export async function setUp(
  linkToken: string,
  chosen: { email: string; password: string; organization: string; title?: string },
  { address, requestId }: Visit,
  { db: database, hashing, clock }: SetUpPorts,
): Promise<User> {
  const hash = await hashing.hash(chosen.password, { known: 'set-up' });
  return transaction(database, async (db) => {
    const isOpen = await isSetUpOpen(linkToken, { db, clock });
    const createdAt = clock.now();
    if (!isOpen || !(await takeLink(db, hashSecret(linkToken), createdAt))) {
      throw new AccountRefusal('set_up_expired');
    }
    const { organization: name, title } = chosen;
    const id = `org_${randomBase62(16)}`;
    await insertOrganization(db, { id, name, ...(title !== undefined && { title }), createdAt });
    const organization = await findOrganization(db, name);
    if (!organization) throw new Error(`the organization ${name} was removed while it was made`);
    const user = { id: newUserId(), email: chosen.email.trim(), createdAt };
    await insertUser(db, user, { organizationId: organization.id, role: 'owner' });
    await replacePasswordHash(db, user.id, hash);
    await insertAuditEvent(db, {
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

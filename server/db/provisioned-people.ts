import { emailKey } from '#model/email';
import type { Db } from './transaction.ts';

// The SCIM records of an organization's directory about people who become members in another way.

/** A person, by their id and the address of their account. */
interface Known {
  readonly id: string;
  readonly email: string;
}

/**
 * Within a transaction that holds `lockMembers`: whether the organization's directory deactivated the person with this id or address. They
 * must then not become a member by an invitation or by signing in.
 */
export async function isDeactivated(
  tx: Db,
  organizationId: string,
  { id, email }: Known,
): Promise<boolean> {
  const row = await provisionedAs(tx, organizationId, { id, email })
    .where('active', '=', 0)
    .executeTakeFirst();
  return row !== undefined;
}

/** Within a transaction that holds `lockMembers`: links a new member to the SCIM user with their address, if there is exactly one. */
export async function linkProvisioned(
  tx: Db,
  organizationId: string,
  member: Known,
): Promise<void> {
  const known = await provisionedAs(tx, organizationId, member).execute();
  const [only] = known;
  if (!only || known.length > 1 || only.person_id !== null) return;
  await tx
    .updateTable('scim_user')
    .set({ person_id: member.id })
    .where('id', '=', only.id)
    .execute();
}

function provisionedAs(tx: Db, organizationId: string, { id, email }: Known) {
  return tx
    .selectFrom('scim_user')
    .select(['id', 'person_id'])
    .where('organization_id', '=', organizationId)
    .where((where) =>
      where.or([
        where('person_id', '=', id),
        where.and([where('person_id', 'is', null), where('email_key', '=', emailKey(email))]),
      ]),
    );
}

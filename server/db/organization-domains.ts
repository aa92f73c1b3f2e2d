import type { Selectable } from 'kysely';

import type { EpochSeconds } from '#model/clock';
import type { Schema } from './schema.ts';
import { advisoryLock, transaction, type Db } from './transaction.ts';

/** A domain of e-mail addresses that an organization claims. One organization at most can have proved it. */
export type OrganizationDomain = ReturnType<typeof readDomain>;

function readDomain(row: Selectable<Schema['organization_domain']>) {
  const { proved_by: by, proved_at: at, checked_at: checkedAt } = row;
  const isProved = at !== null && checkedAt !== null && (by === 'dns' || by === 'operator');
  return {
    organizationId: row.organization_id,
    /** In lower case and ASCII. */
    domain: row.domain,
    /** The text that a DNS record must contain; not a secret. */
    verificationToken: row.verification_token,
    createdAt: row.created_at,
    /** `dns`: a record was last found at `checkedAt`. `operator`: the operator of this server confirmed it. */
    proof: isProved ? ({ by, at, checkedAt } as const) : undefined,
  } as const;
}

/** @returns `known` when the organization has the domain, `full` when it already has `most` */
export async function insertDomain(
  db: Db,
  { organizationId, domain, verificationToken, createdAt }: Omit<OrganizationDomain, 'proof'>,
  most: number,
): Promise<'done' | 'known' | 'full'> {
  return transaction(db, async (tx) => {
    await advisoryLock(tx, `domains ${organizationId}`);
    const others = await listDomains(tx, organizationId);
    if (others.some((other) => other.domain === domain)) return 'known';
    if (others.length >= most) return 'full';
    await tx
      .insertInto('organization_domain')
      .values({
        organization_id: organizationId,
        domain,
        verification_token: verificationToken,
        created_at: createdAt,
      })
      .execute();
    return 'done';
  });
}

/** The domains of an organization, by name. */
export async function listDomains(db: Db, organizationId: string): Promise<OrganizationDomain[]> {
  const rows = await db
    .selectFrom('organization_domain')
    .selectAll()
    .where('organization_id', '=', organizationId)
    .orderBy('domain')
    .execute();
  return rows.map(readDomain);
}

export async function findDomain(
  db: Db,
  organizationId: string,
  domain: string,
): Promise<OrganizationDomain | undefined> {
  const row = await db
    .selectFrom('organization_domain')
    .selectAll()
    .where('organization_id', '=', organizationId)
    .where('domain', '=', domain)
    .executeTakeFirst();
  return row && readDomain(row);
}

export async function findProvedDomain(
  db: Db,
  domain: string,
): Promise<OrganizationDomain | undefined> {
  const row = await db
    .selectFrom('organization_domain')
    .selectAll()
    .where('domain', '=', domain)
    .where('proved_by', 'is not', null)
    .executeTakeFirst();
  return row && readDomain(row);
}

/**
 * Records that an organization has proved a domain, or has proved it again.
 *
 * @returns `taken` when another organization has proved it. `unknown` when the organization does not have the domain
 */
export async function setDomainProof(
  db: Db,
  organizationId: string,
  domain: string,
  proof: { readonly by: 'dns' | 'operator'; readonly at: EpochSeconds },
): Promise<'done' | 'taken' | 'unknown'> {
  return transaction(db, async (tx) => {
    await advisoryLock(tx, `domain ${domain}`);
    const holder = await findProvedDomain(tx, domain);
    if (holder && holder.organizationId !== organizationId) return 'taken';
    const { numUpdatedRows } = await tx
      .updateTable('organization_domain')
      .set({ proved_by: proof.by, proved_at: holder?.proof?.at ?? proof.at, checked_at: proof.at })
      .where('organization_id', '=', organizationId)
      .where('domain', '=', domain)
      .executeTakeFirst();
    return numUpdatedRows === 1n ? 'done' : 'unknown';
  });
}

/** Deletes a proof by DNS; a confirmation by the operator stays. @returns `false` when there is no such proof */
export async function endDomainProof(
  db: Db,
  organizationId: string,
  domain: string,
): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable('organization_domain')
    .set({ proved_by: null, proved_at: null, checked_at: null })
    .where('organization_id', '=', organizationId)
    .where('domain', '=', domain)
    .where('proved_by', '=', 'dns')
    .executeTakeFirst();
  return numUpdatedRows === 1n;
}

/** @returns `false` when the organization does not have the domain */
export async function deleteDomain(
  db: Db,
  organizationId: string,
  domain: string,
): Promise<boolean> {
  const { numDeletedRows } = await db
    .deleteFrom('organization_domain')
    .where('organization_id', '=', organizationId)
    .where('domain', '=', domain)
    .executeTakeFirst();
  return numDeletedRows === 1n;
}

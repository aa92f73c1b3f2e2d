import { insertAuditEvent, type AuditEvent, type RequestSource } from '#db/audit';
import { revokeBundle } from '#db/grant-bundles';
import { revokeGrant, type NamedGrant } from '#db/grants';
import { transaction, type Db } from '#db/transaction';
import type { Clock } from '#model/clock';
import { partsOf } from '#model/slug';

/** The dependencies of writing to the audit log. */
export interface NotePorts {
  readonly db: Db;
  readonly clock: Clock;
  /** Where the request came from. */
  readonly source: RequestSource;
}

type Noted = Pick<AuditEvent, 'actor' | 'action' | 'outcome'> &
  Partial<Pick<AuditEvent, 'organization' | 'target'>>;

/** Adds what just happened to the audit log. */
export async function note(event: Noted, { db, clock, source }: NotePorts): Promise<void> {
  const unknown = { organization: undefined, target: undefined };
  await insertAuditEvent(db, { ...unknown, ...source, ...event, at: clock.now() });
}

/** A grant, as the audit log names it. */
export function aboutGrant({ id, serverPath }: Pick<NamedGrant, 'id' | 'serverPath'>) {
  return { organization: partsOf(serverPath).organization, target: id };
}

/** A code or a refresh token that was used again. */
interface Reuse {
  readonly clientId: string;
  readonly action: 'authorization-code.reuse' | 'refresh-token.reuse';
}

/** Revokes the grant of a code or a refresh token that was used again. */
export async function endReusedGrant(
  grant: Pick<NamedGrant, 'id' | 'serverPath'>,
  { clientId, action }: Reuse,
  ports: NotePorts,
): Promise<void> {
  const about = { actor: `client:${clientId}`, action, outcome: 'refused' } as const;
  await transaction(ports.db, async (tx) => {
    await revokeGrant(tx, grant.id, ports.clock.now());
    await note({ ...about, ...aboutGrant(grant) }, { ...ports, db: tx });
  });
}

/** Revokes all grants of a bundle. The audit log of each organization has an entry for each grant there. */
export async function endReusedBundle(
  bundleId: string,
  { clientId, action }: Reuse,
  ports: NotePorts,
): Promise<void> {
  const about = { actor: `client:${clientId}`, action, outcome: 'refused' } as const;
  await transaction(ports.db, async (tx) => {
    const revoked = (await revokeBundle(tx, bundleId, ports.clock.now())) ?? [];
    const nothing = [{ id: bundleId, organization: undefined }];
    for (const { id, organization } of revoked.length > 0 ? revoked : nothing) {
      await note({ ...about, organization, target: id }, { ...ports, db: tx });
    }
  });
}

import {
  type EntryPorts,
  type MemberSignInPorts,
  ownsDomain,
} from '#accounts/organization-providers';
import type { AuditAction } from '#audit/sentences';
import { insertAuditEvent } from '#db/audit';
import { lockScimToken, type ScimTenant } from '#db/scim-tokens';
import { transaction, type Db } from '#db/transaction';
import { domainOf } from '#model/email';
import { ScimError } from './scim-error.ts';
import type { ListQuery, listResponse, Projection, Resource } from './listing.ts';
import type { Location } from './schemas.ts';

export type ScimPorts = EntryPorts &
  Pick<MemberSignInPorts, 'refusals'> & {
    /** The most group members that one list request reads; default 20,000. */
    readonly mostMembersRead?: number;
  };

export type Members = Readonly<Record<string, unknown>>;

/** An authenticated request of a directory. */
export interface ScimRequest {
  readonly tenant: ScimTenant;
  /** Returns the URL of a path below the SCIM URL of the organization. */
  readonly location: Location;
  readonly address: string;
  readonly requestId: string;
}

/** Answers a request. @throws {ScimError} */
type Answering<Input extends readonly unknown[], Answer> = (
  ...given: [...Input, request: ScimRequest, ports: ScimPorts]
) => Promise<Answer>;

/** The operations that both `/Users` and `/Groups` offer. */
export interface Endpoints {
  readonly list: Answering<[query: ListQuery], ReturnType<typeof listResponse>>;
  readonly get: Answering<[id: string, projection: Projection], Resource>;
  readonly create: Answering<[body: Members], Resource>;
  readonly replace: Answering<[id: string, body: Members], Resource>;
  /** Resolves with `undefined` for an answer without content. */
  readonly patch: Answering<[id: string, body: Members], Resource | undefined>;
  readonly remove: Answering<[id: string], void>;
}

/** The actor in the audit log for every change that a directory makes. */
const scimActor = 'scim';

/** The error for a request without a valid token of the organization, whether or not the organization exists. */
export function unauthorized(): ScimError {
  return new ScimError(401, 'missing or invalid token');
}

/** Runs a change in a transaction that fails if the token was revoked since it was checked. */
export function changing<Result>(
  { tenant }: ScimRequest,
  { db, clock }: Pick<ScimPorts, 'db' | 'clock'>,
  work: (tx: Db) => Promise<Result>,
): Promise<Result> {
  return transaction(db, async (tx) => {
    if (!(await lockScimToken(tx, tenant.tokenId, clock.now()))) throw unauthorized();
    return work(tx);
  });
}

/** Records a change in the audit log, within its transaction. */
export async function noteChange(
  tx: Db,
  { tenant, address, requestId }: ScimRequest,
  { action, target, at }: { action: AuditAction; target: string; at: number },
): Promise<void> {
  await insertAuditEvent(tx, {
    at,
    actor: scimActor,
    organization: tenant.organization,
    action,
    target,
    address,
    requestId,
    outcome: 'done',
  });
}

/** Whether the organization has proved that it owns the domain of an address. Only then can an account be created with that address. */
export async function ownsAddress(
  address: string | undefined,
  { organizationId, organization }: ScimTenant,
  ports: ScimPorts,
): Promise<boolean> {
  return (
    address !== undefined && ownsDomain(domainOf(address), { organizationId, organization }, ports)
  );
}

/** Formats a time, in seconds since 1970, as SCIM writes it. RFC 7643 §2.3.5 */
export function dateTime(at: number): string {
  return new Date(at * 1000).toISOString();
}

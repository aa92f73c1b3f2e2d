// "What can Dana see?": what a person, a key, a client or a grant may use of a server, with the reason for each line.

import type { EpochSeconds } from '#model/clock';
import type { ServerRecord } from '#model/endpoints';
import type { Scope } from '#model/scopes';
import type { Suspension } from '#model/suspension';
import {
  allows,
  type PrimitiveKind,
  ToolRights,
  type ToolCaller,
  type Verdict,
} from '#model/tool-rights';
import { partsOf } from '#model/slug';
import { currentAdmissions, type AdmittedClient, type Suspended } from './admissions.ts';
import { findClient } from './clients.ts';
import { findGrant, type Grant } from './grants.ts';
import { findKey } from './keys.ts';
import { findMember } from './people.ts';
import { listNamed, noToolRules, type Primitive } from './tool-rules.ts';
import type { Db } from './transaction.ts';
import { findTrustRule } from './trust-rules.ts';

/** The person, key, client or grant whose rights are explained. */
export type RightsSubject =
  /** A member without the limits of an application: in the console, or through an application that may do all that the member may. */
  | { readonly type: 'person'; readonly userId: string }
  | { readonly type: 'key'; readonly keyId: string }
  /** A client that acts for itself. */
  | { readonly type: 'client'; readonly clientId: string }
  /** A client that acts for a person. */
  | { readonly type: 'grant'; readonly grantId: string };

/** Why a subject cannot use the server at all. */
export type Excluded =
  | 'organization_disabled'
  | 'server_disabled'
  /** The server is restricted to groups, and the person is in none of them. */
  | 'no_server_group'
  | 'revoked'
  | 'expired'
  /** The credential is for another server. */
  | 'other_server'
  /** The client acts only for people: it registered itself, or is for the whole organization and has no trust rule. */
  | 'only_for_people'
  | Exclude<Suspension, 'server'>;

/** Why a tool, prompt or resource may be used, or not. `no_scope`: the credential, or the person's role, lacks the scope for it. */
export type RightsReason = Verdict | 'no_scope' | Excluded;

export interface ExplainedRight extends Primitive {
  readonly allowed: boolean;
  readonly reason: RightsReason;
}

export interface ExplainedRights {
  /** Why the subject cannot use the server at all; absent if it can. */
  readonly excluded?: Excluded;
  /** All known tools, prompts and resources of the server, ordered by kind and name. */
  readonly items: readonly ExplainedRight[];
}

/** @returns `undefined` if the organization has no such person, key, client or grant */
export async function explainRights(
  db: Db,
  server: ServerRecord,
  subject: RightsSubject,
  now: EpochSeconds,
): Promise<ExplainedRights | undefined> {
  const found = await findCaller(db, server, subject, now);
  if (!found) return undefined;
  const { target } = server;
  const known = await listNamed(db, target, target.rules ?? noToolRules);
  if ('excluded' in found) {
    const { excluded } = found;
    const items = known.map(({ kind, name }) => ({ kind, name, allowed: false, reason: excluded }));
    return { excluded, items };
  }
  const rights = new ToolRights(target, found.caller);
  const items = known.map(({ kind, name }) => {
    const reason = verdictOf(rights, found.scopes, { kind, name });
    return { kind, name, allowed: reason !== 'no_scope' && allows(reason), reason };
  });
  return { items };
}

/** The scope that using a tool, prompt or resource requires. */
function scopeOfKind(kind: PrimitiveKind): Scope {
  return kind === 'tool' ? 'mcp:tools:execute' : 'mcp:resources:read';
}

/** Whether a caller may use something, and why. */
export function verdictOf(
  rights: ToolRights,
  scopes: readonly Scope[],
  { kind, name }: Primitive,
): Verdict | 'no_scope' {
  return scopes.includes(scopeOfKind(kind)) ? rights.verdict(kind, name) : 'no_scope';
}

/**
 * Returns a function that tells whether a person may use a tool, prompt or resource of a server; `undefined` if they cannot use the server.
 * For a collection, the person must also have the right at the member.
 */
export async function usableBy(
  db: Db,
  record: Pick<ServerRecord, 'organization' | 'name' | 'id' | 'target'>,
  userId: string,
): Promise<((one: Primitive) => boolean) | undefined> {
  const { organization, name: server, target } = record;
  const mayUse = uses(await currentAdmissions(db).byPerson({ organization, server, userId }));
  if (!mayUse || target.upstream.kind !== 'collection') return mayUse;
  const { members, names } = target.upstream;
  const ofMembers: (((one: Primitive) => boolean) | undefined)[] = [];
  for (const { name: member } of members)
    ofMembers.push(await usableInCollection(db, record, { member, userId }));
  // Unambiguous, because a kind has no space.
  const usable = new Set<string>();
  for (const [kind, place, name, shown = name] of names)
    if (ofMembers[place]?.({ kind, name })) usable.add(`${kind} ${shown}`);
  return (one) => usable.has(`${one.kind} ${one.name}`) && mayUse(one);
}

/** Like `usableBy`, for a member of a collection when the person calls the collection. */
async function usableInCollection(
  db: Db,
  { organization, id: collectionId }: Pick<ServerRecord, 'organization' | 'id'>,
  { member, userId }: { readonly member: string; readonly userId: string },
): Promise<((one: Primitive) => boolean) | undefined> {
  const at = { organization, server: member, collectionId, userId };
  return uses(await currentAdmissions(db).byMember(at));
}

function uses(
  admitted: AdmittedClient | Suspended | undefined,
): ((one: Primitive) => boolean) | undefined {
  if (!admitted || 'suspension' in admitted) return undefined;
  const { endpoint, toolCaller, scopes } = admitted;
  const rights = new ToolRights(endpoint.target, toolCaller);
  return (one) => {
    const verdict = verdictOf(rights, scopes, one);
    return verdict !== 'no_scope' && allows(verdict);
  };
}

type Caller = { readonly caller: ToolCaller; readonly scopes: readonly Scope[] };
type Found = Caller | { readonly excluded: Excluded };

/** The caller as admission finds it, or why the subject is not admitted. */
async function findCaller(
  db: Db,
  server: ServerRecord,
  subject: RightsSubject,
  now: EpochSeconds,
): Promise<Found | undefined> {
  const at = { organization: server.organization, server: server.name };
  const admissions = currentAdmissions(db);
  const excluded = (reason: Excluded) => ({ excluded: reason });
  switch (subject.type) {
    case 'person': {
      if (!(await isMember(db, server, subject.userId))) return undefined;
      const admitted = await admissions.byPerson({ ...at, userId: subject.userId });
      return admitted ? foundCaller(admitted) : excluded(await keptOut(db, server));
    }
    case 'key': {
      const key = await findKey(db, subject.keyId);
      if (key?.organization !== server.organization) return undefined;
      if (key.revokedAt !== undefined) return excluded('revoked');
      if (key.expiresAt !== undefined && key.expiresAt <= now) return excluded('expired');
      if (key.server !== server.name) return excluded('other_server');
      const { hash } = await hashOfKey(db, key.id);
      const admitted = await admissions.byKey({ ...at, keyHash: hash, now });
      return admitted ? foundCaller(admitted) : excluded('organization_disabled');
    }
    case 'client': {
      const client = await findClient(db, subject.clientId);
      // A client that registered itself belongs to no organization, and acts only for people.
      if (!client || (client.organization ?? server.organization) !== server.organization) {
        return undefined;
      }
      if (client.revokedAt !== undefined) return excluded('revoked');
      // Of the clients of a whole organization, only workloads act for themselves.
      if (client.serverId === undefined && !(await findTrustRule(db, client.id))) {
        return excluded('only_for_people');
      }
      if (client.serverId !== undefined && client.serverId !== server.id) {
        return excluded('other_server');
      }
      const admitted = await admissions.byClient({ ...at, clientId: client.id });
      return admitted ? foundCaller(admitted) : excluded('organization_disabled');
    }
    case 'grant': {
      const grant = await findGrant(db, subject.grantId);
      if (!grant || partsOf(grant.serverPath).organization !== server.organization)
        return undefined;
      return grantCaller(db, server, grant, now);
    }
  }
}

async function grantCaller(
  db: Db,
  server: ServerRecord,
  grant: Grant,
  now: EpochSeconds,
): Promise<Found> {
  const { id, userId, clientId, serverId, revokedAt, expiresAt } = grant;
  if (revokedAt !== undefined) return { excluded: 'revoked' };
  if (expiresAt <= now) return { excluded: 'expired' };
  if (serverId !== server.id) return { excluded: 'other_server' };
  const at = { organization: server.organization, server: server.name };
  const admitted = await currentAdmissions(db).byClient({ ...at, clientId, grant: { id, userId } });
  if (admitted) {
    const found = foundCaller(admitted);
    if ('excluded' in found) return found;
    return { ...found, scopes: found.scopes.filter((scope) => grant.scopes.includes(scope)) };
  }
  const client = await findClient(db, clientId);
  if (!client || client.revokedAt !== undefined) return { excluded: 'revoked' };
  // A grant ends with the membership of its person.
  return { excluded: await keptOut(db, server) };
}

function foundCaller(admitted: AdmittedClient | Suspended): Found {
  if (!('suspension' in admitted)) {
    return { caller: admitted.toolCaller, scopes: admitted.scopes };
  }
  const { suspension } = admitted;
  return { excluded: suspension === 'server' ? 'server_disabled' : suspension };
}

async function isMember(db: Db, server: ServerRecord, userId: string): Promise<boolean> {
  const { organization_id: organizationId } = await db
    .selectFrom('endpoint')
    .select('organization_id')
    .where('id', '=', server.id)
    .executeTakeFirstOrThrow();
  return (await findMember(db, organizationId, userId)) !== undefined;
}

/** Why a member is not admitted. */
async function keptOut(db: Db, { organization }: ServerRecord): Promise<Excluded> {
  const { disabled_at: disabledAt } = await db
    .selectFrom('organization')
    .select('disabled_at')
    .where('name', '=', organization)
    .executeTakeFirstOrThrow();
  return disabledAt === null ? 'no_server_group' : 'organization_disabled';
}

function hashOfKey(db: Db, id: string) {
  return db.selectFrom('api_key').select('hash').where('id', '=', id).executeTakeFirstOrThrow();
}

import type { z } from 'zod';

import { type Organization, findOrganization } from '#db/organizations';
import { type Role, roles } from '#model/roles';
import { missingProof } from '#model/sign-in-proof';
import type { EpochSeconds, Clock } from '#model/clock';
import type { MasterKey } from '#secrets/master-key';
import { isAuditor } from '#db/call-contents';
import { hashSecret, isWellFormedSecret } from '#secrets/secrets';
import { listEndedOrganizations, lockPersonalToken, usePersonalToken } from '#db/personal-tokens';
import { transaction, type Db } from '#db/transaction';
import type { RefusalLog } from '#audit/counted-refusals';
import type { AuditAction } from '#audit/sentences';
import { insertAuditEvent, listAuditedIn } from '#db/audit';
import type { ProviderSetup } from '#accounts/provider-setup';
import type { UpstreamSetup } from '#upstreams/credentials/setup';
import type { MailSetup } from '#mail/mail-setup';
import type { WebhookSetup } from '#webhooks/webhook-setup';
import { redact } from 'latchkey-mcp/safe-text';
import { findSettings } from '#db/settings';
import { listOpenMemberships, lockRole, type Membership } from '#db/people';
import { AdministrationRefusal, checkedInput, forbidden, notFound } from './refusal.ts';
import { lockSession, type SessionThrough } from '#db/sessions';

/** The method and path of an operation in the admin API. Paths are relative to `/api/admin`: `/organizations/{organization}/servers`. */
export interface OperationRoute {
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  /** A name in braces stands for a field of the input. */
  readonly path: string;
  /** The path of the created resource, for operations that create one. Names in braces stand for fields of input or output. */
  readonly made?: string;
}

interface OperationFacts<Input extends z.ZodObject, Output extends z.ZodObject> {
  /** The name, which is also the action in the audit log: `client.create`. */
  readonly name: AuditAction;
  /** One sentence without a period. */
  readonly doc: string;
  /** `undefined` for an operation that only commands offer. A GET only reads. */
  readonly route?: OperationRoute;
  /** Whether it only reads although its route is a POST, because its input is too long for a URL. */
  readonly onlyReads?: boolean;
  readonly input: Input;
  readonly output: Output;
  /** The target in the audit log: `client:client_…`. `output` is set after the operation succeeded. */
  readonly target?: (input: z.output<Input>, output?: z.output<Output>) => string | undefined;
}

/** An operation within the organization that the input's `organization` names. */
export interface OrganizationOperation<
  Input extends z.ZodObject = z.ZodObject,
  Output extends z.ZodObject = z.ZodObject,
> extends OperationFacts<Input, Output> {
  readonly within: 'organization';
  readonly permission: Permission;
  /** Whether it also requires the Auditor right, which no role implies. */
  readonly isForAuditors?: boolean;
  /**
   * Sends slow requests to other servers before the transaction of `run` begins, once the actor is known to be authorized.
   * Returns ports for `run` that contain the responses.
   */
  readonly ahead?: (
    input: z.output<Input>,
    at: { readonly organization: Organization; readonly actor: Actor },
    ports: AdministrationPorts,
  ) => Promise<
    Partial<
      Pick<AdministrationPorts, 'upstreamSetup' | 'webhookSetup' | 'providerSetup' | 'mailSetup'>
    >
  >;
  run(
    input: z.output<Input>,
    at: { readonly organization: Organization; readonly role: Role; readonly actor: Actor },
    ports: AdministrationPorts,
  ): Promise<z.output<Output>>;
}

/** An operation on the actor's own account or on the whole installation. `run` itself checks who may perform it. */
export interface PersonalOperation<
  Input extends z.ZodObject = z.ZodObject,
  Output extends z.ZodObject = z.ZodObject,
> extends OperationFacts<Input, Output> {
  readonly within: 'person';
  /** The person whose account it changes: each organization that they belonged to before gets an entry in its audit log. */
  readonly changes?: (input: z.output<Input>) => string;
  run(
    input: z.output<Input>,
    at: { readonly actor: Actor },
    ports: AdministrationPorts,
  ): Promise<z.output<Output>>;
}

/** An action of administrators, the same for pages, the admin API and commands. */
export type Operation<
  Input extends z.ZodObject = z.ZodObject,
  Output extends z.ZodObject = z.ZodObject,
> = OrganizationOperation<Input, Output> | PersonalOperation<Input, Output>;

/** Declares an operation within an organization, so that the compiler infers its types. */
export function organizationOperation<Input extends z.ZodObject, Output extends z.ZodObject>(
  facts: Omit<OrganizationOperation<Input, Output>, 'within'>,
): OrganizationOperation<Input, Output> {
  return { ...facts, within: 'organization' };
}

/** Declares an operation outside any organization, so that the compiler infers its types. */
export function personalOperation<Input extends z.ZodObject, Output extends z.ZodObject>(
  facts: Omit<PersonalOperation<Input, Output>, 'within'>,
): PersonalOperation<Input, Output> {
  return { ...facts, within: 'person' };
}

/** The least role that has each permission. Every role above it has the permission too. */
const leastRole = {
  'organization.read': 'viewer',
  'organization.settings': 'admin',
  'organization.manage': 'owner',
  'server.read': 'viewer',
  'server.try': 'member',
  'server.manage': 'admin',
  'client.read': 'viewer',
  'client.manage': 'admin',
  'key.read': 'viewer',
  'key.manage': 'admin',
  'agent.read': 'admin',
  'agent.manage': 'admin',
  'people.read': 'admin',
  'people.manage': 'admin',
  'owners.manage': 'owner',
  'grants.read': 'admin',
  'grants.manage': 'admin',
  'audit.read': 'admin',
  'webhook.manage': 'admin',
  // The roles that see what needs attention.
  'notice.manage': 'admin',
  'mail.read': 'admin',
  // The person who chooses the mail server can read every invitation, also those of owners.
  'mail.manage': 'owner',
  'provider.read': 'admin',
  // The person who chooses the provider decides who is who: an admin must not be able to sign in as an owner.
  'provider.manage': 'owner',
  'usage.read': 'admin',
  'activity.read': 'admin',
} as const satisfies Partial<Record<AuditAction, Role>>;

/** A permission that an operation requires: `server.manage`. */
export type Permission = keyof typeof leastRole;

/** Whether a role has a permission. A role has all permissions of the roles below it. */
export function mayDo(role: Role, permission: Permission): boolean {
  return roles.indexOf(role) <= roles.indexOf(leastRole[permission]);
}

/** Who performs an operation: the operator at the command line, who has all permissions, or a person. */
export type Actor = {
  /** The IP address of the request; `undefined` at the command line. */
  readonly address: string | undefined;
  readonly requestId: string | undefined;
} & (
  | { readonly type: 'operator' }
  | {
      readonly type: 'person';
      readonly userId: string;
      /** What they authenticated with. */
      readonly credential: { readonly type: 'session' | 'token'; readonly id: string };
      /** When the person last signed in with this browser; `undefined` for a personal token. */
      readonly provedAt: EpochSeconds | undefined;
      /** How many factors were proved in this browser, or in the one that created the personal token. */
      readonly factors: 1 | 2;
      /** The provider of the only organization that this actor may act in; absent if the person signed in to their whole account. */
      readonly through?: SessionThrough | undefined;
    }
);

/** The operator, who runs commands on the host of the server. */
export const operator: Actor = { type: 'operator', address: undefined, requestId: undefined };

/** The actor as recorded in the audit log. */
export function actorName(actor: Actor): string {
  return actor.type === 'operator' ? 'operator' : `user:${actor.userId}`;
}

/** The person who acts for themselves. @throws {AdministrationRefusal} `forbidden` for the operator */
export function personOf(actor: Actor): string {
  if (actor.type === 'person') return actor.userId;
  throw forbidden('the operator has no account of their own here');
}

/**
 * The person who owns this personal token; `undefined` when the token is unknown, expired or revoked, or its owner was
 * deleted. Deliberately not distinguished. Permissions are looked up for each operation.
 */
export async function tokenActor(
  personalToken: string,
  from: { readonly address: string; readonly requestId: string },
  { db, clock }: { db: Db; clock: Clock },
): Promise<Actor | undefined> {
  if (!isWellFormedSecret('pat_', personalToken)) return undefined;
  const token = await usePersonalToken(db, hashSecret(personalToken), clock.now());
  if (!token) return undefined;
  const { id, userId, factors } = token;
  const credential = { type: 'token', id } as const;
  return { type: 'person', userId, credential, provedAt: undefined, factors, ...from };
}

/** The dependencies of operations. */
export interface AdministrationPorts {
  /** In `run` of an operation that changes something: its transaction, which must await nothing but its own queries. */
  readonly db: Db;
  readonly upstreamSetup: UpstreamSetup;
  readonly webhookSetup: WebhookSetup;
  readonly providerSetup: ProviderSetup;
  readonly mailSetup: MailSetup;
  /** Opens stored arguments and results of calls. */
  readonly contentKey: Pick<MasterKey, 'open'>;
  /** Records refusals that can be caused without limit. */
  readonly refusals: RefusalLog;
  readonly clock: Clock;
  /** The public URL; absent where a command does not need it. */
  readonly base?: string | undefined;
  /** Aborted when no one waits for the output any more. Only operations that read for long must check it. */
  readonly signal?: AbortSignal | undefined;
}

/** The dependencies that helpers of operations need most often. */
export type WithDb = Pick<AdministrationPorts, 'db'>;
export type WithDbAndClock = Pick<AdministrationPorts, 'db' | 'clock'>;

const maxTargetLength = 200;

/**
 * Performs an operation or refuses it. Pages, the admin API and commands all call this. It validates the input, finds the
 * organization among those that the actor belongs to now, compares the proved factors with what the organization requires
 * and the role with the permission, runs the operation and audits it. All of that is one transaction: nothing happens that
 * cannot be audited, and neither the actor's rights nor the session or token can be taken away in between. Operations that
 * only read are audited only when they are refused.
 *
 * @throws {AdministrationRefusal}
 */
export async function perform<Input extends z.ZodObject, Output extends z.ZodObject>(
  operation: Operation<Input, Output>,
  input: Readonly<Record<string, unknown>>,
  actor: Actor,
  ports: AdministrationPorts,
): Promise<z.output<Output>> {
  const data = checkedInput(operation.input, input);
  const named: unknown = Reflect.get(data, 'organization');
  const name = typeof named === 'string' ? named : undefined;
  let place: Place | undefined;
  const happened = (output?: z.output<Output>) => ({
    actor: actorName(actor),
    // People of other organizations must not be able to add entries to this one's audit log.
    organization: place?.organization.name,
    action: operation.name,
    target: auditTarget(
      name !== undefined && !place ? `organization:${name}` : operation.target?.(data, output),
    ),
    address: actor.address,
    requestId: actor.requestId,
  });
  const act = async (within: AdministrationPorts): Promise<z.output<Output>> => {
    place = name === undefined ? undefined : await placeOf(name, actor, within);
    return run(operation, data, { actor, place }, within);
  };
  const ahead = async () => {
    if (operation.within === 'person' || !operation.ahead) return {};
    place = name === undefined ? undefined : await placeOf(name, actor, ports);
    const at = { ...(await entitled(operation, { actor, place }, ports)), actor };
    return operation.ahead(data, at, ports);
  };
  try {
    if (operation.route?.method === 'GET' || operation.onlyReads) return await act(ports);
    const answers = await ahead();
    return await transaction(ports.db, async (db) => {
      await requireActive(actor, { db, clock: ports.clock });
      const changed = operation.within === 'person' ? operation.changes?.(data) : undefined;
      const theirs = changed === undefined ? [] : await listAuditedIn(db, changed);
      const output = await act({ ...ports, ...answers, db });
      const event = { ...happened(output), at: ports.clock.now(), outcome: 'done' } as const;
      for (const organization of theirs.length > 0 ? theirs : [event.organization]) {
        await insertAuditEvent(db, { ...event, organization });
      }
      return output;
    });
  } catch (refusal) {
    if (refusal instanceof AdministrationRefusal && refusal.code !== 'invalid') {
      await ports.refusals.note(happened());
    }
    throw refusal;
  }
}

/**
 * Checks within a transaction that the session or token of the actor has not ended since it was looked up.
 *
 * @throws {AdministrationRefusal} `signed_out`
 */
async function requireActive(actor: Actor, { db, clock }: WithDbAndClock): Promise<void> {
  if (actor.type === 'operator') return;
  const { type, id } = actor.credential;
  const lock = type === 'token' ? lockPersonalToken : lockSession;
  if (await lock(db, id, clock.now())) return;
  const what =
    type === 'token' ? 'missing or invalid personal access token' : 'your session has ended';
  throw new AdministrationRefusal('signed_out', what);
}

/** An entry that an operation adds to the audit log besides its own. */
export interface AuditNote {
  readonly action: AuditAction;
  readonly target: string | undefined;
}

/** Where it happened, and who did it. */
export interface AuditPlace {
  readonly organization: { readonly name: string };
  readonly actor: Actor;
}

/** Adds an entry to the audit log in addition to that of the operation, in its transaction. */
export async function noteDone(
  { action, target }: AuditNote,
  { organization, actor }: AuditPlace,
  { db, clock }: WithDbAndClock,
): Promise<void> {
  await insertAuditEvent(db, {
    at: clock.now(),
    actor: actorName(actor),
    organization: organization.name,
    action,
    target,
    address: actor.address,
    requestId: actor.requestId,
    outcome: 'done',
  });
}

/** Redacts and shortens a target: instead of a name, someone may have pasted a secret or a long text. */
export function auditTarget(target: string | undefined): string | undefined {
  return target === undefined ? undefined : redact(target).slice(0, maxTargetLength);
}

type Place = { readonly organization: Organization; readonly role: Role };

async function run<Input extends z.ZodObject, Output extends z.ZodObject>(
  operation: Operation<Input, Output>,
  data: z.output<Input>,
  { actor, place }: { actor: Actor; place: Place | undefined },
  ports: AdministrationPorts,
): Promise<z.output<Output>> {
  if (operation.within === 'person') {
    if (actor.type === 'person' && actor.through) throw wholeAccountOnly();
    return operation.run(data, { actor }, ports);
  }
  return operation.run(
    data,
    { ...(await entitled(operation, { actor, place }, ports)), actor },
    ports,
  );
}

/** The organization and role, if the actor may perform the operation there. @throws {AdministrationRefusal} */
async function entitled(
  {
    permission,
    isForAuditors = false,
  }: { readonly permission: Permission; readonly isForAuditors?: boolean },
  { actor, place }: { actor: Actor; place: Place | undefined },
  ports: WithDb,
): Promise<Place> {
  if (!place) throw notFound('organization');
  if (actor.type === 'person')
    await checkEntry(actor, { ...place, organization: place.organization.name }, ports);
  if (isForAuditors && actor.type === 'person') {
    const { id, name } = place.organization;
    if (!(await isAuditor(ports.db, id, actor.userId))) {
      const words = `reading arguments and results requires the Auditor right in ${name}, which an owner grants`;
      throw forbidden(words);
    }
  }
  if (mayDo(place.role, permission)) return place;
  throw forbidden(`your role in ${place.organization.name} (${place.role}) does not allow this`);
}

/**
 * Checks that the sign-in of a person meets what an organization requires of its members.
 *
 * @throws {AdministrationRefusal} `forbidden`
 */
export async function checkEntry(
  person: Extract<Actor, { type: 'person' }>,
  { organization, role }: { readonly organization: string; readonly role: Role },
  { db }: WithDb,
): Promise<void> {
  const rules = await findSettings(db, organization);
  const missing = rules && missingProof(person, role, rules);
  if (missing) throw proofMissing(missing, organization);
}

function proofMissing(
  missing: NonNullable<ReturnType<typeof missingProof>>,
  organization: string,
): AdministrationRefusal {
  const words = {
    'second-factor': `${organization} requires a second factor: sign in with one, and create new personal tokens`,
    'single-sign-on': `${organization} requires single sign-on: sign in through its identity provider. Personal tokens work there only for owners who created them with two factors`,
  };
  return forbidden(words[missing]);
}

function wholeAccountOnly(): AdministrationRefusal {
  const words =
    'you are signed in through an organization, which opens only that organization: sign in to your account';
  return forbidden(words);
}

/** The organization and the actor's role, if the actor belongs to it now. */
async function placeOf(name: string, actor: Actor, { db }: WithDb): Promise<Place | undefined> {
  if (actor.type === 'operator') {
    const organization = await findOrganization(db, name);
    return organization && { organization, role: 'owner' };
  }
  // Locks the role before anything that depends on it is read.
  const locked = db.isTransaction ? await lockRole(db, actor.userId, name) : undefined;
  const open = await openMemberships(actor, { db });
  const membership = open.find(({ organization }) => organization === name);
  const role = db.isTransaction ? locked : membership?.role;
  const organization = membership && (await findOrganization(db, name));
  return organization && role && { organization, role };
}

/**
 * The memberships that a session or token opens: for a session through the provider of an organization, only the one there; for a token,
 * none in an organization that its owner left since they created it. `checkEntry` decides whether the proof is enough to enter.
 */
export async function openMemberships(
  actor: Extract<Actor, { type: 'person' }>,
  { db }: WithDb,
): Promise<Membership[]> {
  const all = await listOpenMemberships(db, actor);
  const { type, id } = actor.credential;
  if (type !== 'token') return all;
  const ended = await listEndedOrganizations(db, id);
  return all.filter(({ organizationId }) => !ended.has(organizationId));
}

/** The organizations that a person may enter as they are signed in, or with their token, and their role there. */
export async function enterableOrganizations(
  actor: Extract<Actor, { type: 'person' }>,
  { db }: WithDb,
): Promise<ReadonlyMap<string, Role>> {
  const roleOf = new Map<string, Role>();
  for (const { organization, role } of await openMemberships(actor, { db })) {
    const rules = await findSettings(db, organization);
    if (rules && !missingProof(actor, role, rules)) roleOf.set(organization, role);
  }
  return roleOf;
}

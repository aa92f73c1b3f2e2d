import type { z } from 'zod';

import { type Organization, findOrganization } from '#db/organizations';
import { type Role, roles } from '#accounts/people';
import type { EpochSeconds, Clock } from '#clock/clock';
import { hashSecret, isWellFormedSecret } from '#oauth/secrets';
import { usePersonalToken } from '#db/personal-tokens';
import { transaction, type Db } from '#db/transaction';
import type { RefusalLog } from '#audit/counted-refusals';
import { insertAuditEvent } from '#db/audit';
import type { UpstreamSetup } from '#upstreams/credentials/setup';
import type { WebhookSetup } from '#webhooks/webhook-setup';
import { redact } from '#log/redact';
import { findSettings } from '#db/settings';
import { listMemberships, lockRole } from '#db/people';
import { AdministrationRefusal, notFound, checkedInput } from './refusal.ts';

/** Where an operation stands in the admin API, below `/api/admin`: `/organizations/{organization}/servers`. */
export interface OperationRoute {
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  /** A name in braces is a field of the input. */
  readonly path: string;
  /** For what makes something: where that is then, its braces filled from input and output. */
  readonly made?: string;
}

interface OperationFacts<Input extends z.ZodObject, Output extends z.ZodObject> {
  /** Also the action in the audit log: `client.create`. */
  readonly name: string;
  /** One sentence without a period. */
  readonly doc: string;
  /** `undefined` for what is only there at the command line. What is a GET only reads. */
  readonly route?: OperationRoute;
  readonly input: Input;
  readonly output: Output;
  /** What the audit log calls what it is about: `client:client_…`. The output is there once it is done. */
  readonly target?: (input: z.output<Input>, output?: z.output<Output>) => string | undefined;
}

/** Within one organization, which the input's `organization` names. */
export interface OrganizationOperation<
  Input extends z.ZodObject = z.ZodObject,
  Output extends z.ZodObject = z.ZodObject,
> extends OperationFacts<Input, Output> {
  readonly within: 'organization';
  readonly permission: Permission;
  /**
   * Asks others, which takes a while, before the transaction of `run` begins and for who may do this: ports for `run`
   * that have the answers.
   */
  readonly ahead?: (
    input: z.output<Input>,
    at: { readonly organization: Organization; readonly actor: Actor },
    ports: AdministrationPorts,
  ) => Promise<Partial<Pick<AdministrationPorts, 'upstreamSetup' | 'webhookSetup'>>>;
  run(
    input: z.output<Input>,
    at: { readonly organization: Organization; readonly role: Role; readonly actor: Actor },
    ports: AdministrationPorts,
  ): Promise<z.output<Output>>;
}

/** Of the actor alone, or of the whole installation; `run` itself says who may. */
export interface PersonalOperation<
  Input extends z.ZodObject = z.ZodObject,
  Output extends z.ZodObject = z.ZodObject,
> extends OperationFacts<Input, Output> {
  readonly within: 'person';
  run(
    input: z.output<Input>,
    at: { readonly actor: Actor },
    ports: AdministrationPorts,
  ): Promise<z.output<Output>>;
}

/** One thing that administrators do, the same from a page, the admin API and the command line. */
export type Operation<
  Input extends z.ZodObject = z.ZodObject,
  Output extends z.ZodObject = z.ZodObject,
> = OrganizationOperation<Input, Output> | PersonalOperation<Input, Output>;

/** Declares an operation within an organization, and lets the compiler work out its types. */
export function organizationOperation<Input extends z.ZodObject, Output extends z.ZodObject>(
  facts: Omit<OrganizationOperation<Input, Output>, 'within'>,
): OrganizationOperation<Input, Output> {
  return { ...facts, within: 'organization' };
}

/** Declares an operation of the actor's own. */
export function personalOperation<Input extends z.ZodObject, Output extends z.ZodObject>(
  facts: Omit<PersonalOperation<Input, Output>, 'within'>,
): PersonalOperation<Input, Output> {
  return { ...facts, within: 'person' };
}

/** What each operation takes, and who has it: the role named, and every role above it. */
const leastRole = {
  'organization.read': 'viewer',
  'organization.manage': 'owner',
  'server.read': 'viewer',
  'server.try': 'member',
  'server.manage': 'admin',
  'client.read': 'viewer',
  'client.manage': 'admin',
  'key.read': 'viewer',
  'key.manage': 'admin',
  'agent.read': 'viewer',
  'agent.manage': 'admin',
  'people.read': 'viewer',
  'people.manage': 'admin',
  'owners.manage': 'owner',
  'grants.read': 'admin',
  'grants.manage': 'admin',
  'audit.read': 'admin',
  'webhook.manage': 'admin',
  'usage.read': 'viewer',
} as const satisfies Record<string, Role>;

/** What an operation takes: `server.manage`. */
export type Permission = keyof typeof leastRole;

/** Whether a role may do what takes `permission`; a role may all that those below it may. */
export function mayDo(role: Role, permission: Permission): boolean {
  return roles.indexOf(role) <= roles.indexOf(leastRole[permission]);
}

/** Who administers: the operator at the command line, who may everything, or a person. */
export type Actor = {
  /** Where from; `undefined` at the command line. */
  readonly address: string | undefined;
  readonly requestId: string | undefined;
} & (
  | { readonly type: 'operator' }
  | {
      readonly type: 'person';
      readonly userId: string;
      /** When this browser last proved who it is; `undefined` for a personal token, which proves less. */
      readonly provedAt: EpochSeconds | undefined;
      /** How many factors were proved, by this browser or by the one that made the token. */
      readonly factors: 1 | 2;
    }
);

/** The operator of this machine. */
export const operator: Actor = { type: 'operator', address: undefined, requestId: undefined };

/** How the audit log names an actor. */
export function actorName(actor: Actor): string {
  return actor.type === 'operator' ? 'operator' : `user:${actor.userId}`;
}

/**
 * The person whose personal token this is; `undefined` when it is wrong, expired, revoked, or gone with its
 * person: deliberately not distinguished. Permissions are looked up at each operation.
 */
export async function tokenActor(
  personalToken: string,
  from: { readonly address: string; readonly requestId: string },
  { db, clock }: { db: Db; clock: Clock },
): Promise<Actor | undefined> {
  if (!isWellFormedSecret('pat_', personalToken)) return undefined;
  const token = await usePersonalToken(db, hashSecret(personalToken), clock.now());
  if (!token) return undefined;
  const { userId, factors } = token;
  return { type: 'person', userId, provedAt: undefined, factors, ...from };
}

/** What operations need. */
export interface AdministrationPorts {
  /** Inside an operation that changes something: its transaction. Wait there for nothing that does not go through it. */
  readonly db: Db;
  readonly upstreamSetup: UpstreamSetup;
  readonly webhookSetup: WebhookSetup;
  /** For what can be tried without end. */
  readonly refusals: RefusalLog;
  readonly clock: Clock;
}

const mostKept = 200;

/**
 * Does what an administrator asks, or refuses it. The one way in for pages, admin API and command line: the input is
 * held against the schema, the organization looked for among those that the actor belongs to at this moment,
 * what the actor proved held against what it requires, the role against the permission; then it is done and written
 * down. All of that is one transaction: what cannot be written down is not done, and no right is lost meanwhile. What
 * only reads is written down when it is refused.
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
    // People of other organizations must not write into this one's audit log.
    organization: place?.organization.name,
    action: operation.name,
    target: safe(
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
    if (operation.route?.method === 'GET') return await act(ports);
    const answers = await ahead();
    return await transaction(ports.db, async (db) => {
      const output = await act({ ...ports, ...answers, db });
      const at = ports.clock.now();
      await insertAuditEvent(db, { ...happened(output), at, outcome: 'done' });
      return output;
    });
  } catch (refusal) {
    if (refusal instanceof AdministrationRefusal && refusal.code !== 'invalid') {
      await ports.refusals.note(happened());
    }
    throw refusal;
  }
}

/** A name may be a secret or a long text pasted by mistake. */
function safe(target: string | undefined): string | undefined {
  return target === undefined ? undefined : redact(target).slice(0, mostKept);
}

type Place = { readonly organization: Organization; readonly role: Role };

async function run<Input extends z.ZodObject, Output extends z.ZodObject>(
  operation: Operation<Input, Output>,
  data: z.output<Input>,
  { actor, place }: { actor: Actor; place: Place | undefined },
  ports: AdministrationPorts,
): Promise<z.output<Output>> {
  if (operation.within === 'person') return operation.run(data, { actor }, ports);
  return operation.run(
    data,
    { ...(await entitled(operation, { actor, place }, ports)), actor },
    ports,
  );
}

/** The place, for who may do this there. @throws {AdministrationRefusal} */
async function entitled(
  { permission }: { readonly permission: Permission },
  { actor, place }: { actor: Actor; place: Place | undefined },
  ports: Pick<AdministrationPorts, 'db'>,
): Promise<Place> {
  if (!place) throw notFound('organization');
  if (actor.type === 'person' && actor.factors < 2) {
    const rules = await findSettings(ports.db, place.organization.name);
    if (rules?.secondFactorRequired) throw secondFactorMissing(place.organization.name);
  }
  if (mayDo(place.role, permission)) return place;
  const words = `as ${place.role} of ${place.organization.name} you may not do this`;
  throw new AdministrationRefusal('forbidden', words);
}

function secondFactorMissing(organization: string): AdministrationRefusal {
  const words = `${organization} requires a second factor: sign in with one, and create new personal tokens`;
  return new AdministrationRefusal('forbidden', words);
}

/** The organization, if the actor belongs to it now, and as what. */
async function placeOf(
  name: string,
  actor: Actor,
  { db }: Pick<AdministrationPorts, 'db'>,
): Promise<Place | undefined> {
  if (actor.type === 'operator') {
    const organization = await findOrganization(db, name);
    return organization && { organization, role: 'owner' };
  }
  const role = db.isTransaction
    ? await lockRole(db, actor.userId, name)
    : (await listMemberships(db, actor.userId)).find(({ organization }) => organization === name)
        ?.role;
  const organization = role && (await findOrganization(db, name));
  return organization && { organization, role };
}

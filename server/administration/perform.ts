import type { z } from 'zod';

import { redact } from '#log/redact';
import type { Organization } from '#organizations/organization-store';
import type { Role } from '#people/role';
import { actorName, type Actor } from './actor.ts';
import type { AdministrationPorts } from './administration-ports.ts';
import { AdministrationRefusal, notFound } from './administration-refusal.ts';
import { checkedInput } from './checked-input.ts';
import type { Operation } from './operation.ts';
import { mayDo, type Permission } from './permission.ts';

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
    // Whoever is elsewhere writes nothing into the record of an organization that is not theirs.
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
    return await ports.together(async (stores) => {
      const output = await act({ ...ports, ...stores, ...answers });
      const at = ports.clock.now();
      await stores.audit.append({ ...happened(output), at, outcome: 'done' });
      return output;
    });
  } catch (refusal) {
    if (refusal instanceof AdministrationRefusal && refusal.code !== 'invalid') {
      await ports.refusals.note(happened());
    }
    throw refusal;
  }
}

/** Whoever names a thing may have pasted a secret, or a book, in the place of its id. */
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
  ports: Pick<AdministrationPorts, 'settings'>,
): Promise<Place> {
  if (!place) throw notFound('organization');
  if (actor.type === 'person' && actor.factors < 2) {
    const rules = await ports.settings.of(place.organization.name);
    if (rules?.secondFactorRequired) throw secondFactorMissing(place.organization.name);
  }
  if (mayDo(place.role, permission)) return place;
  const words = `as ${place.role} of ${place.organization.name} you may not do this`;
  throw new AdministrationRefusal('forbidden', words);
}

function secondFactorMissing(organization: string): AdministrationRefusal {
  const words = `${organization} requires a second factor: sign in with one, and make personal tokens anew`;
  return new AdministrationRefusal('forbidden', words);
}

/** The organization, if the actor belongs to it now, and as what. */
async function placeOf(
  name: string,
  actor: Actor,
  { organizations, users }: Pick<AdministrationPorts, 'organizations' | 'users'>,
): Promise<Place | undefined> {
  if (actor.type === 'operator') {
    const organization = await organizations.byName(name);
    return organization && { organization, role: 'owner' };
  }
  const memberships = await users.memberships(actor.userId);
  const role = memberships.find((membership) => membership.organization === name)?.role;
  const organization = role && (await organizations.byName(name));
  return organization && { organization, role };
}

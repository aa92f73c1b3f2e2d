import type { z } from 'zod';

import { operator, type Actor } from '#server/administration/actor';
import type { AdministrationPorts } from '#server/administration/administration-ports';
import type { Operation } from '#server/administration/operation';
import { everyRefusal } from '#server/audit/every-refusal';
import { organizationCreate } from '#server/administration/organization-operations';
import { perform } from '#server/administration/perform';
import { serverCreate } from '#server/administration/server-operations';
import type { Role } from '#server/people/role';
import type { OpenStores } from '#server/stores';
import { openDatabase } from './open-database.ts';
import { loopbackSetup } from './upstream-setup.ts';
import { loopbackWebhooks } from './webhook-setup.ts';
import { stillClock, type StillClock } from './still-clock.ts';

/** Operations over a database of their own, with people who are something in it. */
export interface Administered extends AsyncDisposable {
  readonly stores: OpenStores;
  readonly clock: StillClock;
  readonly ports: AdministrationPorts;
  /** Somebody new with this role in `organization`; `undefined` belongs nowhere. */
  person(role: Role | undefined, organization?: string): Promise<Actor>;
  /** Does an operation, as the operator unless somebody else is given. */
  perform<Input extends z.ZodObject, Output extends z.ZodObject>(
    operation: Operation<Input, Output>,
    input: Readonly<Record<string, unknown>>,
    actor?: Actor,
  ): Promise<z.output<Output>>;
}

/** With the servers `acme/web` and `other/web`. */
export async function administered(): Promise<Administered> {
  const stores = await openDatabase();
  const clock = stillClock();
  const refusals = everyRefusal({ ...stores, clock });
  const ports = {
    ...stores,
    clock,
    refusals,
    upstreamSetup: loopbackSetup(),
    webhookSetup: loopbackWebhooks(clock),
  };
  let people = 0;
  const act: Administered['perform'] = (operation, input, actor = operator) =>
    perform(operation, input, actor, ports);
  for (const name of ['acme', 'other']) {
    await act(organizationCreate, { name });
    await act(serverCreate, { organization: name, name: 'web', upstream: { kind: 'demo' } });
  }
  return {
    stores,
    clock,
    ports,
    perform: act,
    async person(role, organization = 'acme') {
      people += 1;
      const user = { id: `user_${people}`, email: `p${people}@example.com`, createdAt: 1 };
      const place = await stores.organizations.byName(organization);
      if (role && place) await stores.users.add(user, { organizationId: place.id, role });
      const from = { address: '192.0.2.1', requestId: 'request-1' };
      return { type: 'person', userId: user.id, provedAt: undefined, factors: 1, ...from };
    },
    [Symbol.asyncDispose]: () => stores[Symbol.asyncDispose](),
  };
}

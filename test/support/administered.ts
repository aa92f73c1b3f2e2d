import type { z } from 'zod';

import { findOrganization } from '#server/db/organizations';
import {
  operator,
  type Actor,
  type AdministrationPorts,
  type Operation,
  perform,
} from '#server/admin/operation';
import { everyRefusal } from '#server/audit/counted-refusals';
import { organizationCreate } from '#server/admin/organizations';
import { serverCreate } from '#server/admin/servers';
import type { Role } from '#server/model/roles';
import type { OpenStores } from '#server/app/stores';
import { insertUser } from '#server/db/people';
import { openDatabase } from './open-database.ts';
import { signedIn } from './signed-in.ts';
import { loopbackSetup } from './upstream-setup.ts';
import { loopbackProviders, type TxtRecords } from './provider-setup.ts';
import { loopbackMail } from './mail-setup.ts';
import { loopbackWebhooks } from './webhook-setup.ts';
import { stillClock, type StillClock } from './still-clock.ts';
import { masterKey } from '#server/secrets/master-key';

/** Operations over a database of their own, with people who have roles in it. */
export interface Administered extends AsyncDisposable {
  readonly stores: OpenStores;
  readonly clock: StillClock;
  readonly ports: AdministrationPorts;
  /** The DNS TXT records that the operations find. */
  readonly txt: TxtRecords;
  /** A new person with this role in `organization`; without a role they belong to none. */
  person(role: Role | undefined, organization?: string): Promise<Actor>;
  /** Performs an operation, as the operator by default. */
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
  const txt: TxtRecords = new Map();
  const ports = {
    ...stores,
    clock,
    refusals,
    upstreamSetup: loopbackSetup(),
    webhookSetup: loopbackWebhooks(clock),
    mailSetup: loopbackMail(clock),
    providerSetup: loopbackProviders(clock, txt),
    contentKey: masterKey(new Uint8Array(32)),
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
    txt,
    perform: act,
    async person(role, organization = 'acme') {
      people += 1;
      const user = { id: `user_${people}`, email: `p${people}@example.com`, createdAt: 1 };
      const place = await findOrganization(stores.db, organization);
      if (role && place) await insertUser(stores.db, user, { organizationId: place.id, role });
      else {
        const { id, email, createdAt: created_at } = user;
        const row = { id, email, email_key: email, created_at };
        await stores.db.insertInto('person').values(row).execute();
      }
      const credential = await signedIn(stores.db, user.id);
      const from = { address: '192.0.2.1', requestId: 'request-1' };
      const person = { type: 'person', userId: user.id, credential } as const;
      return { ...person, provedAt: undefined, factors: 1, ...from };
    },
    [Symbol.asyncDispose]: () => stores[Symbol.asyncDispose](),
  };
}

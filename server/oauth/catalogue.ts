import {
  listRequestableServers,
  newestRequestsOf,
  type AccessRequest,
  type RequestableServer,
} from '#db/access-requests';
import { listGrantsOfPerson, type NamedGrant } from '#db/grants';
import type { Organization } from '#db/organizations';
import { listUsableServers, type UsableServer } from '#db/server-access';
import type { Db } from '#db/transaction';
import { listMissingAccounts, type PersonalCredential } from '#db/upstream-connections';
import type { Clock } from '#model/clock';

/** The most servers of each kind. */
const mostListed = 100;

/** A server that the person may use. */
export interface CataloguedServer extends UsableServer {
  /** `organization/server` */
  readonly path: string;
  /** The active grants of the person there, newest first: which assistant uses it, and on which device. */
  readonly grants: readonly NamedGrant[];
  /** The account or key that calls need at the upstream, if the person has not connected or entered it. */
  readonly missing: PersonalCredential | undefined;
}

/** A server that the person cannot use, but may ask for. */
export interface AskableServer extends RequestableServer {
  /** Their newest request for it. */
  readonly request: AccessRequest | undefined;
}

/** The servers of an organization, as a person sees them. Pages, programs and commands all show this. */
export interface Catalogue {
  readonly servers: readonly CataloguedServer[];
  readonly askable: readonly AskableServer[];
}

export async function catalogueOf(
  userId: string,
  { id, name }: Pick<Organization, 'id' | 'name'>,
  { db, clock }: { readonly db: Db; readonly clock: Clock },
): Promise<Catalogue> {
  const usable = await listUsableServers(db, userId, name, mostListed);
  const ids = usable.map((server) => server.id);
  const missing = await listMissingAccounts(db, userId, ids);
  const grants = Map.groupBy(
    await listGrantsOfPerson(db, userId, clock.now()),
    ({ serverPath }) => serverPath,
  );
  const requests = await newestRequestsOf(db, id, userId);
  const askable = await listRequestableServers(db, userId, id, mostListed);
  return {
    servers: usable.map((server) => {
      const path = `${name}/${server.name}`;
      const its = { path, grants: grants.get(path) ?? [], missing: missing.get(server.id) };
      return Object.assign(server, its);
    }),
    askable: askable.map((server) => Object.assign(server, { request: requests.get(server.id) })),
  };
}

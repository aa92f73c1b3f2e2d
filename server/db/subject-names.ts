import { preparedQuery } from './prepared-query.ts';
import { type Caller, type CallKind, readCallerSubject } from '#model/call-counts';
import type { Db } from './transaction.ts';

const namesIn = (table: 'endpoint' | 'oauth_client' | 'api_key') =>
  preparedQuery((db, ids: readonly string[]) =>
    db.selectFrom(table).select(['id', 'name']).where('id', 'in', ids),
  );
const namesOf = {
  server: namesIn('endpoint'),
  client: namesIn('oauth_client'),
  key: namesIn('api_key'),
  person: preparedQuery((db, ids: readonly string[]) =>
    db.selectFrom('person').select(['id', 'email as name']).where('id', 'in', ids),
  ),
};

const organizationIds = preparedQuery((db, names: readonly string[]) =>
  db.selectFrom('organization').select(['name as id', 'id as name']).where('name', 'in', names),
);

/**
 * Finds the values that recorded calls are stored with: names of keys and clients, addresses of people, ids of organizations by name, and
 * ids of devices by grant.
 */
export async function findCallNames(
  db: Db,
  kind: 'organization' | 'key' | 'client' | 'person' | 'grant',
  ids: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const queries = { ...namesOf, organization: organizationIds, grant: devicesOfGrants };
  const rows = await queries[kind](db, ids);
  return new Map(rows.map(({ id, name }) => [id, name]));
}

/** The devices on which Latchkey's proxy got these grants. */
const devicesOfGrants = preparedQuery((db, ids: readonly string[]) =>
  db
    .selectFrom('oauth_grant')
    .select(['id', 'device_id as name'])
    .$narrowType<{ name: string }>()
    .where('id', 'in', ids)
    .where('device_id', 'is not', null),
);

const organizationNames = preparedQuery((db, ids: readonly string[]) =>
  db.selectFrom('organization').select(['id', 'name']).where('id', 'in', ids),
);

/** The names of organizations, by id. Deleted ones have none. */
export async function findOrganizationNames(
  db: Db,
  ids: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const rows = await organizationNames(db, ids);
  return new Map(rows.map(({ id, name }) => [id, name]));
}

/** The names of the callers in subjects of the kind `caller`, by subject. Deleted callers have none. */
export async function findCallerNames(
  db: Db,
  subjects: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const callers = subjects.flatMap((subject) => {
    const read = readCallerSubject(subject);
    return read ? [{ subject, ...read.caller }] : [];
  });
  const ofType = async (type: Caller['type']) => {
    const these = callers.filter((caller) => caller.type === type);
    const names = await findSubjectNames(db, type, [...new Set(these.map(({ id }) => id))]);
    return these.flatMap(({ subject, id }) => {
      const name = names.get(id);
      return name === undefined ? [] : [[subject, name] as const];
    });
  };
  return new Map([
    ...(await ofType('person')),
    ...(await ofType('client')),
    ...(await ofType('key')),
  ]);
}

/** Display names of subjects, by id. Deleted subjects have none. The subject of a tool, method or application is its name. */
export async function findSubjectNames(
  db: Db,
  kind: Exclude<CallKind, 'caller'>,
  ids: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  if (kind === 'tool' || kind === 'method' || kind === 'application') {
    return new Map(ids.map((name) => [name, name]));
  }
  if (ids.length === 0) return new Map();
  const rows = await namesOf[kind](db, ids);
  return new Map(rows.map(({ id, name }) => [id, name]));
}

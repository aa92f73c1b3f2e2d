// Which servers are installed on computers by default, and which are published for anyone to find, with a title and description of their own.

import type { EpochSeconds } from '#model/clock';
import { lockGroups } from './groups.ts';
import type { Schema } from './schema.ts';
import { areGroupsOf } from './server-access.ts';
import { advisoryLock, inParts, transaction, type Db } from './transaction.ts';

/** On whose computers a server is installed by default. */
export type Install = 'nobody' | 'everyone' | 'groups';

export interface Deployment {
  readonly install: Install;
  /** Ordered by name. With `groups` and no group, the server is installed for nobody. */
  readonly groups: readonly { readonly id: string; readonly name: string }[];
  readonly publication: Publication | undefined;
}

/** The description of a server that anyone can read. */
export type Publication = ReturnType<typeof readPublication>;

function readPublication(row: PublicationRow) {
  return {
    title: row.title,
    description: row.description,
    /** The version of title and description, counted from 1. */
    version: row.version,
    publishedAt: row.published_at,
    updatedAt: row.updated_at,
  } as const;
}

/** A published server that is enabled, in an enabled organization. */
export type PublishedServer = ReturnType<typeof readPublished>;

const nothing: Deployment = { install: 'nobody', groups: [], publication: undefined };

/** The most servers that an organization may publish, because anyone may request the list, and it is always made as a whole. */
export const mostPublished = 500;
/** The most servers that a file installs. */
const mostInstalled = 500;
const mostInCatalogue = 1000;

/** The deployment of these servers, by id. Those without any setting are missing; see `deploymentOf`. */
export async function findDeployments(
  db: Db,
  serverIds: readonly string[],
): Promise<ReadonlyMap<string, Deployment>> {
  const found = new Map<string, Deployment>();
  for (const ids of inParts(serverIds)) {
    const installations = await db
      .selectFrom('endpoint_installation')
      .selectAll()
      .where('endpoint_id', 'in', ids)
      .execute();
    const groups = await db
      .selectFrom('endpoint_installation_group')
      .innerJoin('person_group', 'person_group.id', 'endpoint_installation_group.group_id')
      .select(['endpoint_id', 'person_group.id', 'person_group.name'])
      .where('endpoint_id', 'in', ids)
      .orderBy('person_group.name')
      .execute();
    const publications = await db
      .selectFrom('endpoint_publication')
      .selectAll()
      .where('endpoint_id', 'in', ids)
      .execute();
    for (const { endpoint_id: id, install } of installations) {
      const own = groups.filter((group) => group.endpoint_id === id);
      found.set(id, { ...nothing, install, groups: own.map(toGroup) });
    }
    for (const row of publications) {
      const { endpoint_id: id } = row;
      found.set(id, { ...deploymentOf(found, id), publication: readPublication(row) });
    }
  }
  return found;
}

/** The deployment of one of the servers that were looked up. */
export function deploymentOf(found: ReadonlyMap<string, Deployment>, serverId: string): Deployment {
  return found.get(serverId) ?? nothing;
}

function toGroup({ id, name }: { id: string; name: string }) {
  return { id, name };
}

type PublicationRow = Omit<Schema['endpoint_publication'], 'endpoint_id'>;

/**
 * Sets on whose computers a server is installed by default.
 *
 * @returns `false` if one of the groups does not belong to the organization
 */
export async function setInstallation(
  db: Db,
  server: { readonly id: string; readonly organizationId: string },
  { install, groupIds }: { readonly install: Install; readonly groupIds: readonly string[] },
): Promise<boolean> {
  return transaction(db, async (tx) => {
    await lockGroups(tx, server.organizationId);
    if (!(await areGroupsOf(tx, server.organizationId, groupIds))) return false;
    await tx.deleteFrom('endpoint_installation').where('endpoint_id', '=', server.id).execute();
    if (install === 'nobody') return true;
    await tx
      .insertInto('endpoint_installation')
      .values({ endpoint_id: server.id, install })
      .execute();
    if (install === 'everyone' || groupIds.length === 0) return true;
    const rows = [...new Set(groupIds)].map((id) => ({ endpoint_id: server.id, group_id: id }));
    await tx.insertInto('endpoint_installation_group').values(rows).execute();
    return true;
  });
}

/**
 * Publishes a server with this title and description, or changes those of a published server. Equal texts change nothing.
 *
 * @returns `false` if the organization has published as many servers as it may
 */
export async function publishServer(
  db: Db,
  server: { readonly id: string; readonly organizationId: string },
  { title, description }: Pick<Publication, 'title' | 'description'>,
  now: EpochSeconds,
): Promise<boolean> {
  return transaction(db, async (tx) => {
    await advisoryLock(tx, `publications ${server.organizationId}`);
    const before = await tx
      .selectFrom('endpoint_publication')
      .selectAll()
      .where('endpoint_id', '=', server.id)
      .executeTakeFirst();
    if (before) {
      if (before.title === title && before.description === description) return true;
      await tx
        .updateTable('endpoint_publication')
        .set({ title, description, version: before.version + 1, updated_at: now })
        .where('endpoint_id', '=', server.id)
        .execute();
      return true;
    }
    const { published } = await tx
      .selectFrom('endpoint_publication')
      .innerJoin('endpoint', 'endpoint.id', 'endpoint_publication.endpoint_id')
      .select(({ fn }) => fn.countAll<number | string>().as('published'))
      .where('endpoint.organization_id', '=', server.organizationId)
      .executeTakeFirstOrThrow();
    if (Number(published) >= mostPublished) return false;
    const words = { title, description, version: 1, published_at: now, updated_at: now };
    await tx
      .insertInto('endpoint_publication')
      .values({ endpoint_id: server.id, ...words })
      .execute();
    return true;
  });
}

/** @returns `false` if it was not published */
export async function unpublishServer(db: Db, serverId: string): Promise<boolean> {
  const { numDeletedRows } = await db
    .deleteFrom('endpoint_publication')
    .where('endpoint_id', '=', serverId)
    .executeTakeFirst();
  return numDeletedRows === 1n;
}

/** Servers that anyone can find, ordered by organization and name. Both the server and its organization are enabled. */
function selectPublished(db: Db) {
  return db
    .selectFrom('endpoint_publication')
    .innerJoin('endpoint', 'endpoint.id', 'endpoint_publication.endpoint_id')
    .innerJoin('organization', 'organization.id', 'endpoint.organization_id')
    .selectAll('endpoint_publication')
    .select(['organization.name as organization', 'endpoint.name'])
    .where('endpoint.disabled_at', 'is', null)
    .where('organization.disabled_at', 'is', null)
    .orderBy('organization.name')
    .orderBy('endpoint.name');
}

function readPublished(row: PublicationRow & { organization: string; name: string }) {
  return { ...readPublication(row), organization: row.organization, name: row.name } as const;
}

/** The published servers of an organization, by name; none if there is no such organization. */
export async function listPublished(
  db: Db,
  organization: string,
): Promise<readonly PublishedServer[]> {
  const rows = await selectPublished(db).where('organization.name', '=', organization).execute();
  return rows.map(readPublished);
}

export async function findPublished(
  db: Db,
  organization: string,
  name: string,
): Promise<PublishedServer | undefined> {
  const row = await selectPublished(db)
    .where('organization.name', '=', organization)
    .where('endpoint.name', '=', name)
    .executeTakeFirst();
  return row && readPublished(row);
}

/**
 * At most `most` published servers of all organizations, ordered by organization and name. If there are more, the first servers of every
 * organization are included: no organization is left out because of its name, or because another one publishes many servers.
 */
export async function listAllPublished(
  db: Db,
  most = mostInCatalogue,
): Promise<readonly PublishedServer[]> {
  const ranked = selectPublished(db)
    .clearOrderBy()
    .select(({ fn }) =>
      fn
        .agg<number | string>('row_number')
        .over((over) => over.partitionBy('organization.id').orderBy('endpoint.name'))
        .as('place'),
    );
  const rows = await db
    .selectFrom(ranked.as('ranked'))
    .selectAll()
    .orderBy('place')
    .orderBy('organization')
    .limit(most)
    .execute();
  return rows
    .map(readPublished)
    .sort((a, b) => compared(a.organization, b.organization) || compared(a.name, b.name));
}

function compared(a: string, b: string): number {
  return a < b ? -1 : Number(a > b);
}

/** The enabled servers that are installed for everyone, or for members of one of these groups, by name. */
export async function listInstalled(db: Db, organizationId: string, groupIds: readonly string[]) {
  return db
    .selectFrom('endpoint_installation')
    .innerJoin('endpoint', 'endpoint.id', 'endpoint_installation.endpoint_id')
    .select(['endpoint.name', 'endpoint.title'])
    .where('endpoint.organization_id', '=', organizationId)
    .where('endpoint.disabled_at', 'is', null)
    .where((where) =>
      where.or([
        where('install', '=', 'everyone'),
        where.exists(
          where
            .selectFrom('endpoint_installation_group as chosen')
            .select('chosen.group_id')
            .whereRef('chosen.endpoint_id', '=', 'endpoint_installation.endpoint_id')
            .where('chosen.group_id', 'in', [...groupIds, '']),
        ),
      ]),
    )
    .orderBy('endpoint.name')
    .limit(mostInstalled)
    .execute();
}

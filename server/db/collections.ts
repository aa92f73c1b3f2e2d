// Collections: their members, and the names under which a collection shows the tools, prompts and resources of its members. Members and names
// are also stored in the form that calls need, in the collection's target, which every call reads.

import {
  assignNames,
  type DecisionProblem,
  decideName,
  type Listed,
  type MemberName,
  type NameDecision,
  type NamedEntry,
  wantedName,
} from '#model/collection-names';
import type { EpochSeconds } from '#model/clock';
import type { PrimitiveKind, ToolSelection } from '#model/tool-rights';
import { upstreamColumns, type UpstreamKind } from '#model/upstream-kinds';
import { readSelection, readStrings, selectionText } from './columns.ts';
import { insertServer, type NewServer } from './servers.ts';
import { advisoryLock, inParts, transaction, type Db } from './transaction.ts';

/** A member of a collection: a server whose tools, prompts and resources the collection shows. */
export type CollectionMember = Awaited<ReturnType<typeof listMembers>>[number];

/** A server to add or change, and the selection of its tools, prompts and resources. */
export interface NewMember {
  readonly id: string;
  readonly selection: ToolSelection;
}

/** How many members a collection can have. */
export const mostMembers = 50;

/** Inserts a collection with its members. @returns `false` when the organization has a server of that name */
export async function insertCollection(
  db: Db,
  collection: Omit<NewServer, 'upstream'>,
  members: readonly NewMember[],
): Promise<boolean> {
  const empty: UpstreamKind<'collection'> = { kind: 'collection', members: [], names: [] };
  return transaction(db, async (tx) => {
    if (!(await insertServer(tx, { ...collection, upstream: empty }))) return false;
    for (const member of members) await insertMember(tx, collection.id, member);
    await renewCollection(tx, collection.id);
    return true;
  });
}

/** Adds a server as the last member. @returns `false` if it is a member already */
export async function addMember(db: Db, collectionId: string, member: NewMember): Promise<boolean> {
  return changed(db, collectionId, (tx) => insertMember(tx, collectionId, member));
}

/** Changes the selection of a member. @returns `false` if the server is not a member */
export async function changeMember(
  db: Db,
  collectionId: string,
  { id, selection }: NewMember,
): Promise<boolean> {
  return changed(db, collectionId, async (tx) => {
    const { numUpdatedRows } = await tx
      .updateTable('collection_member')
      .set({ tool_selection: selectionText(selection) })
      .where('collection_id', '=', collectionId)
      .where('member_id', '=', id)
      .executeTakeFirst();
    return numUpdatedRows === 1n;
  });
}

/** Removes a member and its names; all other names stay. @returns `false` if the server is not a member */
export async function removeMember(db: Db, collectionId: string, id: string): Promise<boolean> {
  return changed(db, collectionId, async (tx) => {
    const { numDeletedRows } = await tx
      .deleteFrom('collection_member')
      .where('collection_id', '=', collectionId)
      .where('member_id', '=', id)
      .executeTakeFirst();
    return numDeletedRows === 1n;
  });
}

async function insertMember(
  tx: Db,
  collectionId: string,
  { id, selection }: NewMember,
): Promise<boolean> {
  const last = await tx
    .selectFrom('collection_member')
    .select(({ fn }) => fn.max<number | null>('position').as('position'))
    .where('collection_id', '=', collectionId)
    .executeTakeFirst();
  const { numInsertedOrUpdatedRows } = await tx
    .insertInto('collection_member')
    .values({
      collection_id: collectionId,
      member_id: id,
      position: (last?.position ?? -1) + 1,
      tool_selection: selectionText(selection),
    })
    .onConflict((conflict) => conflict.doNothing())
    .executeTakeFirst();
  return numInsertedOrUpdatedRows === 1n;
}

/** The members of a collection, in their order. */
export async function listMembers(db: Db, collectionId: string) {
  const rows = await db
    .selectFrom('collection_member')
    .innerJoin('endpoint', 'endpoint.id', 'collection_member.member_id')
    .select(['endpoint.id', 'endpoint.name', 'endpoint.title', 'tool_selection', 'has_apps'])
    .where('collection_id', '=', collectionId)
    .orderBy('position')
    .execute();
  return rows.map(({ id, name, title, tool_selection: selection, has_apps: apps }) => {
    return {
      /** The id of its endpoint. */
      id,
      name,
      title,
      selection: readSelection(selection),
      /** Whether it has listed a tool with a page (MCP Apps). Such a page calls the member's tools by name. */
      hasApps: apps === 1,
    } as const;
  });
}

/** The names of the collections that a server is a member of, sorted. */
export async function listCollectionsOf(db: Db, memberId: string): Promise<string[]> {
  const rows = await db
    .selectFrom('collection_member')
    .innerJoin('endpoint', 'endpoint.id', 'collection_member.collection_id')
    .select('endpoint.name')
    .where('member_id', '=', memberId)
    .orderBy('endpoint.name')
    .execute();
  return rows.map(({ name }) => name);
}

/** Every name that a member has listed, with its state, ordered by kind and name. */
export async function listNames(db: Db, collectionId: string): Promise<readonly NamedEntry[]> {
  const rows = await db
    .selectFrom('collection_name')
    .select(['kind', 'member_id', 'name', 'state', 'shown'])
    .where('collection_id', '=', collectionId)
    .orderBy('kind')
    .orderBy('name')
    .orderBy('member_id')
    .execute();
  return rows.map(({ kind, member_id: member, name, state, shown }): NamedEntry => {
    if (shown !== null) return { kind, member, name, state: 'shown', shown };
    return { kind, member, name, state: state === 'left-out' ? 'left-out' : 'waiting' };
  });
}

/** The names that members listed for callers of a collection, and the ids of the members with pages that call tools by name. */
export interface NotedLists {
  readonly lists: readonly Listed[];
  readonly withApps: readonly string[];
}

/** Decides whether and how to show names that members list for the first time, and stores the result. Returns all names that are shown. */
export async function noteNames(
  db: Db,
  collectionId: string,
  { lists, withApps }: NotedLists,
  now: EpochSeconds,
): Promise<UpstreamKind<'collection'>['names']> {
  return transaction(db, async (tx) => {
    await lockCollection(tx, collectionId);
    if (withApps.length > 0) {
      await tx
        .updateTable('collection_member')
        .set({ has_apps: 1 })
        .where('collection_id', '=', collectionId)
        .where('member_id', 'in', withApps)
        .execute();
    }
    const [members, known] = [
      await listMembers(tx, collectionId),
      await listNames(tx, collectionId),
    ];
    const others = await wantedByOthers(tx, members, lists);
    const added = assignNames(known, members, [...lists, ...others]);
    await insertNames(tx, collectionId, added, now);
    if (added.length > 0) return renewCollection(tx, collectionId);
    return sharedNames(members, known);
  });
}

/**
 * The entries of all members that want the same names as `lists`, even entries that this caller cannot see: which member gets a name must
 * not depend on who lists first.
 */
async function wantedByOthers(
  tx: Db,
  members: readonly CollectionMember[],
  lists: readonly Listed[],
): Promise<readonly Listed[]> {
  const wanted = new Set<string>();
  const appsOf = new Map(members.map(({ id, hasApps }) => [id, hasApps]));
  const place = (pair: MemberName) =>
    `${pair.kind} ${wantedName(pair, appsOf.get(pair.member) === true)}`;
  for (const { kind, member, names } of lists)
    for (const name of names) wanted.add(place({ kind, member, name }));
  const kinds = [...new Set(lists.map(({ kind }) => kind))];
  const others: Listed[] = [];
  for (const { id: member, selection } of members) {
    const rows = await tx
      .selectFrom('primitive_definition as d')
      .innerJoin('target as t', 't.id', 'd.target_id')
      .select(['d.kind', 'd.name', 'd.listed_at', 't.hidden_tools'])
      .where('t.endpoint_id', '=', member)
      .where('d.kind', 'in', kinds)
      .where('d.accepted_digest', 'is not', null)
      .execute();
    for (const kind of kinds) {
      const ofKind = rows.filter((row) => row.kind === kind);
      const hidden = kind === 'tool' ? readStrings(ofKind[0]?.hidden_tools ?? '[]') : [];
      const lastListed = Math.max(...ofKind.map(({ listed_at: listedAt }) => listedAt));
      const names = ofKind
        .filter(({ name, listed_at: listedAt }) => {
          const isOffered = listedAt === lastListed && !hidden.includes(name);
          return (
            isOffered &&
            isChosen(selection, kind, name) &&
            wanted.has(place({ kind, member, name }))
          );
        })
        .map(({ name }) => name);
      if (names.length > 0) others.push({ kind, member, names });
    }
  }
  return others;
}

/** Whether a selection includes a name or its whole kind. Which tools `read-only` includes depends on reviews, so here it includes none. */
function isChosen(selection: ToolSelection, kind: PrimitiveKind, name: string): boolean {
  if (selection.type === 'all') return true;
  if (selection.type === 'read-only') return kind !== 'tool';
  const { tools, prompts, resources } = selection;
  const chosen = { tool: tools, prompt: prompts, resource: resources, template: resources };
  return chosen[kind].includes(name);
}

async function insertNames(
  tx: Db,
  collectionId: string,
  entries: readonly NamedEntry[],
  now: EpochSeconds,
): Promise<void> {
  for (const part of inParts(entries)) {
    const values = part.map((entry) => ({
      collection_id: collectionId,
      member_id: entry.member,
      kind: entry.kind,
      name: entry.name,
      state: entry.state,
      shown: entry.state === 'shown' ? entry.shown : null,
      noted_at: now,
    }));
    await tx.insertInto('collection_name').values(values).execute();
  }
}

/** Carries out an administrator's decision about a name. Returns the changed entries, or the problem. */
export async function decideCollectionName(
  db: Db,
  collectionId: string,
  pair: MemberName,
  decision: NameDecision,
): Promise<readonly NamedEntry[] | DecisionProblem> {
  return transaction(db, async (tx) => {
    await lockCollection(tx, collectionId);
    const members = await listMembers(tx, collectionId);
    const hasApps = members.some(({ id, hasApps: has }) => id === pair.member && has);
    const known = await listNames(tx, collectionId);
    const decided = decideName(known, pair, { ...decision, hasApps });
    if ('problem' in decided) return decided;
    for (const entry of decided) {
      await tx
        .updateTable('collection_name')
        .set({ state: entry.state, shown: entry.state === 'shown' ? entry.shown : null })
        .where('collection_id', '=', collectionId)
        .where('kind', '=', entry.kind)
        .where('member_id', '=', entry.member)
        .where('name', '=', entry.name)
        .execute();
    }
    await renewCollection(tx, collectionId);
    return decided;
  });
}

function lockCollection(tx: Db, collectionId: string): Promise<void> {
  return advisoryLock(tx, `collection ${collectionId}`);
}

/** Runs `change`, which returns whether it changed anything, and then updates the target, all in one transaction. */
function changed(
  db: Db,
  collectionId: string,
  change: (tx: Db) => Promise<boolean>,
): Promise<boolean> {
  return transaction(db, async (tx) => {
    await lockCollection(tx, collectionId);
    if (!(await change(tx))) return false;
    await renewCollection(tx, collectionId);
    return true;
  });
}

/** Derives the members and names that calls need, and stores them in the target. Requires a transaction. Returns the names that are shown. */
async function renewCollection(
  tx: Db,
  collectionId: string,
): Promise<UpstreamKind<'collection'>['names']> {
  const members = await listMembers(tx, collectionId);
  const names = sharedNames(members, await listNames(tx, collectionId));
  const upstream: UpstreamKind<'collection'> = {
    kind: 'collection',
    members: members.map(({ id, name }) => ({ id, name })),
    names,
  };
  await tx
    .updateTable('target')
    .set({ upstream_settings: upstreamColumns(upstream).settings })
    .where('endpoint_id', '=', collectionId)
    .execute();
  return names;
}

function sharedNames(
  members: readonly CollectionMember[],
  entries: readonly NamedEntry[],
): UpstreamKind<'collection'>['names'] {
  const places = new Map(members.map(({ id }, place) => [id, place]));
  return entries.flatMap((entry): UpstreamKind<'collection'>['names'] => {
    const place = places.get(entry.member);
    if (entry.state !== 'shown' || place === undefined) return [];
    const { kind, name, shown } = entry;
    return [shown === name ? [kind, place, name] : [kind, place, name, shown]];
  });
}

/** Removes a server from all collections that it is a member of. */
export async function leaveCollections(db: Db, memberId: string): Promise<void> {
  const rows = await db
    .selectFrom('collection_member')
    .select('collection_id')
    .where('member_id', '=', memberId)
    .orderBy('collection_id')
    .execute();
  for (const { collection_id: id } of rows) await removeMember(db, id, memberId);
}

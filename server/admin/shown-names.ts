import { usableBy } from '#db/explained-rights';
import { findServer } from '#db/servers';
import type { Primitive } from '#db/tool-rules';
import type { ServerRecord } from '#model/endpoints';
import type { Role } from '#model/roles';
import { type Actor, mayDo, type WithDb } from './operation.ts';

// The names of tools, prompts and resources that a reader is shown. People who do not manage servers do not learn of names that they
// may not use: names that are hidden, wait for review, or are open only to groups of others.

export interface NameReader {
  readonly role: Role;
  readonly actor: Actor;
}

export type IsShown = (one: Primitive) => boolean;

/** Whether a reader is shown all names, including names that no caller may use. */
export function seesAllNames({ role }: Pick<NameReader, 'role'>): boolean {
  return mayDo(role, 'server.manage');
}

/** Finds which names of a server are shown to a reader. */
export async function namesShownTo(
  reader: NameReader,
  server: ServerRecord,
  { db }: WithDb,
): Promise<IsShown> {
  if (seesAllNames(reader)) return () => true;
  const { actor } = reader;
  const mayUse = actor.type === 'person' ? await usableBy(db, server, actor.userId) : undefined;
  return mayUse ?? (() => false);
}

/** Finds which names of each of these servers are shown to a reader; of other servers, none. */
export async function namesShownOf(
  reader: NameReader,
  organization: string,
  servers: readonly string[],
  { db }: WithDb,
): Promise<(server: string | null | undefined) => IsShown> {
  if (seesAllNames(reader)) return () => () => true;
  const shown = new Map<string, IsShown>();
  for (const name of new Set(servers)) {
    const server = await findServer(db, organization, name);
    if (server) shown.set(name, await namesShownTo(reader, server, { db }));
  }
  return (server) => shown.get(server ?? '') ?? (() => false);
}

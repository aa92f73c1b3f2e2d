import { findServer } from '#db/servers';
import { listKnown } from '#db/tool-rules';
import type { PrimitiveKind } from '#model/tool-rights';
import type { Ports } from './positionals.ts';

interface Place {
  readonly organization: string;
  readonly server: string;
}

/** Finds which of these names a server has not listed so far, and whether it has listed anything of the kind. */
export async function findUnlisted(
  { organization, server }: Place,
  names: readonly string[],
  { stores }: Pick<Ports, 'stores'>,
  kind: PrimitiveKind = 'tool',
): Promise<{ readonly unlisted: readonly string[]; readonly isListKnown: boolean }> {
  const found = await findServer(stores.db, organization, server);
  const all = found ? await listKnown(stores.db, found.target.id) : [];
  const listed = new Set(all.flatMap((one) => (one.kind === kind ? [one.name] : [])));
  return { unlisted: names.filter((name) => !listed.has(name)), isListKnown: listed.size > 0 };
}

/**
 * The hint for commands that accept any name of a tool, because the server may list it later. `undefined` if the server has
 * listed all of the names, or no tool so far.
 */
export async function unlistedHint(
  at: Place,
  names: readonly string[],
  ports: Pick<Ports, 'stores'>,
): Promise<string | undefined> {
  const { unlisted, isListKnown } = await findUnlisted(at, names, ports);
  if (!isListKnown || unlisted.length === 0) return undefined;
  return `${at.organization}/${at.server} has not listed ${unlisted.join(', ')} so far: check the spelling`;
}

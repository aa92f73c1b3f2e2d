import type { ToolView } from '#admin/tools';
import type { EpochSeconds } from '#model/clock';
import { mayUseServer } from '#db/server-access';
import { findServer } from '#db/servers';
import { type ServerRecord } from '#model/endpoints';
import { LimitedMap } from '#model/limited-map';
import { upstreamLocation } from '#model/upstream-kinds';
import { describedTool, type Inspection, type ToolDescription } from '#upstreams/inspect';
import type { DashboardVisit } from './guard.ts';
import type { DashboardPorts } from './ports.ts';

const freshSeconds = 60;
/** An upstream that did not answer is asked again after this time. */
const retrySeconds = 5;
const mostCached = 200;
const mostTextCached = 16 * 1024 * 1024;

/**
 * Returns a function that asks a server's upstream for its tools, as the person who opens the page. It returns the last result
 * for a minute, or for five seconds if the upstream did not answer. It returns `undefined` for a disabled server, and for
 * people who may neither use nor manage the server.
 */
export function toolInspections({ db, clock, inspectTools }: DashboardPorts) {
  const cache = new LimitedMap<string, CachedInspection>(mostCached);

  return async (
    { organization, person, may }: DashboardVisit,
    name: string,
  ): Promise<Inspection | undefined> => {
    const server = await findServer(db, organization, name);
    if (!server || server.disabledAt !== undefined) return undefined;
    const userId = person.user.id;
    const isAllowed = await mayUseServer(db, userId, `${organization}/${name}`);
    if (!isAllowed && !may('server.manage')) return undefined;
    const key = keyOf(server, userId);
    const known = cache.get(key);
    const seconds = known?.found.outcome === 'connected' ? freshSeconds : retrySeconds;
    if (known && known.at > clock.now() - seconds) return known.found;
    const found = await inspectTools(server, userId);
    cache.set(key, { at: clock.now(), found, length: lengthOf(found) });
    for (const [oldest] of cache) {
      if (sumOf(cache) <= mostTextCached) break;
      cache.delete(oldest);
    }
    return found;
  };
}

interface CachedInspection {
  readonly at: EpochSeconds;
  readonly found: Inspection;
  /** The length of the tools in it, in characters of JSON. */
  readonly length: number;
}

function lengthOf(found: Inspection): number {
  const tools = found.outcome === 'connected' ? found.tools : undefined;
  return JSON.stringify(tools ?? []).length;
}

function sumOf(cache: ReadonlyMap<string, CachedInspection>): number {
  return [...cache.values()].reduce((sum, { length }) => sum + length, 0);
}

function keyOf({ target: { id, upstream } }: ServerRecord, userId: string): string {
  return `${id} ${upstreamLocation(upstream)} ${userId}`;
}

/** Something that a server offers, as its page lists it. */
export interface ListedThing
  extends
    Pick<ToolView, 'kind' | 'name' | 'title' | 'shownHints' | 'status' | 'correction' | 'audience'>,
    Pick<ToolView, 'isHidden' | 'isWithheld'>,
    Pick<ToolDescription, 'description' | 'inputSchema'> {
  /** Whether the upstream offers it now; `undefined` if the upstream was not called or did not answer, or was not asked for this kind. */
  readonly isOffered: boolean | undefined;
}

/**
 * The known tools, prompts and resources of a server, with the current definitions of its upstream. Those that the upstream no longer offers
 * are listed only for people who manage the server, and only if administrators hid or corrected them, or have to review them.
 */
export function listedThings(
  inspection: Inspection | undefined,
  known: readonly ToolView[],
  { isWhole, mayUse }: ListedFor,
): readonly ListedThing[] {
  const offered = inspection?.outcome === 'connected' ? inspection.tools : undefined;
  const byName = new Map(offered?.map((tool) => [tool.name, tool]));
  const things = known.map((view): ListedThing => {
    const { kind, name, correction } = view;
    const now = kind === 'tool' ? byName.get(name) : undefined;
    const { description, inputSchema } = now ?? describedView(view);
    return {
      ...view,
      title: correction?.title ?? view.title,
      description: correction?.description ?? description,
      inputSchema,
      isOffered: kind === 'tool' ? offered && now !== undefined : undefined,
    };
  });
  const names = new Set(known.flatMap(({ kind, name }) => (kind === 'tool' ? [name] : [])));
  // Tools beyond the number that is remembered, or of a server whose list was never compared.
  const unknown = (offered ?? [])
    .filter(({ name }) => !names.has(name) && mayUse({ kind: 'tool', name }))
    .map(unknownTool);
  return [...things, ...unknown].filter(
    ({ isOffered, isHidden, status, correction }) =>
      isOffered !== false ||
      (isWhole && (isHidden || correction !== null || reviewStates.has(status))),
  );
}

interface ListedFor {
  /** Whether the person manages the server, and so also sees some entries that it no longer offers. */
  readonly isWhole: boolean;
  readonly mayUse: (tool: Pick<ToolView, 'kind' | 'name'>) => boolean;
}

const reviewStates: ReadonlySet<ToolView['status']> = new Set(['new', 'changed', 'rejected']);

function unknownTool({
  name,
  title,
  description,
  inputSchema,
  isReadOnly,
}: ToolDescription): ListedThing {
  const shownHints = isReadOnly
    ? { readOnly: true, destructive: null, idempotent: null, openWorld: null }
    : null;
  return {
    kind: 'tool',
    name,
    title: title ?? null,
    description,
    inputSchema,
    shownHints,
    status: 'offered',
    correction: null,
    audience: null,
    isHidden: false,
    isWithheld: false,
    isOffered: true,
  };
}

const nothing = { description: '', inputSchema: {} };

function describedView({ name, accepted, changed }: ToolView) {
  try {
    const described: unknown = JSON.parse(changed?.seen ?? accepted ?? '');
    return describedTool({ ...Object(described), name }) ?? nothing;
  } catch {
    // A very long definition is stored truncated, so it is not valid JSON; instructions are no JSON either.
    return nothing;
  }
}

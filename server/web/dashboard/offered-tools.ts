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

/** A tool of a server, as its page lists it. */
export interface ListedTool extends ToolDescription {
  readonly isHidden: boolean;
  readonly isChanged: boolean;
  /** Whether the upstream offers it now; `undefined` if the upstream was not called or did not answer. */
  readonly isOffered: boolean | undefined;
}

/**
 * The tools that the upstream offers, and those that it no longer offers but that are hidden or whose change no administrator
 * has accepted. If the upstream was not called or did not answer, the tools are as they were last seen.
 */
export function listedTools(
  inspection: Inspection | undefined,
  known: readonly ToolView[],
  hiddenTools: readonly string[],
): readonly ListedTool[] {
  const offered = inspection?.outcome === 'connected' ? inspection.tools : undefined;
  const seen = known.map(seenTool);
  const unseen = hiddenTools.map((name): ToolDescription => ({ ...nothing, name }));
  const all = new Map([...unseen, ...seen, ...(offered ?? [])].map((tool) => [tool.name, tool]));
  const isOffered = new Set(offered?.map(({ name }) => name));
  return (
    [...all.values()]
      .map(({ name, title, description, inputSchema, isReadOnly }) => ({
        name,
        title,
        description,
        inputSchema,
        isReadOnly,
        isHidden: hiddenTools.includes(name),
        isChanged: known.some((tool) => tool.name === name && tool.changed !== null),
        isOffered: offered && isOffered.has(name),
      }))
      // A tool that is no longer offered is listed only while it is hidden or has a change to accept.
      .filter((tool) => tool.isOffered !== false || tool.isHidden || tool.isChanged)
      .toSorted((a, b) => (a.name < b.name ? -1 : 1))
  );
}

const nothing = { description: '', inputSchema: {}, isReadOnly: false };

function seenTool({ name, accepted, changed }: ToolView): ToolDescription {
  try {
    const described: unknown = JSON.parse(changed?.seen ?? accepted ?? '');
    return describedTool({ ...Object(described), name }) ?? { ...nothing, name };
  } catch {
    // A very long definition is stored truncated, so it is not valid JSON.
    return { ...nothing, name };
  }
}

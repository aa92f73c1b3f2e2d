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
/** A server that did not answer is asked again sooner. */
const retrySeconds = 5;
const mostKept = 200;
const mostTextKept = 16 * 1024 * 1024;

/**
 * Returns a function that asks a server's upstream for its tools as the person who looks at the page, at most once a minute.
 * `undefined` for people who may not use the server, and for a disabled one.
 */
export function toolInspections({ db, clock, inspectTools }: DashboardPorts) {
  const kept = new LimitedMap<string, Kept>(mostKept);

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
    const known = kept.get(key);
    const seconds = known?.found.outcome === 'connected' ? freshSeconds : retrySeconds;
    if (known && known.at > clock.now() - seconds) return known.found;
    const found = await inspectTools(server, userId);
    kept.set(key, { at: clock.now(), found, length: lengthOf(found) });
    for (const [oldest] of kept) {
      if (sumOf(kept) <= mostTextKept) break;
      kept.delete(oldest);
    }
    return found;
  };
}

interface Kept {
  readonly at: EpochSeconds;
  readonly found: Inspection;
  /** Of what upstreams wrote in it, in characters of JSON. */
  readonly length: number;
}

function lengthOf(found: Inspection): number {
  const tools = found.outcome === 'connected' ? found.tools : undefined;
  return JSON.stringify(tools ?? []).length;
}

function sumOf(kept: ReadonlyMap<string, Kept>): number {
  return [...kept.values()].reduce((sum, { length }) => sum + length, 0);
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
 * The tools that the upstream offers now, those that it offered before, and hidden ones. Without an answer, they are as they were
 * last seen.
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
      // Of those that are gone, only what still has an effect matters.
      .filter((tool) => tool.isOffered !== false || tool.isHidden || tool.isChanged)
      .toSorted((a, b) => (a.name < b.name ? -1 : 1))
  );
}

const nothing = { description: '', inputSchema: {}, isReadOnly: false };

function seenTool({ name, accepted, changed }: ToolView): ToolDescription {
  try {
    const described: unknown = JSON.parse(changed?.seen ?? accepted);
    return describedTool({ ...Object(described), name }) ?? { ...nothing, name };
  } catch {
    // A very long definition is stored cut off.
    return { ...nothing, name };
  }
}

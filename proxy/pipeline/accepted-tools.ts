import { isObject, membersOf, parseObject } from 'latchkey-mcp/json-value';
import { createHash } from 'node:crypto';
import { mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { writeAtomically } from '#atomic-file';
import type { Clock, EpochSeconds } from '#clock/clock';
import { defaultStateDirectory } from '#config/user-files';
import type { Options } from '#config/options';
import type { UserHost } from '#host';
import type { Log } from '#log/log';
import type { ListedTool } from './tool-lists.ts';

/** A tool as accepted and, if it has changed since, as last seen. */
type AcceptedTool = {
  accepted: ToolFingerprint;
  acceptedAt: EpochSeconds;
  seen?: ToolFingerprint;
  changedAt?: EpochSeconds;
  /** When the tool was last listed; updated about once a day. */
  listedAt?: EpochSeconds;
};

/** The accepted tools, by name. */
type AcceptedTools = ReadonlyMap<string, AcceptedTool>;

/** Stores the accepted tools of one connection. They contain no secrets. */
export interface AcceptedToolStore {
  /**
   * Empty if nothing has been stored.
   *
   * @throws {Error} if the stored tools cannot be read
   */
  read(): Promise<AcceptedTools>;

  /** Replaces all stored tools. */
  write(tools: AcceptedTools): Promise<void>;
}

export function changedParts({ accepted, seen }: AcceptedTool): ToolPart[] {
  return seen ? toolParts.filter((part) => seen[part] !== accepted[part]) : [];
}

/** The limit of remembered tools for one server. */
const maxKnownTools = 1_000;

const daySeconds = 86_400;
/** An unlisted tool is forgotten after this time, unless it has changed. */
const rememberedSeconds = 30 * daySeconds;

/**
 * Returns `tools` updated with a new list. New tools are accepted, up to the limit. A changed tool that equals its accepted
 * version again no longer counts as changed. A tool that was not listed for 30 days, while other tools were, is forgotten.
 * Returns the same map if there is nothing to update.
 */
function afterListing(
  tools: AcceptedTools,
  listed: ReadonlyMap<string, ToolFingerprint>,
  now: EpochSeconds,
): AcceptedTools {
  const gone = forgettable(tools, listed, now);
  const next = new Map([...tools].filter(([name]) => !gone.includes(name)));
  let moved = gone.length > 0;
  for (const [name, seen] of listed) {
    const known = next.get(name);
    if (!known && next.size >= maxKnownTools) continue;
    const isSeen = known && isSame(known.seen ?? known.accepted, seen);
    if (isSeen && (known.listedAt ?? 0) > now - daySeconds) continue;
    moved = true;
    const { accepted, acceptedAt } = known ?? { accepted: seen, acceptedAt: now };
    const changed = !isSame(accepted, seen);
    const changedAt = isSeen ? known.changedAt : now;
    const change = changed && changedAt !== undefined && { seen, changedAt };
    next.set(name, { accepted, acceptedAt, ...change, listedAt: now });
  }
  return moved ? next : tools;
}

/**
 * The tools that were last listed more than 30 days before the latest listing. Listings of the last 24 hours do not count, because
 * other pages of the same list may follow. A changed tool is never forgotten, or its server could get the change accepted as new.
 */
function forgettable(
  tools: AcceptedTools,
  listed: ReadonlyMap<string, ToolFingerprint>,
  now: EpochSeconds,
): string[] {
  const times = [...tools.values()].map(({ listedAt = 0 }) => listedAt);
  const lastDay = Math.max(0, ...times.filter((at) => at <= now - daySeconds));
  return [...tools].flatMap(([name, { seen, listedAt = 0 }]) => {
    const isOld = listedAt > 0 && listedAt < lastDay - rememberedSeconds;
    return isOld && !seen && !listed.has(name) ? [name] : [];
  });
}

/** Returns `tools` after a person has accepted the tools in `names` as they were last seen. */
export function afterAcceptance(
  tools: AcceptedTools,
  names: readonly string[],
  now: EpochSeconds,
): AcceptedTools {
  const next = new Map(tools);
  for (const name of names) {
    const { seen, listedAt = 0 } = tools.get(name) ?? {};
    if (seen) next.set(name, { accepted: seen, acceptedAt: now, listedAt });
  }
  return next;
}

function isSame(one: ToolFingerprint, other: ToolFingerprint): boolean {
  return toolParts.every((part) => one[part] === other[part]);
}

/** Hashes of the parts of a tool, so that changes can be attributed to a part. */
type ToolFingerprint = Record<ToolPart, string>;

const toolParts = ['description', 'schema', 'annotations', 'other members'] as const;
type ToolPart = (typeof toolParts)[number];

/** The hashes of all members except the name, independent of their order. */
export function toolFingerprint(tool: Readonly<Record<string, unknown>>): ToolFingerprint {
  const { name: _, title, description, inputSchema, outputSchema, annotations, ...rest } = tool;
  return {
    description: hash([title, description]),
    schema: hash([inputSchema, outputSchema]),
    annotations: hash([annotations]),
    'other members': hash([rest]),
  };
}

function hash(value: unknown): string {
  return createHash('sha256').update(JSON.stringify(value, sorted)).digest('base64url');
}

function sorted(_: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** The tools in a list that need attention, by name. */
interface SeenTools {
  /** Tools that differ from the accepted ones. */
  readonly changed: readonly string[];
  /** The changed tools, and those that cannot be compared: beyond the limit, or because the store cannot be read. */
  readonly doubtful: ReadonlySet<string>;
}

/**
 * Detects which tools of a server differ from the accepted ones. If the accepted tools cannot be read, a `strict` watch treats
 * every tool as changed. What the store lacks because it could not be written, this process remembers in memory.
 */
export function toolWatch({
  store,
  strict,
  clock,
  log,
}: {
  store: AcceptedToolStore;
  strict: boolean;
  clock: Clock;
  log: Log;
}) {
  const reported = new Set<string>();
  /** New and changed tools that could not be stored. */
  const unstored = new Map<string, AcceptedTool>();
  let isFull = false;
  /** Lists are compared one after the other, so that of two simultaneous lists only one contains a tool for the first time. */
  let turn: Promise<unknown> = Promise.resolve();

  /** Reads the store each time, because another process or a person may have changed it. */
  async function stored(): Promise<AcceptedTools | undefined> {
    try {
      const read = await store.read();
      const isMissing = ([name, tool]: [string, AcceptedTool]) => {
        const known = read.get(name);
        // Another process or a person may have stored or accepted the tool since.
        return !known || (tool.seen && known.acceptedAt <= tool.acceptedAt);
      };
      return unstored.size === 0 ? read : new Map([...read, ...[...unstored].filter(isMissing)]);
    } catch (error) {
      log.warn('accepted tools could not be read', { reason: reasonOf(error) });
      return undefined;
    }
  }

  async function write(after: AcceptedTools, before: AcceptedTools): Promise<void> {
    try {
      await store.write(after);
      unstored.clear();
    } catch (error) {
      log.warn('accepted tools could not be stored', { reason: reasonOf(error) });
      for (const [name, tool] of after)
        if (tool.seen || !before.has(name) || unstored.has(name)) unstored.set(name, tool);
    }
  }

  async function seen(listing: readonly ListedTool[]): Promise<SeenTools> {
    const before = await stored();
    const names = listing.map(({ name }) => name);
    if (!before) return { changed: strict ? names : [], doubtful: new Set(names) };
    const prints = new Map(listing.map(({ name, tool }) => [name, toolFingerprint(tool)]));
    const after = afterListing(before, prints, clock.now());
    if (after !== before || unstored.size > 0) await write(after, before);
    const beyond = names.filter((name) => !after.has(name));
    if (beyond.length > 0 && !isFull) {
      log.warn('too many tools to compare', { limit: maxKnownTools, withheld: strict });
    }
    isFull = beyond.length > 0;
    const changed = names.filter((name) => isChanged(after, name));
    return { changed, doubtful: new Set([...changed, ...beyond]) };
  }

  return {
    /** Records a list of tools. Never rejects. */
    see(listing: readonly ListedTool[]): Promise<SeenTools> {
      const next = turn.then(() => seen(listing));
      turn = next;
      return next;
    },
    /** Whether a tool differed from the accepted one when this or another process last saw it, or cannot be compared. */
    async isChanged(name: string): Promise<boolean> {
      const tools = await stored();
      if (!tools) return strict;
      return isChanged(tools, name) || (tools.size >= maxKnownTools && !tools.has(name));
    },
    /** Returns whether the tool has not been reported yet, and marks it as reported. */
    isNew(name: string): boolean {
      if (reported.has(name)) return false;
      if (reported.size < maxReported) reported.add(name);
      return true;
    },
  };
}

const maxReported = 10_000;

function isChanged(tools: AcceptedTools, name: string): boolean {
  const tool = tools.get(name);
  return tool !== undefined && changedParts(tool).length > 0;
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/**
 * One file for each server, readable by this user only. Writes are atomic.
 *
 *     {"url":"https://…","tools":{"echo":{"accepted":{…},"acceptedAt":1800000000}}}
 */
export function fileAcceptedTools(directory: string, url: string): AcceptedToolStore {
  const name = createHash('sha256').update(url).digest('hex').slice(0, 32);
  const path = join(directory, `${name}.json`);
  return {
    async read() {
      const text = await readFile(path, 'utf8').catch((error: unknown) => {
        if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
        throw error;
      });
      return text === undefined ? new Map() : parse(text, path);
    },
    async write(tools) {
      await mkdir(directory, { recursive: true, mode: 0o700 });
      const text = JSON.stringify({ url, tools: Object.fromEntries(tools) });
      await writeAtomically(path, text, { durable: false });
    },
  };
}

function parse(text: string, path: string): AcceptedTools {
  const { tools } = parseObject(text) ?? {};
  if (!isObject(tools)) throw new Error(`${path} is damaged`);
  const entries = Object.entries(tools).map(([name, value]): [string, AcceptedTool] => {
    const { accepted, acceptedAt, seen, changedAt, listedAt } = membersOf(value);
    if (!isFingerprint(accepted) || typeof acceptedAt !== 'number')
      throw new Error(`${path} is damaged`);
    const changed = isFingerprint(seen) && typeof changedAt === 'number';
    const times = typeof listedAt === 'number' && { listedAt };
    return [name, { accepted, acceptedAt, ...(changed && { seen, changedAt }), ...times }];
  });
  return new Map(entries);
}

function isFingerprint(value: unknown): value is ToolFingerprint {
  const members = membersOf(value);
  return toolParts.every((part) => typeof members[part] === 'string');
}

/** Accepted tools in memory only, for hosts that must not store any state. */
export function memoryAcceptedTools(initial: AcceptedTools = new Map()): AcceptedToolStore {
  let tools = initial;
  return {
    read: () => Promise.resolve(tools),
    write: (next) => {
      tools = next;
      return Promise.resolve();
    },
  };
}

export function openAcceptedTools(
  url: string,
  options: Options,
  host: UserHost,
): AcceptedToolStore {
  if (options.secretStore === 'memory') return memoryAcceptedTools();
  return fileAcceptedTools(join(options.stateDir ?? defaultStateDirectory(host), 'tools'), url);
}

import { createHash, randomUUID } from 'node:crypto';
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock, EpochSeconds } from '#clock/clock';
import { defaultStateDirectory } from '#config/user-files';
import type { Options } from '#config/options';
import type { UserHost } from '#host';
import type { Log } from '#log/log';
import type { ListedTool } from './tool-filter.ts';

/** A tool as accepted and, if it has changed since, as last seen. */
type AcceptedTool = {
  accepted: ToolFingerprint;
  acceptedAt: EpochSeconds;
  seen?: ToolFingerprint;
  changedAt?: EpochSeconds;
};

/** By name. */
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

/** The parts of a tool that differ from the accepted ones. */
export function changedParts({ accepted, seen }: AcceptedTool): ToolPart[] {
  return seen ? toolParts.filter((part) => seen[part] !== accepted[part]) : [];
}

/**
 * `tools` after a list was read. New tools are accepted as they are. A tool that is as accepted again is no longer changed.
 * Returns the same map if nothing is new.
 */
function afterListing(
  tools: AcceptedTools,
  listed: ReadonlyMap<string, ToolFingerprint>,
  now: EpochSeconds,
): AcceptedTools {
  const next = new Map(tools);
  let moved = false;
  for (const [name, seen] of listed) {
    const known = tools.get(name);
    if (known && isSame(known.seen ?? known.accepted, seen)) continue;
    moved = true;
    const { accepted, acceptedAt } = known ?? { accepted: seen, acceptedAt: now };
    const changed = !isSame(accepted, seen);
    next.set(name, { accepted, acceptedAt, ...(changed && { seen, changedAt: now }) });
  }
  return moved ? next : tools;
}

/** `tools` after a person has accepted those in `names` as last seen. */
export function afterAcceptance(
  tools: AcceptedTools,
  names: readonly string[],
  now: EpochSeconds,
): AcceptedTools {
  const next = new Map(tools);
  for (const name of names) {
    const seen = tools.get(name)?.seen;
    if (seen) next.set(name, { accepted: seen, acceptedAt: now });
  }
  return next;
}

function isSame(one: ToolFingerprint, other: ToolFingerprint): boolean {
  return toolParts.every((part) => one[part] === other[part]);
}

/** Hashes of the parts of a tool, so that changes can be attributed to a part. */
type ToolFingerprint = Record<ToolPart, string>;

const toolParts = ['description', 'schema', 'annotations'] as const;
type ToolPart = (typeof toolParts)[number];

/** Independent of the order of members. */
export function toolFingerprint(tool: Readonly<Record<string, unknown>>): ToolFingerprint {
  const { title, description, inputSchema, outputSchema, annotations } = tool;
  return {
    description: hash([title, description]),
    schema: hash([inputSchema, outputSchema]),
    annotations: hash([annotations]),
  };
}

function hash(value: unknown): string {
  return createHash('sha256').update(JSON.stringify(value, sorted)).digest('base64url');
}

function sorted(_: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** Detects which tools of a server differ from the accepted ones. */
interface ToolWatch {
  /** Records a list of tools, and resolves to the names of the changed ones. Never rejects. */
  see(listing: readonly ListedTool[]): Promise<ReadonlySet<string>>;

  /** Whether a tool differed from the accepted one when this or another process last saw it. */
  isChanged(name: string): Promise<boolean>;

  /** Whether this is the first call for this tool. */
  isNew(name: string): boolean;
}

/**
 * If the accepted tools could not be read, a `strict` watch treats every tool as changed. If they cannot be written, only this
 * process knows them.
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
}): ToolWatch {
  const reported = new Set<string>();
  let last: AcceptedTools | undefined;

  /** Reads the store each time, because another process or a person may have changed it. */
  async function stored(): Promise<AcceptedTools | undefined> {
    try {
      const read = await store.read();
      return read.size === 0 && last ? last : read;
    } catch (error) {
      log.warn('accepted tools could not be read', { reason: reasonOf(error) });
      return undefined;
    }
  }

  return {
    async see(listing) {
      const before = await stored();
      const names = listing.map(({ name }) => name);
      if (!before) return new Set(strict ? names : []);
      const prints = new Map(listing.map(({ name, tool }) => [name, toolFingerprint(tool)]));
      const after = afterListing(before, prints, clock.now());
      last = after;
      if (after !== before)
        await store.write(after).catch((error: unknown) => {
          log.warn('accepted tools could not be stored', { reason: reasonOf(error) });
        });
      return new Set(names.filter((name) => isChanged(after, name)));
    },
    async isChanged(name) {
      const tools = await stored();
      return tools ? isChanged(tools, name) : strict;
    },
    isNew: (name) => !reported.has(name) && Boolean(reported.add(name)),
  };
}

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
      const draft = `${path}.${randomUUID()}`;
      const text = JSON.stringify({ url, tools: Object.fromEntries(tools) });
      try {
        await writeFile(draft, text, { mode: 0o600, flag: 'wx' });
        await rename(draft, path);
      } catch (error) {
        await rm(draft, { force: true });
        throw error;
      }
    },
  };
}

function parse(text: string, path: string): AcceptedTools {
  const { tools } = membersOf(json(text));
  if (typeof tools !== 'object' || tools === null) throw new Error(`${path} is damaged`);
  const entries = Object.entries(tools).map(([name, value]): [string, AcceptedTool] => {
    const { accepted, acceptedAt, seen, changedAt } = membersOf(value);
    if (!isFingerprint(accepted) || typeof acceptedAt !== 'number')
      throw new Error(`${path} is damaged`);
    const changed = isFingerprint(seen) && typeof changedAt === 'number';
    return [name, { accepted, acceptedAt, ...(changed && { seen, changedAt }) }];
  });
  return new Map(entries);
}

function json(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function isFingerprint(value: unknown): value is ToolFingerprint {
  const members = membersOf(value);
  return toolParts.every((part) => typeof members[part] === 'string');
}

function membersOf(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? { ...value } : {};
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

/** The tools at `url` that this user accepted. */
export function openAcceptedTools(
  url: string,
  options: Options,
  host: UserHost,
): AcceptedToolStore {
  if (options.secretStore === 'memory') return memoryAcceptedTools();
  return fileAcceptedTools(join(options.stateDir ?? defaultStateDirectory(host), 'tools'), url);
}

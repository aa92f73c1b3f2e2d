import { createHash, randomUUID } from 'node:crypto';
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock, EpochSeconds } from '#clock/clock';
import { defaultStateDirectory } from '#config/user-files';
import type { Options } from '#config/options';
import type { UserHost } from '#host';
import type { Log } from '#log/log';
import type { ListedTool } from './tool-filter.ts';

/** One tool as it was accepted and, where that is something else, as it was last seen. */
type AcceptedTool = {
  accepted: ToolFingerprint;
  acceptedAt: EpochSeconds;
  seen?: ToolFingerprint;
  changedAt?: EpochSeconds;
};

/** By name. */
type AcceptedTools = ReadonlyMap<string, AcceptedTool>;

/** Keeps what was accepted of the tools of one connection; nothing secret. */
export interface AcceptedToolStore {
  /**
   * Empty when nothing was kept yet.
   *
   * @throws {Error} when what was kept cannot be read
   */
  read(): Promise<AcceptedTools>;

  /** Replaces all. */
  write(tools: AcceptedTools): Promise<void>;
}

/** Which parts of a tool are other than accepted. */
export function changedParts({ accepted, seen }: AcceptedTool): ToolPart[] {
  return seen ? toolParts.filter((part) => seen[part] !== accepted[part]) : [];
}

/**
 * `tools` after a listing. A tool never seen before is accepted as it is; one that was put back to
 * what it was is no longer changed. The same map when there is nothing new.
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

/** `tools` once a person has accepted those called `names` as they were last seen. */
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

/** What a tool says of itself, in hashes of its parts, so that it can be told which one changed. */
type ToolFingerprint = Record<ToolPart, string>;

const toolParts = ['description', 'schema', 'annotations'] as const;
type ToolPart = (typeof toolParts)[number];

/** The order of an object's members is no difference. */
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

/** Knows which tools of a server are other than they were accepted. */
interface ToolWatch {
  /** Takes a listing down, and resolves to the names that changed. It never rejects. */
  see(listing: readonly ListedTool[]): Promise<ReadonlySet<string>>;

  /** Whether a tool was other than accepted when last seen, also by another process. */
  isChanged(name: string): Promise<boolean>;

  /** Whether it is the first time that this is asked of a change. */
  isNews(name: string): boolean;
}

/**
 * When what was accepted cannot be read, a `strict` watch treats every tool as changed.
 * What cannot be written is known to this process alone.
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
  const told = new Set<string>();
  let last: AcceptedTools | undefined;

  /** Others may have written since: another process, or the person who accepted something. */
  async function kept(): Promise<AcceptedTools | undefined> {
    try {
      const read = await store.read();
      return read.size === 0 && last ? last : read;
    } catch (error) {
      log.warn('accepted tools cannot be read', { reason: reasonOf(error) });
      return undefined;
    }
  }

  return {
    async see(listing) {
      const before = await kept();
      const names = listing.map(({ name }) => name);
      if (!before) return new Set(strict ? names : []);
      const prints = new Map(listing.map(({ name, tool }) => [name, toolFingerprint(tool)]));
      const after = afterListing(before, prints, clock.now());
      last = after;
      if (after !== before)
        await store.write(after).catch((error: unknown) => {
          log.warn('accepted tools cannot be kept', { reason: reasonOf(error) });
        });
      return new Set(names.filter((name) => isChanged(after, name)));
    },
    async isChanged(name) {
      const tools = await kept();
      return tools ? isChanged(tools, name) : strict;
    },
    isNews: (name) => !told.has(name) && Boolean(told.add(name)),
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
 * One file a server, readable by this user alone. A reader sees the old or the new one, whole.
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

/** Forgets everything with the process, for machines that must keep nothing. */
export function memoryAcceptedTools(kept: AcceptedTools = new Map()): AcceptedToolStore {
  let tools = kept;
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

import { watch, type FSWatcher } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { createMcpHandler, McpServer, type McpHttpHandler } from '@modelcontextprotocol/server';
import { SkillsExtension, type SkillCatalog } from '@modelcontextprotocol/server/ext/skills';
import { fingerprintSkillFolder, readSkillFolder, type SkillProblem } from './read-skill-folder.ts';

export interface SkillChange {
  /** Whether the lists of skills or resources changed. */
  readonly isListChanged: boolean;
  /** URIs of files that changed or were removed. */
  readonly updated: readonly string[];
}

/** Publishes changes to subscribers. */
export class ChangeFeed {
  /** Counts the changes of lists. */
  version = 0;
  readonly #listeners = new Set<(change: SkillChange) => void>();

  publish(change: SkillChange): void {
    if (change.isListChanged) this.version += 1;
    for (const listener of this.#listeners) listener(change);
  }

  /** Yields changes until `signal` aborts. Changes that arrive before the previous one is read are merged. */
  async *subscribe(signal: AbortSignal): AsyncGenerator<SkillChange> {
    let pending: SkillChange | undefined;
    let wake = Promise.withResolvers<void>();
    const listener = (change: SkillChange) => {
      pending = {
        isListChanged: change.isListChanged || (pending?.isListChanged ?? false),
        updated: [...new Set([...(pending?.updated ?? []), ...change.updated])],
      };
      wake.resolve();
    };
    const stop = () => wake.resolve();
    this.#listeners.add(listener);
    signal.addEventListener('abort', stop);
    try {
      while (!signal.aborted) {
        if (!pending) await wake.promise;
        wake = Promise.withResolvers();
        const change = pending;
        pending = undefined;
        if (change && !signal.aborted) yield change;
      }
    } finally {
      this.#listeners.delete(listener);
      signal.removeEventListener('abort', stop);
    }
  }
}

const settleMs = 150;
const maxSettles = 10;
const watchedIntervalMs = 30_000;
const unwatchedIntervalMs = 2000;

export interface SkillFolderOptions {
  /** Called for every file in the folder that cannot be served. */
  readonly onProblem: (problem: SkillProblem) => void;
  /** Called when the folder cannot be read. The last content stays served. */
  readonly onError: (error: unknown) => void;
}

/**
 * A folder of skills, each a folder with a `SKILL.md`, as an MCP server that offers them as resources and by the skills
 * extension. It is read when it changes, and kept in memory.
 *
 * MCP 2025-11-25 resources; the extension `io.modelcontextprotocol/skills` (SEP-2640)
 */
export class SkillFolder {
  readonly feed = new ChangeFeed();
  readonly #root: string;
  readonly #options: SkillFolderOptions;
  readonly #handler: McpHttpHandler;
  #catalog: SkillCatalog;
  /** Digests of the files that are served, by URI. */
  #served: ReadonlyMap<string, string> = new Map();
  #fingerprint = '';
  #lastError = '';
  #watcher: FSWatcher | undefined;
  #timer: NodeJS.Timeout | undefined;
  /** Whether the folder has changed since the last refresh began. */
  #isChanged = false;
  #refresh = Promise.resolve();
  #isClosed = false;

  private constructor(root: string, catalog: SkillCatalog, options: SkillFolderOptions) {
    this.#root = root;
    this.#catalog = catalog;
    this.#options = options;
    this.#handler = createMcpHandler(() => {
      const capabilities = { resources: { listChanged: true, subscribe: true } };
      const server = new McpServer({ name: 'skills', version: '1' }, { capabilities });
      this.#catalog.attach(server);
      return server;
    });
  }

  /** Resolves when the folder was read, or reading failed. */
  static async open(root: string, options: SkillFolderOptions): Promise<SkillFolder> {
    const none = { list: () => Promise.resolve([]), read: () => Promise.reject(new Error('none')) };
    const empty = await SkillsExtension.load(none, { onWarning: () => undefined });
    const folder = new SkillFolder(root, empty, options);
    // Watch first, so that changes made during the first read are read again.
    folder.#watch();
    await folder.refresh();
    return folder;
  }

  /** Answers a request of MCP over Streamable HTTP, of either era, from the skills alone. */
  fetch(request: Request): Promise<Response> {
    return this.#handler.fetch(request);
  }

  /** Whether a resource with exactly this URI is served. */
  serves(uri: string): boolean {
    return this.#served.has(uri);
  }

  /** Reads the folder if it has changed, after any refresh in progress. */
  refresh(): Promise<void> {
    this.#refresh = this.#refresh
      .then(() => this.#readChanged())
      .catch((error: unknown) => {
        const text = String(error);
        if (text !== this.#lastError) this.#options.onError(error);
        this.#lastError = text;
      });
    return this.#refresh;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    this.#watcher?.close();
    await this.#refresh;
    await this.#handler.close();
  }

  #watch(): void {
    try {
      this.#watcher = watch(this.#root, { recursive: true, persistent: false });
      this.#watcher.on('change', () => {
        this.#isChanged = true;
        this.#schedule();
      });
      this.#watcher.on('error', () => this.#unwatch());
    } catch {
      // Some file systems, such as network drives, cannot be watched; polling works there.
      this.#unwatch();
    }
    this.#schedule();
  }

  #unwatch(): void {
    this.#watcher?.close();
    this.#watcher = undefined;
  }

  #schedule(): void {
    clearTimeout(this.#timer);
    if (this.#isClosed) return;
    const intervalMs = this.#watcher ? watchedIntervalMs : unwatchedIntervalMs;
    this.#timer = setTimeout(
      () => {
        this.#isChanged = false;
        void this.refresh().then(() => this.#schedule());
      },
      this.#isChanged ? settleMs : intervalMs,
    ).unref();
  }

  async #readChanged(): Promise<void> {
    let fingerprint = await fingerprintSkillFolder(this.#root);
    if (fingerprint === this.#fingerprint || this.#isClosed) return;
    // Wait until writing stops, so that a skill is not read half-written; but not for ever.
    for (let times = 0; this.#fingerprint !== '' && times < maxSettles; times++) {
      await pause(settleMs, undefined, { ref: false });
      const later = await fingerprintSkillFolder(this.#root);
      if (later === fingerprint) break;
      fingerprint = later;
    }
    const { files, problems } = await readSkillFolder(this.#root);
    for (const problem of problems) this.#options.onProblem(problem);
    const before = this.#catalog;
    const servedBefore = this.#served;
    this.#catalog = await SkillsExtension.load(files, { onWarning: this.#options.onProblem });
    this.#fingerprint = fingerprint;
    this.#lastError = '';
    this.#served = digestsOf(this.#catalog);
    const updated = [...servedBefore].flatMap(([uri, digest]) =>
      this.#served.get(uri) === digest ? [] : [uri],
    );
    const isListChanged = listing(before) !== listing(this.#catalog);
    if (isListChanged || updated.length > 0) this.feed.publish({ isListChanged, updated });
  }
}

function digestsOf({ entries }: SkillCatalog): ReadonlyMap<string, string> {
  return new Map(
    entries.flatMap(({ resources }) =>
      resources === 'dynamic' ? [] : resources.map(({ uri, digest }) => [uri, digest] as const),
    ),
  );
}

/** A text that differs when a list of skills or resources differs. */
function listing(catalog: SkillCatalog): string {
  return JSON.stringify(catalog.entries);
}

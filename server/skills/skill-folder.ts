import { watch, type FSWatcher } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';

import { createMcpHandler, McpServer, type McpHttpHandler } from '@modelcontextprotocol/server';
import { SkillsExtension, type SkillCatalog } from '@modelcontextprotocol/server/ext/skills';

import { ChangeFeed } from './change-feed.ts';
import { readSkillFolder, skillFolderPrint, type SkillProblem } from './read-skill-folder.ts';

const settleMs = 150;
const mostSettles = 10;
const watchedEveryMs = 30_000;
const unwatchedEveryMs = 2000;

export interface SkillFolderPorts {
  /** Told of what is in the folder and not served. */
  readonly problem: (problem: SkillProblem) => void;
  /** Told when the folder cannot be read; what was read before goes on being served. */
  readonly failed: (error: unknown) => void;
}

/**
 * A folder of skills, a folder with a `SKILL.md` each, as an MCP server that offers them: resources, and the
 * skills extension. It is read when it changes, and kept in memory between.
 *
 * MCP 2025-11-25 resources; the extension `io.modelcontextprotocol/skills` (SEP-2640)
 */
export class SkillFolder {
  readonly feed = new ChangeFeed();
  readonly #root: string;
  readonly #ports: SkillFolderPorts;
  readonly #handler: McpHttpHandler;
  #catalog: SkillCatalog;
  /** Digests of the files that are served, by URI. */
  #served: ReadonlyMap<string, string> = new Map();
  #print = '';
  #lastFailure = '';
  #watcher: FSWatcher | undefined;
  #timer: NodeJS.Timeout | undefined;
  #look = Promise.resolve();
  #isClosed = false;

  private constructor(root: string, catalog: SkillCatalog, ports: SkillFolderPorts) {
    this.#root = root;
    this.#catalog = catalog;
    this.#ports = ports;
    this.#handler = createMcpHandler(() => {
      const capabilities = { resources: { listChanged: true, subscribe: true } };
      const server = new McpServer({ name: 'skills', version: '1' }, { capabilities });
      this.#catalog.attach(server);
      return server;
    });
  }

  /** Resolves once the folder was read, or could not be. */
  static async open(root: string, ports: SkillFolderPorts): Promise<SkillFolder> {
    const none = { list: () => Promise.resolve([]), read: () => Promise.reject(new Error('none')) };
    const empty = await SkillsExtension.load(none, { onWarning: () => undefined });
    const folder = new SkillFolder(root, empty, ports);
    await folder.look();
    folder.#watch();
    return folder;
  }

  /** A request of MCP over Streamable HTTP, of either era, to the skills alone. */
  fetch(request: Request): Promise<Response> {
    return this.#handler.fetch(request);
  }

  /** Whether a resource of this URI is served, as it is written here. */
  serves(uri: string): boolean {
    return this.#served.has(uri);
  }

  /** Looks whether the folder has changed, after whatever looks are under way. */
  look(): Promise<void> {
    this.#look = this.#look
      .then(() => this.#readChanged())
      .catch((error: unknown) => {
        const words = String(error);
        if (words !== this.#lastFailure) this.#ports.failed(error);
        this.#lastFailure = words;
      });
    return this.#look;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    this.#watcher?.close();
    await this.#look;
    await this.#handler.close();
  }

  #watch(): void {
    try {
      this.#watcher = watch(this.#root, { recursive: true, persistent: false });
      this.#watcher.on('change', () => this.#later(settleMs));
      this.#watcher.on('error', () => this.#unwatch());
    } catch {
      // Where nothing can be watched, as on some network drives, looking does.
      this.#unwatch();
    }
    this.#later(this.#everyMs());
  }

  #unwatch(): void {
    this.#watcher?.close();
    this.#watcher = undefined;
  }

  #everyMs(): number {
    return this.#watcher ? watchedEveryMs : unwatchedEveryMs;
  }

  #later(ms: number): void {
    clearTimeout(this.#timer);
    if (this.#isClosed) return;
    this.#timer = setTimeout(() => {
      void this.look().then(() => this.#later(this.#everyMs()));
    }, ms).unref();
  }

  async #readChanged(): Promise<void> {
    let print = await skillFolderPrint(this.#root);
    if (print === this.#print || this.#isClosed) return;
    // Somebody is writing: a skill is not read half, unless they never stop.
    for (let times = 0; this.#print !== '' && times < mostSettles; times++) {
      await pause(settleMs, undefined, { ref: false });
      const later = await skillFolderPrint(this.#root);
      if (later === print) break;
      print = later;
    }
    const { files, problems } = await readSkillFolder(this.#root);
    for (const problem of problems) this.#ports.problem(problem);
    const before = this.#catalog;
    const servedBefore = this.#served;
    this.#catalog = await SkillsExtension.load(files, { onWarning: this.#ports.problem });
    this.#print = print;
    this.#lastFailure = '';
    this.#served = digestsOf(this.#catalog);
    const updated = [...servedBefore].flatMap(([uri, digest]) =>
      this.#served.get(uri) === digest ? [] : [uri],
    );
    const isListChanged = listing(before) !== listing(this.#catalog);
    if (isListChanged || updated.length > 0) this.feed.tell({ isListChanged, updated });
  }
}

function digestsOf({ entries }: SkillCatalog): ReadonlyMap<string, string> {
  return new Map(
    entries.flatMap(({ resources }) =>
      resources === 'dynamic' ? [] : resources.map(({ uri, digest }) => [uri, digest] as const),
    ),
  );
}

/** Another text whenever a list of skills or resources is another. */
function listing(catalog: SkillCatalog): string {
  return JSON.stringify(catalog.entries);
}

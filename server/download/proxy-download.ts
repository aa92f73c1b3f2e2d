import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Readable } from 'node:stream';

import type { Clock } from '#model/clock';
import {
  bundleFor,
  type BundledServer,
  type BundleTemplate,
  type McpBundle,
  readBundleTemplate,
} from './mcp-bundle.ts';
import { type ProgramFile, ProgramFiles } from './program-files.ts';
import { type BundleOffer, proxyReference, type ProxyReference } from './proxy-reference.ts';

const packTimeoutMs = 30_000;
const maxBytes = 16 * 1024 * 1024;

/** Where the proxy's package comes from: built with this server, or packed by a script of the source tree. */
type PackageSource = { readonly file: string } | { readonly script: string };

interface BundleBuild {
  readonly script: string;
  /** Files and folders that the bundle is made of: it is built again once one of them is newer. */
  readonly sources: readonly string[];
}

export type ProxySource = PackageSource & {
  readonly bundle: string;
  readonly build?: BundleBuild;
  /** Where the operator puts programs for computers without Node.js. */
  readonly programFolders?: readonly string[];
};

/** The proxy's package, as npm installs it. */
export interface ProxyCopy {
  readonly bytes: Buffer;
  /** In hexadecimal. */
  readonly sha256: string;
}

export interface ProxyDownloadPorts {
  readonly nodePath: string;
  /** The environment of this process. The script gets almost none of it. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly clock: Clock;
  /** Called with the reason when there is no package or no bundle, once for any number of failed attempts. */
  readonly failed: (what: 'proxy' | 'bundle', error: unknown) => void;
  /** Called with the reason why a file in a folder of programs is not offered. */
  readonly programFailed: (path: string, error: unknown) => void;
}

/** How long a failure is remembered before a request tries again. */
export const retryAfterSeconds = 30;

/** The proxy that this server offers: as package and as bundle, both built or read on first use, and as programs. */
export class ProxyDownload {
  readonly fileName: string;
  readonly #ports: ProxyDownloadPorts;
  readonly #closing = new AbortController();
  readonly #template: () => Promise<BundleTemplate | undefined>;
  readonly #programs: ProgramFiles;
  readonly #isBuilt: boolean;
  #isBuilding = false;
  /** Returns the package; `undefined` if it cannot be built or read, for example because the bundler is missing. */
  readonly copy: () => Promise<ProxyCopy | undefined>;

  constructor(version: string, source: ProxySource, ports: ProxyDownloadPorts) {
    this.fileName = `latchkey-${version}.tgz`;
    this.#ports = ports;
    this.#programs = new ProgramFiles(source.programFolders ?? [], {
      clock: ports.clock,
      failed: ports.programFailed,
    });
    this.#isBuilt = source.build !== undefined;
    this.copy = this.#once('proxy', async () => {
      const bytes =
        'file' in source ? await readFile(source.file) : await this.#run([source.script]);
      return { bytes, sha256: createHash('sha256').update(bytes).digest('hex') };
    });
    this.#template = this.#once('bundle', async () => {
      if (source.build) await this.#build(source.bundle, source.build);
      return readBundleTemplate(await readFile(source.bundle));
    });
  }

  /** Starts slow work early, so that no page waits for it: the digests of programs and, in a source tree, the bundle. */
  prepare(): void {
    void this.#programs.list();
    if (this.#isBuilt) void this.#template();
  }

  /** The bundle that connects to one MCP server; `undefined` if there is none. */
  async bundle(server: BundledServer): Promise<McpBundle | undefined> {
    const template = await this.#template();
    return template && bundleFor(template, server);
  }

  /** The programs for computers without Node.js. */
  async programs(): Promise<readonly ProgramFile[]> {
    return this.#programs.list();
  }

  /** The content of a program of `programs()`; `undefined` if its file was replaced or removed since. */
  async program(program: ProgramFile): Promise<Readable | undefined> {
    return this.#programs.open(program);
  }

  async reference(base: string): Promise<ProxyReference> {
    const template = this.#template();
    const bundles = this.#isBuilding ? ({ state: 'building' } as const) : offerOf(await template);
    const copy = await this.copy();
    const programs = await this.#programs.list();
    const { fileName } = this;
    return proxyReference(base, { fileName, sha256: copy?.sha256, bundles, programs });
  }

  close(): void {
    this.#closing.abort();
  }

  /** Calls `load` once. After a failure it returns `undefined` for a while, and then tries again. */
  #once<T>(what: 'proxy' | 'bundle', load: () => Promise<T>): () => Promise<T | undefined> {
    let loaded: Promise<T | undefined> | undefined;
    let failedAt: number | undefined;
    let isReported = false;
    return () => {
      const now = this.#ports.clock.now();
      if (failedAt !== undefined && now - failedAt >= retryAfterSeconds) {
        failedAt = undefined;
        loaded = undefined;
      }
      loaded ??= load().catch((error: unknown) => {
        failedAt = this.#ports.clock.now();
        if (!this.#closing.signal.aborted && !isReported) this.#ports.failed(what, error);
        isReported = true;
        return undefined;
      });
      return loaded;
    };
  }

  /** Builds the bundle of a source tree, unless it has been built since the sources changed. */
  async #build(bundle: string, { script, sources }: BundleBuild): Promise<void> {
    this.#isBuilding = true;
    try {
      if (await isNewerThan(bundle, sources)) return;
      await this.#run([script, '--installed-only']);
    } finally {
      this.#isBuilding = false;
    }
  }

  /** Runs a script of the source tree, and returns its output. */
  #run(args: readonly string[]): Promise<Buffer> {
    const { nodePath, env } = this.#ports;
    const options = {
      encoding: 'buffer',
      maxBuffer: maxBytes,
      timeout: packTimeoutMs,
      killSignal: 'SIGKILL',
      // Windows cannot start a process without this variable.
      env: { SystemRoot: env['SystemRoot'] },
      signal: this.#closing.signal,
      windowsHide: true,
    } as const;
    return new Promise((resolve, reject) => {
      execFile(nodePath, args, options, (error, stdout) =>
        error ? reject(error) : resolve(stdout),
      );
    });
  }
}

function offerOf(template: BundleTemplate | undefined): BundleOffer {
  if (!template) return { state: 'missing' };
  return { state: 'ready', platforms: template.manifest.compatibility?.platforms ?? [] };
}

/** Whether a file exists, and none of the sources is newer. */
async function isNewerThan(file: string, sources: readonly string[]): Promise<boolean> {
  const built = await stat(file).catch(() => undefined);
  if (!built) return false;
  const changes = await Promise.all(sources.map(newestChange));
  return Math.max(...changes) <= built.mtimeMs;
}

/** When a file, or any file in a folder, was changed last. */
async function newestChange(path: string): Promise<number> {
  const found = await stat(path);
  if (!found.isDirectory()) return found.mtimeMs;
  const entries = await readdir(path, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile());
  const times = await Promise.all(
    files.map(async ({ parentPath, name }) => (await stat(join(parentPath, name))).mtimeMs),
  );
  return Math.max(found.mtimeMs, ...times);
}

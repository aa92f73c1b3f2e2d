import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';

import type { Clock } from '#clock/clock';
import {
  bundleFor,
  type BundledServer,
  type BundleTemplate,
  type McpBundle,
  readBundleTemplate,
} from './mcp-bundle.ts';
import { proxyReference, type ProxyReference } from './proxy-reference.ts';

const packTimeoutMs = 30_000;
const maxBytes = 16 * 1024 * 1024;

/** Where the proxy's package comes from: built with this server, or packed by a script of the source tree. */
type PackageSource = { readonly file: string } | { readonly script: string };

export type ProxySource = PackageSource & {
  /** The file of the bundle that the build made; in a source tree it may be missing. */
  readonly bundle: string;
};

/** The proxy's package, as npm installs it. */
export interface ProxyCopy {
  readonly bytes: Buffer;
  /** In hexadecimal. */
  readonly sha256: string;
}

export interface ProxyDownloadPorts {
  /** The Node binary that packs it. */
  readonly nodePath: string;
  /** The environment of this process. The script gets almost none of it. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly clock: Clock;
  /** Called with the reason when there is no package, or no bundle. */
  readonly failed: (what: 'proxy' | 'bundle', error: unknown) => void;
}

/** How long a failure is remembered before a request tries again. */
export const retryAfterSeconds = 30;

/** The proxy that this server offers, as package and as bundle, both built or read on first use. */
export class ProxyDownload {
  readonly fileName: string;
  readonly #ports: ProxyDownloadPorts;
  readonly #closing = new AbortController();
  readonly #template: () => Promise<BundleTemplate | undefined>;
  /** `undefined` if it cannot be built, because the bundler or the built file is missing. */
  readonly copy: () => Promise<ProxyCopy | undefined>;

  constructor(version: string, source: ProxySource, ports: ProxyDownloadPorts) {
    this.fileName = `latchkey-${version}.tgz`;
    this.#ports = ports;
    this.copy = this.#once('proxy', async () => {
      const bytes = 'file' in source ? await readFile(source.file) : await this.#packed(source);
      return { bytes, sha256: createHash('sha256').update(bytes).digest('hex') };
    });
    this.#template = this.#once('bundle', async () =>
      readBundleTemplate(await readFile(source.bundle)),
    );
  }

  /** The bundle that connects to one MCP server; `undefined` if the build made none. */
  async bundle(server: BundledServer): Promise<McpBundle | undefined> {
    const template = await this.#template();
    return template && bundleFor(template, server);
  }

  async reference(base: string): Promise<ProxyReference> {
    const [copy, template] = await Promise.all([this.copy(), this.#template()]);
    const { fileName } = this;
    return proxyReference(base, {
      fileName,
      sha256: copy?.sha256,
      hasBundles: template !== undefined,
    });
  }

  /** Stops packing. */
  close(): void {
    this.#closing.abort();
  }

  /** Calls `load` once. After a failure it returns `undefined` for a while, and then tries again. */
  #once<T>(what: 'proxy' | 'bundle', load: () => Promise<T>): () => Promise<T | undefined> {
    let loaded: Promise<T | undefined> | undefined;
    let failedAt: number | undefined;
    return () => {
      const now = this.#ports.clock.now();
      if (failedAt !== undefined && now - failedAt >= retryAfterSeconds) {
        failedAt = undefined;
        loaded = undefined;
      }
      loaded ??= load().catch((error: unknown) => {
        failedAt = this.#ports.clock.now();
        if (!this.#closing.signal.aborted) this.#ports.failed(what, error);
        return undefined;
      });
      return loaded;
    };
  }

  #packed({ script }: { readonly script: string }): Promise<Buffer> {
    const { nodePath, env } = this.#ports;
    const options = {
      encoding: 'buffer',
      maxBuffer: maxBytes,
      timeout: packTimeoutMs,
      killSignal: 'SIGKILL',
      // Windows cannot start a process without it.
      env: { SystemRoot: env['SystemRoot'] },
      signal: this.#closing.signal,
      windowsHide: true,
    } as const;
    return new Promise((resolve, reject) => {
      execFile(nodePath, [script], options, (error, stdout) =>
        error ? reject(error) : resolve(stdout),
      );
    });
  }
}

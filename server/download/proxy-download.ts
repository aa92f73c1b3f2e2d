import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';

import type { Clock } from '#clock/clock';
import { proxyReference, type ProxyReference } from './proxy-reference.ts';

const packTimeoutMs = 30_000;
const maxBytes = 16 * 1024 * 1024;

/** Where the proxy's package comes from: built with this server, or packed by a script of the source tree. */
export type ProxySource = { readonly file: string } | { readonly script: string };

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
  /** Called with the reason when there is no package. */
  readonly failed: (error: unknown) => void;
}

/** How long a failure is remembered before a request tries again. */
export const retryAfterSeconds = 30;

/** The proxy package that this server offers for download, built on first use. */
export class ProxyDownload {
  readonly fileName: string;
  readonly #source: ProxySource;
  readonly #ports: ProxyDownloadPorts;
  readonly #closing = new AbortController();
  #copy: Promise<ProxyCopy | undefined> | undefined;
  #failedAt: number | undefined;

  constructor(version: string, source: ProxySource, ports: ProxyDownloadPorts) {
    this.fileName = `latchkey-${version}.tgz`;
    this.#source = source;
    this.#ports = ports;
  }

  /** `undefined` if it cannot be built, because the bundler or the built file is missing. */
  copy(): Promise<ProxyCopy | undefined> {
    const now = this.#ports.clock.now();
    if (this.#failedAt !== undefined && now - this.#failedAt >= retryAfterSeconds) {
      this.#failedAt = undefined;
      this.#copy = undefined;
    }
    this.#copy ??= this.#made();
    return this.#copy;
  }

  async reference(base: string): Promise<ProxyReference> {
    const copy = await this.copy();
    return proxyReference(base, { fileName: this.fileName, sha256: copy?.sha256 });
  }

  /** Stops packing. */
  close(): void {
    this.#closing.abort();
  }

  async #made(): Promise<ProxyCopy | undefined> {
    try {
      const bytes =
        'file' in this.#source
          ? await readFile(this.#source.file)
          : await this.#packed(this.#source);
      return { bytes, sha256: createHash('sha256').update(bytes).digest('hex') };
    } catch (error) {
      this.#failedAt = this.#ports.clock.now();
      if (!this.#closing.signal.aborted) this.#ports.failed(error);
      return undefined;
    }
  }

  #packed({ script }: { script: string }): Promise<Buffer> {
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

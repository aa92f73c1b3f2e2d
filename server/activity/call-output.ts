import { constants, fstatSync, write } from 'node:fs';
import { type FileHandle, open, stat } from 'node:fs/promises';
import { setTimeout as pause } from 'node:timers/promises';

import type { CallWrites } from '#db/calls';
import type { CallRecord } from '#model/calls';
import { LimitedMap } from '#model/limited-map';
import { callLine } from './export-calls.ts';

// The record of calls as lines of JSON, for collectors of logs (`--call-log-output`). Lines are written off the path of calls, one
// batch at a time. While they cannot be written, they wait in a bounded amount of memory; beyond that, they are dropped and counted.

/** How much may wait to be written. */
const maxWaitingBytes = 8 * 1024 * 1024;
/** The most bytes of one write, unless a single line is longer. */
const fileChunkBytes = 64 * 1024;
/** POSIX `PIPE_BUF` of Linux: if processes share a pipe, their writes of up to this size do not mix. */
const pipeChunkBytes = 4096;
const retryMs = 1000;
/** How long to wait before writing to a full pipe again. */
const fullPipeMs = 50;
const tellEveryMs = 60_000;
const closeLimitMs = 2000;
const maxOrganizations = 1000;
const newline = 10;

/** Where lines go. */
export interface LineDestination {
  /** The name of the destination in log messages. */
  readonly name: string;

  /**
   * Makes the destination ready. @returns the most bytes to write at once, and whether lines now go to another file than before
   *
   * @throws {Error} of the system if the destination cannot be written to
   */
  prepare(): Promise<{ readonly chunkBytes: number; readonly isOther: boolean }>;

  /** @returns how many bytes were written @throws {Error} of the system */
  write(bytes: Uint8Array): Promise<number>;

  close(): Promise<void>;
}

/** A file that lines are appended to, or a FIFO. Follows a file that was renamed, as logrotate does, by opening a new one. */
export class OutputFile implements LineDestination {
  readonly name: string;
  #file: FileHandle | undefined;
  /** Device and inode of the open file. */
  #identity: string | undefined;
  #chunkBytes = fileChunkBytes;

  constructor(path: string) {
    this.name = path;
  }

  async prepare(): Promise<{ readonly chunkBytes: number; readonly isOther: boolean }> {
    const before = this.#identity;
    if (this.#file) {
      const now = await stat(this.name).catch(() => undefined);
      if (!now || `${now.dev} ${now.ino}` !== this.#identity) await this.close();
    }
    this.#file ??= await this.#open();
    return { chunkBytes: this.#chunkBytes, isOther: before !== this.#identity };
  }

  /** Does not wait for the reader of a FIFO: without one, it fails with ENXIO. */
  async #open(): Promise<FileHandle> {
    const { O_WRONLY, O_APPEND, O_CREAT, O_NONBLOCK } = constants;
    const file = await open(this.name, O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK, 0o600);
    const facts = await file.stat();
    this.#identity = `${facts.dev} ${facts.ino}`;
    this.#chunkBytes = facts.isFIFO() ? pipeChunkBytes : fileChunkBytes;
    return file;
  }

  async write(bytes: Uint8Array): Promise<number> {
    if (!this.#file) throw new Error('it is not open');
    const { bytesWritten } = await this.#file.write(bytes);
    return bytesWritten;
  }

  /** The next `prepare` opens it again. */
  async close(): Promise<void> {
    const file = this.#file;
    this.#file = undefined;
    await file?.close().catch(() => undefined);
  }
}

export class OutputStream implements LineDestination {
  readonly name = 'standard output';
  readonly #stream: NodeJS.WriteStream & { readonly fd: number };
  /** A pipe or socket, to which Node writes without blocking. Writing to a file would block the process. */
  readonly #isPiped: boolean;

  constructor(stream: NodeJS.WriteStream & { readonly fd: number }) {
    this.#stream = stream;
    const facts = fstatSync(stream.fd);
    this.#isPiped = facts.isFIFO() || facts.isSocket();
  }

  async prepare() {
    return { chunkBytes: this.#isPiped ? pipeChunkBytes : fileChunkBytes, isOther: false };
  }

  write(bytes: Uint8Array): Promise<number> {
    return new Promise((resolve, reject) => {
      if (this.#isPiped) {
        this.#stream.write(bytes, (error) => (error ? reject(error) : resolve(bytes.length)));
      } else {
        write(this.#stream.fd, bytes, (error, written) =>
          error ? reject(error) : resolve(written),
        );
      }
    });
  }

  async close(): Promise<void> {
    // It belongs to the process.
  }
}

export interface CallOutputPorts {
  readonly destination: LineDestination;
  /** Finds the names of organizations by id. Deleted organizations are missing. */
  readonly organizationNames: (ids: readonly string[]) => Promise<ReadonlyMap<string, string>>;
  readonly nowMs: () => number;
  /** Called at most once a minute while lines cannot be written, with the number of lines that were dropped since its last call. */
  readonly failed: (reason: string, dropped: number) => void;
  /** Called when lines are written again after `failed`, with how many were dropped meanwhile. */
  readonly recovered: (dropped: number) => void;
}

/** Lines that were added at once. */
interface Batch {
  readonly bytes: Buffer;
  readonly lines: number;
}

/** Writes each recorded call as a line of JSON. */
export class CallOutput {
  readonly #ports: CallOutputPorts;
  readonly #names = new LimitedMap<string, string>(maxOrganizations);
  readonly #waiting: Batch[] = [];
  #waitingBytes = 0;
  /** How much of the first batch is written. */
  #written = 0;
  #writing: Promise<void> | undefined;
  readonly #closing = new AbortController();
  #dropped = 0;
  #toldDropped = 0;
  #toldAtMs = -Infinity;
  #hasToldFailure = false;

  constructor(ports: CallOutputPorts) {
    this.#ports = ports;
  }

  /** How many lines were dropped so far. */
  get dropped(): number {
    return this.#dropped;
  }

  get waitingBytes(): number {
    return this.#waitingBytes;
  }

  /** Adds the calls that ended. Never rejects, and does not wait until they are written. */
  async add({ calls, ended, isDurable }: CallWrites): Promise<void> {
    // Durable rows are those of calls that have only begun.
    const rows = isDurable ? ended : [...calls, ...ended];
    if (rows.length === 0) return;
    await this.#learnNames(rows);
    const text = rows.map((row) => callLine(row, { organization: this.#nameOf(row) })).join('');
    const batch = { bytes: Buffer.from(text), lines: rows.length };
    if (this.#waitingBytes + batch.bytes.length > maxWaitingBytes) {
      this.#dropped += batch.lines;
      this.#tell('they are recorded faster than they can be written');
      return;
    }
    this.#waiting.push(batch);
    this.#waitingBytes += batch.bytes.length;
    this.#writing ??= this.#writeAll();
  }

  #nameOf({ organizationId }: CallRecord): string | null {
    return this.#names.get(organizationId) ?? null;
  }

  async #learnNames(rows: readonly CallRecord[]): Promise<void> {
    const ids = new Set(rows.map(({ organizationId }) => organizationId));
    const missing = [...ids].filter((id) => !this.#names.has(id));
    if (missing.length === 0) return;
    try {
      const found = await this.#ports.organizationNames(missing);
      for (const [id, name] of found) this.#names.set(id, name);
    } catch {
      // The rows have just been written to the same database. A line without the name is better than none.
    }
  }

  /** Never rejects. */
  async #writeAll(): Promise<void> {
    while (this.#waiting.length > 0 && !this.#closing.signal.aborted) {
      try {
        await this.#writeSome();
      } catch (error) {
        const isFull = error instanceof Error && 'code' in error && error.code === 'EAGAIN';
        if (!isFull) {
          await this.#ports.destination.close();
          this.#tell(reasonOf(error));
        }
        const again = { signal: this.#closing.signal, ref: false };
        await pause(isFull ? fullPipeMs : retryMs, undefined, again).catch(() => undefined);
      }
    }
    this.#writing = undefined;
  }

  async #writeSome(): Promise<void> {
    const { destination } = this.#ports;
    const [batch] = this.#waiting;
    if (!batch) return;
    const { chunkBytes, isOther } = await destination.prepare();
    const { bytes } = batch;
    // A line that was cut off in one file is written whole to the next one.
    if (isOther && this.#written > 0) {
      this.#written = bytes.lastIndexOf(newline, this.#written - 1) + 1;
    }
    const end = chunkEnd(bytes, this.#written, chunkBytes);
    this.#written += await destination.write(bytes.subarray(this.#written, end));
    if (this.#written >= bytes.length) {
      this.#written = 0;
      this.#waiting.shift();
      this.#waitingBytes -= bytes.length;
      this.#tellRecovery();
    }
  }

  #tell(reason: string): void {
    const nowMs = this.#ports.nowMs();
    if (nowMs - this.#toldAtMs < tellEveryMs) return;
    this.#toldAtMs = nowMs;
    this.#hasToldFailure = true;
    this.#ports.failed(reason, this.#newlyDropped());
  }

  #tellRecovery(): void {
    if (!this.#hasToldFailure) return;
    this.#hasToldFailure = false;
    this.#ports.recovered(this.#newlyDropped());
  }

  #newlyDropped(): number {
    const dropped = this.#dropped - this.#toldDropped;
    this.#toldDropped = this.#dropped;
    return dropped;
  }

  /** Writes the waiting lines for up to two seconds, and drops the rest. */
  async close(): Promise<void> {
    const { signal } = this.#closing;
    const late = pause(closeLimitMs, undefined, { signal }).catch(() => undefined);
    await Promise.race([this.#writing, late]);
    this.#closing.abort();
    const left = this.#waiting.reduce((sum, { lines }) => sum + lines, 0);
    this.#dropped += left;
    if (left > 0) this.#ports.failed('the server stops', this.#newlyDropped());
    await this.#ports.destination.close();
  }
}

/** The end of the lines that one write contains: as many as fit, and at least one. */
function chunkEnd(bytes: Buffer, from: number, most: number): number {
  if (bytes.length - from <= most) return bytes.length;
  const last = bytes.lastIndexOf(newline, from + most - 1);
  return last >= from ? last + 1 : bytes.indexOf(newline, from) + 1;
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const code = 'code' in error ? error.code : undefined;
  if (code === 'ENXIO') return 'no program reads the FIFO';
  if (code === 'EPIPE') return 'the reader has disconnected';
  return error.message;
}

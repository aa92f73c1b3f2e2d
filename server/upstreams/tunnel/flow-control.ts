// Buffers of a tunnel: a window for each body, and a limit for all of them.
import { GatheredBytes } from 'latchkey-mcp/gathered-bytes';
import { frameType, maxPayloadBytes, writeFrame } from 'latchkey-mcp/tunnel-frames';

/** Buffers a body that arrives from the other side, which may send `windowBytes` ahead of the reader. */
export class IncomingBody {
  readonly #gathered = new GatheredBytes();
  #allowed: number;
  #taken = 0;
  readonly #windowBytes: number;

  constructor(windowBytes: number) {
    this.#windowBytes = windowBytes;
    this.#allowed = windowBytes;
  }

  /** How many bytes wait for the reader. */
  get bytes(): number {
    return this.#gathered.length;
  }

  /** `false` when `piece` exceeds the window; it is dropped then. */
  push(piece: Buffer): boolean {
    if (piece.length > this.#allowed) return false;
    this.#allowed -= piece.length;
    if (piece.length > 0) this.#gathered.add(piece);
    return true;
  }

  /** Takes everything that has arrived, as one piece; `undefined` when nothing has. */
  take(): Buffer | undefined {
    if (this.#gathered.length === 0) return undefined;
    const all = this.#gathered.whole();
    this.#gathered.clear();
    this.#taken += all.length;
    return all;
  }

  /** Returns how much to widen the window for bytes that were taken; 0 until that is worth a frame. */
  credit(): number {
    if (this.#taken < this.#windowBytes / 4) return 0;
    const credit = this.#taken;
    this.#taken = 0;
    this.#allowed += credit;
    return credit;
  }
}

/** Sends a body as far as the other side allows, and END after the last byte. */
export class OutgoingBody {
  #rest: Uint8Array;
  #allowed: number;
  #hasEnded = false;
  readonly #send: (frame: Buffer) => void;
  readonly #onSent: () => void;
  readonly #stream: number;

  constructor(
    body: Uint8Array | undefined,
    {
      stream,
      windowBytes,
      send,
      onSent = () => {},
    }: {
      stream: number;
      windowBytes: number;
      send: (frame: Buffer) => void;
      /** Called when no part of the body is in memory any more; perhaps more than once. */
      onSent?: (() => void) | undefined;
    },
  ) {
    this.#rest = body ?? new Uint8Array();
    this.#allowed = windowBytes;
    this.#stream = stream;
    this.#send = send;
    this.#onSent = onSent;
  }

  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  /** The other side accepts `bytes` more. */
  allow(bytes: number): void {
    // Credit is unbounded; the sum must stay an exact integer.
    this.#allowed = Math.min(this.#allowed + bytes, Number.MAX_SAFE_INTEGER);
    this.flush();
  }

  drop(): void {
    // Even an empty subarray would keep the whole body in memory.
    this.#rest = new Uint8Array();
    this.#onSent();
  }

  flush(): void {
    if (this.#hasEnded) return;
    while (this.#rest.length > 0 && this.#allowed > 0) {
      const length = Math.min(this.#rest.length, this.#allowed, maxPayloadBytes);
      this.#send(writeFrame(frameType.data, this.#stream, this.#rest.subarray(0, length)));
      this.#rest = this.#rest.subarray(length);
      this.#allowed -= length;
    }
    if (this.#rest.length > 0) return;
    this.#hasEnded = true;
    this.drop();
    this.#send(writeFrame(frameType.end, this.#stream));
  }
}

/** A reservation that can be evicted in favour of another caller. */
interface Reservation {
  readonly bytes: number;
  readonly release: () => void;
  readonly onEvicted: () => void;
}

/**
 * Limits the memory that callers may occupy: `max` bytes in total, three quarters of it for one caller. When it is
 * full, the latest reservation of the caller with the most bytes is evicted in favour of a caller with less.
 */
export class MemoryBudget {
  readonly #max: number;
  readonly #maxPerCaller: number;
  readonly #byCaller = new Map<string, number>();
  /** Reservations that can be evicted, the latest last. */
  readonly #evictable = new Map<string, Set<Reservation>>();
  #total = 0;

  constructor(max: number) {
    this.#max = max;
    this.#maxPerCaller = (max / 4) * 3;
  }

  get total(): number {
    return this.#total;
  }

  /**
   * Returns a function that releases the bytes again (calling it twice does no harm), or `undefined` without
   * capacity. With `onEvicted`, the reservation can be evicted; it is released before `onEvicted` is called.
   */
  reserve(caller: string, bytes: number, onEvicted?: () => void): (() => void) | undefined {
    const after = (this.#byCaller.get(caller) ?? 0) + bytes;
    if (after > this.#maxPerCaller) return undefined;
    while (this.#total + bytes > this.#max) if (!this.#evictFor(after)) return undefined;
    this.#count(caller, bytes);
    let isReserved = true;
    const release = () => {
      if (!isReserved) return;
      isReserved = false;
      this.#count(caller, -bytes);
      if (reservation) this.#evictableOf(caller).delete(reservation);
      if (reservation && this.#evictableOf(caller).size === 0) this.#evictable.delete(caller);
    };
    const reservation = onEvicted && { bytes, release, onEvicted };
    if (reservation) this.#evictable.set(caller, this.#evictableOf(caller).add(reservation));
    return release;
  }

  /** Evicts the latest reservation of the caller who then still has the most bytes; `false` if nobody would still have `after` bytes. */
  #evictFor(after: number): boolean {
    let most: { latest: Reservation; rest: number } | undefined;
    for (const [caller, reservations] of this.#evictable) {
      const latest = [...reservations].at(-1);
      const rest = (this.#byCaller.get(caller) ?? 0) - (latest?.bytes ?? 0);
      if (latest && rest >= after && rest > (most?.rest ?? -1)) most = { latest, rest };
    }
    most?.latest.release();
    most?.latest.onEvicted();
    return most !== undefined;
  }

  #evictableOf(caller: string): Set<Reservation> {
    return this.#evictable.get(caller) ?? new Set();
  }

  #count(caller: string, bytes: number): void {
    this.#total += bytes;
    const left = (this.#byCaller.get(caller) ?? 0) + bytes;
    if (left > 0) this.#byCaller.set(caller, left);
    else this.#byCaller.delete(caller);
  }
}

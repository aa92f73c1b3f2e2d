import { GatewayRefusal } from './gateway-refusal.ts';

/** Of each body; a caller's open calls are limited in number, so this much of each needs no other limit. */
const freeBytes = 64 * 1024;
const leastPerCaller = 64 * 1024 * 1024;
const callersAtLimit = 8;

/** The part of one body that has arrived. It counts until `release`. */
export interface HeldBody {
  /** @throws {GatewayRefusal} `too_many_requests` if no more may be held, `cancelled` after `release` */
  readonly take: (bytes: number) => void;
  readonly release: () => void;
}

/**
 * Limits the memory of the request bodies that open calls hold, besides the first 64 KiB of each. A caller may hold as much
 * as is then still free for others, and at most 64 MiB, or one body of the largest size that is accepted. However many
 * callers hold all they may, another caller can still send a body. What a caller has announced and not sent does not count.
 */
export class RequestMemory {
  readonly #perCaller: number;
  readonly #max: number;
  readonly #byCaller = new Map<string, number>();
  #total = 0;

  constructor(maxBodyBytes = 0) {
    this.#perCaller = Math.max(leastPerCaller, maxBodyBytes);
    this.#max = callersAtLimit * this.#perCaller;
  }

  /** How much is counted, and of how many callers. */
  get size(): { readonly bytes: number; readonly callers: number } {
    return { bytes: this.#total, callers: this.#byCaller.size };
  }

  /** For the body of one call. */
  body(caller: string): HeldBody {
    let arrived = 0;
    let held = 0;
    let isReleased = false;
    return {
      take: (bytes) => {
        if (isReleased) throw new GatewayRefusal('cancelled');
        arrived += bytes;
        const more = Math.max(0, arrived - freeBytes) - held;
        if (more === 0) return;
        this.#reserve(caller, more);
        held += more;
      },
      release: () => {
        isReleased = true;
        if (held > 0) this.#count(caller, -held);
        held = 0;
      },
    };
  }

  #reserve(caller: string, bytes: number): void {
    const after = (this.#byCaller.get(caller) ?? 0) + bytes;
    const free = this.#max - this.#total - bytes;
    if (after > this.#perCaller) {
      throw busy(`the bodies of this caller's open requests exceed ${this.#perCaller} bytes`);
    }
    if (after > free) throw busy('the bodies of all open requests are too large');
    this.#count(caller, bytes);
  }

  #count(caller: string, bytes: number): void {
    this.#total += bytes;
    const left = (this.#byCaller.get(caller) ?? 0) + bytes;
    if (left > 0) this.#byCaller.set(caller, left);
    else this.#byCaller.delete(caller);
  }
}

function busy(detail: string): GatewayRefusal {
  return new GatewayRefusal('too_many_requests', { detail, retryAfterSeconds: 1 });
}

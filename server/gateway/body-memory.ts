import { GatewayRefusal } from './gateway-refusal.ts';

/** Of each body; a caller's open calls are limited in number, so this much of each needs no other limit. */
export const freeBytes = 64 * 1024;
const leastPerCaller = 64 * 1024 * 1024;
const callersAtLimit = 8;

/** The part of one body that has arrived. It counts until `letGo` or `release`. */
export interface HeldBody {
  /** How much of it counts. */
  readonly bytes: number;
  /** @throws {GatewayRefusal} `too_many_requests` if no more may be held, `cancelled` after `release` */
  readonly take: (bytes: number) => void;
  /** What has arrived is no longer held, and more may arrive. */
  readonly letGo: () => void;
  /** Nothing is held, and nothing more is. */
  readonly release: () => void;
}

export interface BodyMemoryOptions {
  /** What is held of open requests: the word for refusals. */
  readonly what: 'bodies' | 'responses';
  /** The largest body that is accepted. */
  readonly maxBodyBytes?: number | undefined;
}

/**
 * Limits the memory of the bodies that open calls hold, besides the first 64 KiB of each: those that callers send, or those
 * that they get. A caller may hold as much as is then still free for others, and at most 64 MiB, or one body of the largest
 * size that is accepted. However many callers hold all they may, another caller can still hold a body. What was announced
 * and has not arrived does not count.
 */
export class BodyMemory {
  readonly #what: BodyMemoryOptions['what'];
  readonly #perCaller: number;
  readonly #max: number;
  readonly #byCaller = new Map<string, number>();
  #total = 0;

  constructor({ what, maxBodyBytes = 0 }: BodyMemoryOptions) {
    this.#what = what;
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
    const letGo = () => {
      if (held > 0) this.#count(caller, -held);
      arrived = 0;
      held = 0;
    };
    return {
      get bytes() {
        return held;
      },
      take: (bytes) => {
        if (isReleased) throw new GatewayRefusal('cancelled');
        arrived += bytes;
        const more = Math.max(0, arrived - freeBytes) - held;
        if (more === 0) return;
        this.#reserve(caller, more);
        held += more;
      },
      letGo,
      release: () => {
        isReleased = true;
        letGo();
      },
    };
  }

  #reserve(caller: string, bytes: number): void {
    const after = (this.#byCaller.get(caller) ?? 0) + bytes;
    const free = this.#max - this.#total - bytes;
    if (after > this.#perCaller) {
      throw this.#refusal(`this caller's open requests exceed ${this.#perCaller} bytes`);
    }
    if (after > free) throw this.#refusal('all open requests are too large');
    this.#count(caller, bytes);
  }

  #refusal(ofWhich: string): GatewayRefusal {
    const detail = `the ${this.#what} of ${ofWhich}`;
    if (this.#what === 'bodies') {
      return new GatewayRefusal('too_many_requests', { detail, retryAfterSeconds: 1 });
    }
    // No Retry-After: a caller that follows it would run again what the MCP server has run.
    return new GatewayRefusal('too_many_requests', {
      detail: `${detail}, so it is unknown whether the request took effect`,
      isOutcomeUnknown: true,
    });
  }

  #count(caller: string, bytes: number): void {
    this.#total += bytes;
    const left = (this.#byCaller.get(caller) ?? 0) + bytes;
    if (left > 0) this.#byCaller.set(caller, left);
    else this.#byCaller.delete(caller);
  }
}

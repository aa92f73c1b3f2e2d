import { GatewayRefusal } from './gateway-refusal.ts';

/** The part of each body that does not count. The limit on a caller's open calls limits these bytes, too. */
export const freeBytes = 64 * 1024;
const leastPerCaller = 64 * 1024 * 1024;
const callersAtLimit = 8;

/** The owner of a body: memory is shared between organizations first, and then between the callers of each. */
export interface BodyHolder {
  readonly organization: string;
  readonly caller: string;
}

/** Immediately ends whatever holds a body, because others need the memory, which then no longer counts. */
export type GiveUp = (refusal: GatewayRefusal) => void;

export interface BodyMemoryOptions {
  /** The word for what is held, in the messages of refusals. */
  readonly what: 'bodies' | 'responses';
  /** The largest body that is accepted. */
  readonly maxBodyBytes?: number | undefined;
}

interface Counted {
  bytes: number;
}

interface CountedCaller extends Counted {
  readonly bodies: Set<HeldBody>;
}

interface CountedOrganization extends Counted {
  readonly callers: Map<string, CountedCaller>;
}

/**
 * Limits the memory of the bodies that open calls hold: either those that callers send, or those that they receive. The
 * first 64 KiB of each body are free. A caller may hold 64 MiB, or one body of the largest accepted size if that is
 * more; all callers together may hold eight times that.
 *
 * No caller can take the share of another. When the memory is full, a caller that holds less than others still gets
 * more, at the expense of those that hold most: in the organization that holds most, the caller that holds most loses
 * its largest call. So each of n organizations that hold bodies may hold an nth of the whole, and each of the c callers
 * of an organization a c-th of its part, however much the others hold. For lack of room, a call is refused or ended
 * only if its caller and its organization hold more than these parts. Bytes that were announced but have not arrived do
 * not count.
 */
export class BodyMemory {
  readonly #what: BodyMemoryOptions['what'];
  readonly #perCaller: number;
  readonly #max: number;
  readonly #organizations = new Map<string, CountedOrganization>();
  #total = 0;

  constructor({ what, maxBodyBytes = 0 }: BodyMemoryOptions) {
    this.#what = what;
    this.#perCaller = Math.max(leastPerCaller, maxBodyBytes);
    this.#max = callersAtLimit * this.#perCaller;
  }

  /** The number of bytes that count, and of the callers that hold them. */
  get size(): { readonly bytes: number; readonly callers: number } {
    const organizations = [...this.#organizations.values()];
    const callers = organizations.reduce((sum, one) => sum + one.callers.size, 0);
    return { bytes: this.#total, callers };
  }

  /** The number of bytes that count for an organization. */
  bytesOf(organization: string): number {
    return this.#organizations.get(organization)?.bytes ?? 0;
  }

  /** Starts counting the body of one call. `giveUp` ends what holds it. */
  body(holder: BodyHolder, giveUp: GiveUp): HeldBody {
    return new HeldBody(this, holder, giveUp);
  }

  /** Makes room for `bytes` more of the holder, by ending larger calls if necessary. @throws {GatewayRefusal} `too_many_requests` */
  makeRoom({ organization, caller }: BodyHolder, bytes: number): void {
    const own = this.#organizations.get(organization);
    const after = (own?.callers.get(caller)?.bytes ?? 0) + bytes;
    if (after > this.#perCaller) {
      throw this.#refusal(`this caller's open requests exceed ${this.#perCaller} bytes`);
    }
    while (this.#total + bytes > this.#max) {
      const most = largest(this.#organizations.values());
      // If no other organization holds more, the callers of this one must share what it has.
      const isOther = most !== undefined && most !== own && most.bytes > (own?.bytes ?? 0) + bytes;
      const busiest = largest((isOther ? most : own)?.callers.values() ?? []);
      if (!busiest || (!isOther && busiest.bytes <= after)) {
        throw this.#refusal(
          'all open requests are too large, and those of this caller among the largest',
        );
      }
      largest(busiest.bodies)?.giveUp(this.#givenUp());
    }
  }

  #refusal(ofWhich: string): GatewayRefusal {
    const detail = `the ${this.#what} of ${ofWhich}`;
    if (this.#what === 'bodies') {
      return new GatewayRefusal('too_many_requests', { detail, retryAfterSeconds: 1 });
    }
    // No Retry-After: a caller that retries would repeat what the MCP server may already have executed.
    return this.#unknown(detail);
  }

  #givenUp(): GatewayRefusal {
    return this.#unknown(
      `the ${this.#what} of this caller's open requests were the largest, and others needed the memory`,
    );
  }

  #unknown(detail: string): GatewayRefusal {
    return new GatewayRefusal('too_many_requests', {
      detail: `${detail}, so it is unknown whether the request took effect`,
      isOutcomeUnknown: true,
    });
  }

  /** Counts bytes of a body; a negative number if they are no longer held. */
  count({ organization, caller }: BodyHolder, body: HeldBody, bytes: number): void {
    const own = this.#organizations.get(organization) ?? { bytes: 0, callers: new Map() };
    const callers: CountedCaller = own.callers.get(caller) ?? { bytes: 0, bodies: new Set() };
    this.#total += bytes;
    for (const counted of [own, callers, body]) counted.bytes += bytes;
    if (body.bytes > 0) callers.bodies.add(body);
    else callers.bodies.delete(body);
    if (callers.bytes > 0) own.callers.set(caller, callers);
    else own.callers.delete(caller);
    if (own.bytes > 0) this.#organizations.set(organization, own);
    else this.#organizations.delete(organization);
  }
}

/** The part of one body that has arrived. It counts until `letGo` or `release`. Every call has one, so it has no closures. */
export class HeldBody implements Counted {
  /** The number of bytes that count. Changed by `BodyMemory` alone. */
  bytes = 0;
  readonly #memory: BodyMemory;
  readonly #holder: BodyHolder;
  readonly #end: GiveUp;
  #arrived = 0;
  #refusal: GatewayRefusal | undefined;
  #isReleased = false;

  constructor(memory: BodyMemory, holder: BodyHolder, end: GiveUp) {
    this.#memory = memory;
    this.#holder = holder;
    this.#end = end;
  }

  /**
   * Counts bytes that have arrived. @throws {GatewayRefusal} `too_many_requests` if no more may be held, or the body
   * was given up; `cancelled` after `release`
   */
  take(bytes: number): void {
    if (this.#refusal) throw this.#refusal;
    // The error is not created in `release`, which every call runs: capturing its stack would cost a tenth of the call.
    if (this.#isReleased) throw new GatewayRefusal('cancelled');
    this.#arrived += bytes;
    const more = Math.max(0, this.#arrived - freeBytes) - this.bytes;
    if (more === 0) return;
    this.#memory.makeRoom(this.#holder, more);
    this.#memory.count(this.#holder, this, more);
  }

  /** Stops counting what has arrived so far. More may arrive. */
  letGo(): void {
    if (this.bytes > 0) this.#memory.count(this.#holder, this, -this.bytes);
    this.#arrived = 0;
  }

  /** Stops counting for good: nothing more may arrive. */
  release(): void {
    this.#isReleased = true;
    this.letGo();
  }

  /** Ends what holds the body, because others need the memory. */
  giveUp(refusal: GatewayRefusal): void {
    this.#refusal = refusal;
    this.letGo();
    this.#end(refusal);
  }
}

function largest<One extends Counted>(all: Iterable<One>): One | undefined {
  let most: One | undefined;
  for (const one of all) if (!most || one.bytes > most.bytes) most = one;
  return most;
}

import type { Clock, EpochSeconds } from '#clock/clock';
import { upstreamPlace } from '#gateway/upstream-place';
import type { ServerRecord } from '#organizations/server-record';

/** How an upstream turned out to want to be spoken to by callers of the modern era; `neither`: as they do. */
export type Spoken = 'modern' | 'legacy' | 'neither';

const maxServers = 10_000;
const relearnSeconds = 3600;
const neitherSeconds = 60;
const doubtSeconds = 30;

interface Known {
  spoken?: Spoken;
  /** It has refused a handshake of the older era, and spoke the modern one then. */
  isModernOnly?: boolean;
  learntAt: EpochSeconds;
}

/**
 * What eras upstreams speak, remembered for an hour, as servers are replaced and updated. A server that is
 * pointed elsewhere is another one.
 */
export class KnownEras {
  readonly #known = new Map<string, Known>();
  readonly #clock: Clock;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  spoken(server: ServerRecord): Spoken | undefined {
    return this.#of(server)?.spoken;
  }

  isModernOnly(server: ServerRecord): boolean {
    return this.#of(server)?.isModernOnly ?? false;
  }

  learn(server: ServerRecord, learnt: Omit<Known, 'learntAt'>): void {
    const name = nameOf(server);
    const before = this.#of(server);
    this.#known.delete(name);
    this.#known.set(name, { ...before, ...learnt, learntAt: this.#clock.now() });
    const [oldest] = this.#known.keys();
    if (this.#known.size > maxServers && oldest !== undefined) this.#known.delete(oldest);
  }

  forget(server: ServerRecord): void {
    this.#known.delete(nameOf(server));
  }

  /** Whether what is known is old enough to be doubted, and asked again. */
  mayDoubt(server: ServerRecord): boolean {
    const known = this.#of(server);
    return known !== undefined && known.learntAt + doubtSeconds <= this.#clock.now();
  }

  #of(server: ServerRecord): Known | undefined {
    const known = this.#known.get(nameOf(server));
    if (!known) return undefined;
    const seconds = known.spoken === 'neither' ? neitherSeconds : relearnSeconds;
    return known.learntAt + seconds > this.#clock.now() ? known : undefined;
  }
}

function nameOf(server: ServerRecord): string {
  return `${server.id} ${upstreamPlace(server)}`;
}

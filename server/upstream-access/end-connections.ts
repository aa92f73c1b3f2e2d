import type { AuthorizationClient } from './authorization-client.ts';
import type { Clock } from '#clock/clock';
import type { Sealing } from '#people/sealing';
import type { UpstreamAccess, UpstreamAccessStore } from './upstream-access.ts';
import {
  tokensPurpose,
  type EndedConnection,
  type EndedConnectionStore,
} from './upstream-connection.ts';
import { readTokens } from './upstream-tokens.ts';

const everyMs = 2000;
const batch = 20;
/** Some nine hours, the pauses doubling from a minute. */
const maxAttempts = 10;

export interface EndConnectionsPorts {
  readonly ended: EndedConnectionStore;
  readonly accesses: Pick<UpstreamAccessStore, 'byId'>;
  readonly sealing: Sealing;
  readonly clientOf: (access: UpstreamAccess) => AuthorizationClient;
  readonly clock: Clock;
  readonly failed: (error: unknown) => void;
}

/**
 * Tells authorization servers that the tokens of connections which ended are nobody's any more, whoever ended them and
 * by which way, and forgets them. Here they count no longer from the moment that they ended.
 *
 * RFC 7009
 */
export class EndConnections {
  readonly #ports: EndConnectionsPorts;
  readonly #timer: NodeJS.Timeout;
  #rounds = 0;
  #running: Promise<void> | undefined;

  constructor(ports: EndConnectionsPorts) {
    this.#ports = ports;
    this.#timer = setInterval(() => void this.run(), everyMs).unref();
  }

  /** Looks once; never rejects. */
  run(): Promise<void> {
    this.#running ??= this.#once()
      .catch((error: unknown) => this.#ports.failed(error))
      .finally(() => {
        this.#running = undefined;
      });
    return this.#running;
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#running;
  }

  async #once(): Promise<void> {
    const { ended, clock } = this.#ports;
    const due = await ended.due(clock.now(), batch);
    await Promise.all(due.map((one) => this.#end(one)));
    // What was set up and never used leaves nothing behind that would be due.
    this.#rounds += 1;
    if (due.length > 0 || this.#rounds % 30 === 1) await ended.forgetAccesses();
  }

  async #end(one: EndedConnection): Promise<void> {
    const { ended, accesses, sealing, clientOf, clock } = this.#ports;
    const next = clock.now() + 60 * 2 ** one.attempts;
    if (!(await ended.postpone(one, next))) return;
    const access = await accesses.byId(one.accessId);
    try {
      const tokens = readTokens(sealing.open(tokensPurpose(one), one.sealedTokens));
      if (access) await clientOf(access).revoke(tokens);
    } catch (error) {
      if (one.attempts + 1 < maxAttempts) return;
      this.#ports.failed(error);
    }
    await ended.remove(one.id);
  }
}

import { setTimeout as delay } from 'node:timers/promises';

import type { Sealing } from '#people/sealing';
import { tellEnd, type EndedTokens, type TellEndPorts } from './ended-tokens.ts';
import type { UpstreamAccessStore } from './upstream-access.ts';
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
/** As long as a person waits for it. */
const patienceMs = 5000;

export interface EndConnectionsPorts extends TellEndPorts {
  readonly ended: EndedConnectionStore;
  readonly accesses: Pick<UpstreamAccessStore, 'byId'>;
  readonly sealing: Sealing;
  /** Tokens of ours that ended since it was asked last. */
  readonly serverTokens: () => Promise<readonly EndedTokens[]>;
  /** Tells of clients that we registered and are no longer. */
  readonly endRegistrations: () => Promise<void>;
  readonly failed: (error: unknown) => void;
}

/**
 * Tells authorization servers that the tokens of connections which ended are nobody's any more, whoever ended them and
 * by which way, and forgets them. Here they count no longer from the moment that they ended. Our own tokens for an
 * access that is not in force any more are told once, as nothing of them is kept.
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

  /** Tells what has ended by now, or goes on telling it behind the caller's back after five seconds; never rejects. */
  async tellNow(): Promise<void> {
    const waiting = new AbortController();
    const late = delay(patienceMs, undefined, { signal: waiting.signal }).catch(() => undefined);
    const told = (async () => {
      // A look that is under way may have begun before what is meant here ended.
      await this.#running;
      await this.run();
    })();
    await Promise.race([told, late]);
    waiting.abort();
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#running;
  }

  async #once(): Promise<void> {
    const { ended, clock, serverTokens } = this.#ports;
    const [due, ours] = [await ended.due(clock.now(), batch), await serverTokens()];
    await Promise.all([
      ...due.map((one) => this.#end(one)),
      ...ours.map((one) => tellEnd(one, true, this.#ports).catch(this.#ports.failed)),
    ]);
    await this.#ports.endRegistrations();
    // What was set up and never used leaves nothing behind that would be due.
    this.#rounds += 1;
    if (due.length > 0 || this.#rounds % 30 === 1) await ended.forgetAccesses();
  }

  async #end(one: EndedConnection): Promise<void> {
    const { ended, accesses, sealing, clock } = this.#ports;
    const { organization, server, userId, attempts } = one;
    const next = clock.now() + 60 * 2 ** attempts;
    if (!(await ended.postpone(one, next))) return;
    const access = await accesses.byId(one.accessId);
    try {
      const tokens = readTokens(sealing.open(tokensPurpose(one), one.sealedTokens));
      const of = { tokens, organization, server, userId };
      if (access) await tellEnd({ access, ...of }, attempts === 0, this.#ports);
    } catch (error) {
      if (attempts + 1 < maxAttempts) return;
      this.#ports.failed(error);
    }
    await ended.remove(one.id);
  }
}

import type { Clock, EpochSeconds } from '#clock/clock';
import { GatewayRefusal } from '#gateway/gateway-refusal';
import type { Upstream } from '#gateway/upstream';
import type { Asker } from './asker.ts';
import type { ClientWords } from './envelope.ts';
import { legacyHandshake } from './legacy-handshake.ts';
import { LegacyLink } from './legacy-link.ts';

const idleSeconds = 300;
const sweepEveryMs = 30_000;
const maxPerOwner = 16;

interface KeptLink {
  readonly opening: Promise<LegacyLink | undefined>;
  link: LegacyLink | undefined;
  usedAt: EpochSeconds;
}

/**
 * The handshakes that are made for callers of the modern era, who make none: one for each client of an owner
 * and each way to the upstream, sixteen an owner, never shared between owners: a link goes on as it began, so it is not
 * for who may do less since, or whose server was pointed elsewhere. One that nobody used for five minutes ends, at the
 * upstream too.
 */
export class LegacyLinks {
  readonly #byOwner = new Map<string, Map<string, KeptLink>>();
  readonly #clock: Clock;
  readonly #timer: NodeJS.Timeout;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#timer = setInterval(() => this.#endIdle(), sweepEveryMs).unref();
  }

  /**
   * The link of this owner's client, made now where there is none; `undefined` when the upstream refuses
   * to shake hands.
   *
   * @throws {GatewayRefusal} `too_many_requests`
   * @throws {UpstreamError} when it cannot be reached
   */
  async link(
    { owner, way, upstream }: Pick<Asker, 'owner' | 'way' | 'upstream'>,
    client: ClientWords,
  ): Promise<LegacyLink | undefined> {
    const name = JSON.stringify([way, client]);
    const own = this.#byOwner.get(owner) ?? new Map<string, KeptLink>();
    this.#byOwner.set(owner, own);
    const known = own.get(name);
    if (known) {
      known.usedAt = this.#clock.now();
      return known.opening;
    }
    if (own.size >= maxPerOwner) this.#makeRoom(owner, own);
    const opening = open(upstream, client);
    const kept: KeptLink = { opening, link: undefined, usedAt: this.#clock.now() };
    own.set(name, kept);
    const drop = () => this.#drop(owner, name, kept);
    opening.then((opened) => {
      if (opened) kept.link = opened;
      else drop();
    }, drop);
    return opening;
  }

  /** Forgets a link whose session the upstream does not know any more. */
  forget(owner: string, dead: LegacyLink): void {
    for (const [name, kept] of this.#byOwner.get(owner) ?? []) {
      if (kept.link !== dead) continue;
      this.#drop(owner, name, kept);
      dead.close().catch(() => undefined);
    }
  }

  keeps(owner: string): boolean {
    return this.#byOwner.has(owner);
  }

  /** Ends the links of an owner, those that are being made too. */
  endOf(owner: string): void {
    for (const [name, kept] of this.#byOwner.get(owner) ?? []) {
      this.#end(owner, name, kept);
    }
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    const links: KeptLink[] = [];
    for (const own of this.#byOwner.values()) links.push(...own.values());
    this.#byOwner.clear();
    await Promise.allSettled(links.map(async ({ link }) => link?.close()));
  }

  #makeRoom(owner: string, own: Map<string, KeptLink>): void {
    const idle = [...own].filter(([, { link }]) => link && !link.isBusy);
    const [oldest] = idle.toSorted(([, one], [, other]) => one.usedAt - other.usedAt);
    if (oldest) return this.#end(owner, ...oldest);
    throw new GatewayRefusal('too_many_requests', {
      detail: `this caller has ${maxPerOwner} clients with calls under way`,
      retryAfterSeconds: 1,
    });
  }

  #endIdle(): void {
    const now = this.#clock.now();
    for (const [owner, own] of this.#byOwner) {
      for (const [name, kept] of own) {
        if (kept.link?.isBusy) kept.usedAt = now;
        else if (kept.link && kept.usedAt + idleSeconds < now) this.#end(owner, name, kept);
      }
    }
  }

  #end(owner: string, name: string, kept: KeptLink): void {
    this.#drop(owner, name, kept);
    // An upstream that cannot be told forgets by itself.
    kept.opening.then(async (link) => link?.close()).catch(() => undefined);
  }

  #drop(owner: string, name: string, kept: KeptLink): void {
    const own = this.#byOwner.get(owner);
    if (own?.get(name) === kept) own.delete(name);
    if (own?.size === 0) this.#byOwner.delete(owner);
  }
}

async function open(upstream: Upstream, client: ClientWords): Promise<LegacyLink | undefined> {
  const handshake = await legacyHandshake(upstream, client);
  if (!handshake) return undefined;
  const link = new LegacyLink(handshake);
  await link.begin();
  return link;
}

import { hash } from 'node:crypto';
import type { Awaitable } from '#model/awaitable';
import type { Clock, EpochSeconds } from '#model/clock';
import type { ClientDescription } from 'latchkey-mcp/translation';
import type { AdaptedCall } from './call.ts';
import { GatewayRefusal } from './gateway-refusal.ts';
import { LegacyLink } from './legacy-link.ts';
import { LegacyTasks } from './legacy-tasks.ts';
import type { Upstream } from './upstream.ts';
import { initialize } from './upstream-handshake.ts';
import type { Target } from '#model/endpoints';

const idleSeconds = 300;
const idleCheckMs = 30_000;
const maxPerOwner = 16;

/** The links of one owner, by name. */
class OwnLinks extends Map<string, KeptLink> {
  readonly tasks = new LegacyTasks();
}

interface KeptLink {
  readonly opening: Promise<LegacyLink | undefined>;
  link: LegacyLink | undefined;
  usedAt: EpochSeconds;
}

/**
 * Handshakes on behalf of modern callers, who make none: one per owner, client and upstream location, at most sixteen
 * per owner, and never shared between owners. A link keeps the scopes and location it was opened with, so a caller
 * whose scopes or server changed gets a new one. After five minutes without use a link ends, also at the upstream.
 */
export class LegacyLinks {
  readonly #byOwner = new Map<string, OwnLinks>();
  readonly #clock: Clock;
  readonly #timer: NodeJS.Timeout;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#timer = setInterval(() => this.#endIdle(), idleCheckMs).unref();
  }

  /**
   * The link of this owner's client, opened if there is none; `undefined` if the upstream refuses the handshake.
   *
   * @throws {GatewayRefusal} `too_many_requests`
   * @throws {UpstreamError} if the upstream cannot be reached
   */
  link(
    { owner, admission, target, upstream }: AdaptedCall,
    client: ClientDescription,
  ): Awaitable<LegacyLink | undefined> {
    const name = nameOf({ admission, target }, client);
    const own = this.#byOwner.get(owner) ?? new OwnLinks();
    this.#byOwner.set(owner, own);
    const known = own.get(name);
    if (known) {
      known.usedAt = this.#clock.now();
      return known.link ?? known.opening;
    }
    if (own.size >= maxPerOwner) this.#evictOldest(owner, own);
    const opening = open(upstream, client, own.tasks);
    const kept: KeptLink = { opening, link: undefined, usedAt: this.#clock.now() };
    own.set(name, kept);
    const drop = () => this.#drop(owner, name, kept);
    opening.then((opened) => {
      if (opened) kept.link = opened;
      else drop();
    }, drop);
    return opening;
  }

  /** The link of this owner's client, if it is open. */
  open(
    { owner, admission, target }: AdaptedCall,
    client: ClientDescription,
  ): LegacyLink | undefined {
    return this.#byOwner.get(owner)?.get(nameOf({ admission, target }, client))?.link;
  }

  /** Removes a link whose session the upstream no longer knows. */
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

  /** Ends the links of an owner, including those being opened. */
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

  #evictOldest(owner: string, own: Map<string, KeptLink>): void {
    const idle = [...own].filter(([, { link }]) => link && !link.isBusy);
    const [oldest] = idle.toSorted(([, one], [, other]) => one.usedAt - other.usedAt);
    if (oldest) return this.#end(owner, ...oldest);
    throw new GatewayRefusal('too_many_requests', {
      detail: `this caller already has ${maxPerOwner} clients with running calls`,
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
    // If the upstream cannot be reached, its session times out there.
    kept.opening.then(async (link) => link?.close()).catch(() => undefined);
  }

  #drop(owner: string, name: string, kept: KeptLink): void {
    const own = this.#byOwner.get(owner);
    if (own?.get(name) === kept) own.delete(name);
    if (own?.size === 0) this.#byOwner.delete(owner);
  }
}

/** A link keeps the location and the scopes that it was opened with. */
function nameOf(
  { admission, target }: Pick<AdaptedCall, 'admission' | 'target'>,
  client: ClientDescription,
): string {
  return `${digestOf(target)} ${clientDigest(client)} ${admission.scopes.join(' ')}`;
}

const digests = new WeakMap<object, string>();

/** The digest of a target, cached because a target may list very many tools. Calls share the record of a target until it changes. */
function digestOf(target: Target): string {
  return cachedDigest(target, () => JSON.stringify(target));
}

/** The digest of a client, without its log level, because one link can log for several levels. Most calls share the record of a client. */
function clientDigest(client: ClientDescription): string {
  const { capabilities, clientInfo } = client;
  return cachedDigest(client, () => JSON.stringify([capabilities, clientInfo]));
}

function cachedDigest(value: object, text: () => string): string {
  let digest = digests.get(value);
  if (digest === undefined) {
    digest = hash('sha256', text(), 'base64url');
    digests.set(value, digest);
  }
  return digest;
}

async function open(
  upstream: Upstream,
  client: ClientDescription,
  tasks: LegacyTasks,
): Promise<LegacyLink | undefined> {
  const initialized = await initialize(upstream, client);
  if (initialized.outcome === 'refused') return undefined;
  const link = new LegacyLink(initialized.handshake, tasks);
  try {
    await link.begin();
  } catch (error) {
    await link.close().catch(() => undefined);
    throw error;
  }
  return link;
}

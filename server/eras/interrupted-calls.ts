import { randomBytes } from 'node:crypto';

import type { LegacyCall } from './legacy-call.ts';
import type { LegacyLink } from './legacy-link.ts';
import type { Message } from './message.ts';

const stateBytes = 24;
const keptMs = 600_000;
const maxPerOwner = 100;

/** A call whose upstream asked something and waits for the response. */
export interface InterruptedCall {
  readonly owner: string;
  readonly link: LegacyLink;
  readonly call: LegacyCall;
  readonly question: Message;
}

/**
 * Calls that wait for their caller to come back with a response: for ten minutes, a hundred an owner, the
 * oldest giving way. A state opens one call of its owner's, once.
 */
export class InterruptedCalls {
  readonly #calls = new Map<string, InterruptedCall & { readonly timer: NodeJS.Timeout }>();
  /** The states of each owner, the oldest first. */
  readonly #byOwner = new Map<string, Set<string>>();

  get size(): number {
    return this.#calls.size;
  }

  /** What the caller is to say when it comes back: 192 random bits. */
  keep(interrupted: InterruptedCall): string {
    const { owner } = interrupted;
    const before = this.#byOwner.get(owner);
    const [oldest] = before ?? [];
    if (oldest !== undefined && (before?.size ?? 0) >= maxPerOwner) this.#giveUp(oldest);
    const state = randomBytes(stateBytes).toString('base64url');
    const timer = setTimeout(() => this.#giveUp(state), keptMs).unref();
    this.#calls.set(state, { ...interrupted, timer });
    const own = this.#byOwner.get(owner) ?? new Set();
    this.#byOwner.set(owner, own.add(state));
    interrupted.call.ended.addEventListener('abort', () => this.#forget(state), { once: true });
    return state;
  }

  /** `undefined` also for a state of somebody else, or one that was used. */
  take(state: string, owner: string): InterruptedCall | undefined {
    const kept = this.#calls.get(state);
    if (kept?.owner !== owner) return undefined;
    this.#forget(state);
    return kept;
  }

  #giveUp(state: string): void {
    const kept = this.#calls.get(state);
    this.#forget(state);
    kept?.call.cancel();
  }

  #forget(state: string): void {
    const kept = this.#calls.get(state);
    if (!kept) return;
    clearTimeout(kept.timer);
    this.#calls.delete(state);
    const own = this.#byOwner.get(kept.owner);
    own?.delete(state);
    if (own?.size === 0) this.#byOwner.delete(kept.owner);
  }
}

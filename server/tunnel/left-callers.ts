const maxCallers = 20_000;
/** What an agent keeps outlives its tunnel for a minute, and either end may take a while to see that it is gone. */
const toldAgainMs = 90_000;

/** Who asked an agent for anything, and which of them nobody lets in any more. Who did not ask for longest is forgotten. */
export class LeftCallers {
  /** Since when each is gone; `undefined` for those who are not. */
  readonly #callers = new Map<string, number | undefined>();
  /** How many are gone. */
  #gone = 0;

  /** A request of theirs goes to the agent, so they are not gone, or are back. */
  asked(caller: string): void {
    this.#forget(caller);
    this.#callers.set(caller, undefined);
    if (this.#callers.size <= maxCallers) return;
    const [oldest] = this.#callers.keys();
    if (oldest !== undefined) this.#forget(oldest);
  }

  /** `false` when they never asked, so that there is nothing of theirs at the agent. */
  left(caller: string, nowMs: number): boolean {
    if (!this.#callers.has(caller)) return false;
    this.#forget(caller);
    this.#callers.set(caller, nowMs);
    this.#gone += 1;
    return true;
  }

  /** Those whose end a process of the agent may have missed, as it was away. */
  recent(nowMs: number): string[] {
    if (this.#gone === 0) return [];
    const recent: string[] = [];
    for (const [caller, leftAtMs] of this.#callers) {
      if (leftAtMs === undefined) continue;
      if (leftAtMs + toldAgainMs >= nowMs) recent.push(caller);
      else this.#forget(caller);
    }
    return recent;
  }

  #forget(caller: string): void {
    if (this.#callers.get(caller) !== undefined) this.#gone -= 1;
    this.#callers.delete(caller);
  }
}

/** The part of a signal that waiting code needs. `AbortSignal` and `Ending` both have it. */
export interface EndSignal {
  readonly aborted: boolean;
  readonly reason: unknown;
  addEventListener(
    type: 'abort',
    listener: EndListener,
    options?: { readonly once?: boolean },
  ): void;
  removeEventListener(type: 'abort', listener: EndListener): void;
  throwIfAborted(): void;
}

type EndListener = (() => void) | { handleEvent(): void };

/**
 * Ends one call. It is an `AbortController` and its signal in one object, without an `EventTarget`, which would cost more than everything
 * else that a call does with a signal. Listeners must not throw.
 */
export class Ending implements EndSignal {
  aborted = false;
  reason: unknown;
  #listeners: EndListener[] | undefined;
  #controller: AbortController | undefined;

  get signal(): EndSignal {
    return this;
  }

  abort(reason: unknown = new DOMException('This operation was aborted', 'AbortError')): void {
    if (this.aborted) return;
    this.aborted = true;
    this.reason = reason;
    // A listener may remove others.
    for (let next = this.#listeners?.shift(); next; next = this.#listeners?.shift()) {
      if (typeof next === 'function') next();
      else next.handleEvent();
    }
    this.#controller?.abort(reason);
  }

  /** A listener is called at most once, as there is one event. */
  addEventListener(_: 'abort', listener: EndListener): void {
    if (this.aborted || this.#listeners?.includes(listener)) return;
    if (this.#listeners) this.#listeners.push(listener);
    else this.#listeners = [listener];
  }

  removeEventListener(_: 'abort', listener: EndListener): void {
    const at = this.#listeners?.indexOf(listener) ?? -1;
    if (at >= 0) this.#listeners?.splice(at, 1);
  }

  throwIfAborted(): void {
    if (this.aborted) throw this.reason;
  }

  /** The same as an `AbortSignal`, created when first needed. */
  get abortSignal(): AbortSignal {
    if (!this.#controller) {
      this.#controller = new AbortController();
      if (this.aborted) this.#controller.abort(this.reason);
    }
    return this.#controller.signal;
  }
}

/** A signal as an `AbortSignal`, for code that is not ours. */
export function abortSignal(signal: EndSignal): AbortSignal {
  if (signal instanceof Ending) return signal.abortSignal;
  if (signal instanceof AbortSignal) return signal;
  throw new TypeError('a signal of no known kind');
}

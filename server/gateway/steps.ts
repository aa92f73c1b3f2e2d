import assert from 'node:assert/strict';

import type { Awaitable } from '#model/awaitable';
import type { Arrived } from './call.ts';
import type { GatewayAnswer } from './request.ts';

/** The member that every path requires of the parts of its steps. */
export interface Failing {
  /** Ends a failed call, at whatever step it failed, and returns the answer for its caller. Never throws. */
  readonly failed: (error: unknown, call: Arrived) => GatewayAnswer;
}

/**
 * Passes a call on, answers it, or refuses it by throwing. Never changes the given call: adds the findings of
 * the step to a new one.
 */
type Run<From, To, Parts> = (call: From, parts: Parts) => Awaitable<To | GatewayAnswer>;

interface Step<Parts> {
  readonly name: string;
  // Declared as a method, so that its parameter may have a narrower type. `Steps` makes sure that it gets that type.
  run(call: Arrived, parts: Parts): Awaitable<Arrived | GatewayAnswer>;
}

/** The beginning of a path. The types ensure that each step can work with what the previous one returns. */
export class Steps<Last extends Arrived, Parts extends Failing> {
  readonly #steps: readonly Step<Parts>[];

  private constructor(steps: readonly Step<Parts>[]) {
    this.#steps = steps;
  }

  static first<Next extends Arrived, Parts extends Failing>(
    name: string,
    run: Run<Arrived, Next, Parts>,
  ): Steps<Next, Parts> {
    return new Steps<Next, Parts>([{ name, run }]);
  }

  next<Next extends Arrived>(name: string, run: Run<Last, Next, Parts>): Steps<Next, Parts> {
    return new Steps<Next, Parts>([...this.#steps, { name, run }]);
  }

  /** Adds the step that answers every call that reaches it. */
  last(name: string, run: Run<Last, never, Parts>): Path<Parts> {
    return new Path([...this.#steps, { name, run }]);
  }
}

/** Steps in the order in which calls pass them. */
export class Path<Parts extends Failing> {
  readonly #steps: readonly Step<Parts>[];

  constructor(steps: readonly Step<Parts>[]) {
    this.#steps = steps;
  }

  get names(): readonly string[] {
    return this.#steps.map(({ name }) => name);
  }

  /**
   * Passes a call through the steps until one of them answers it. Continues in the same turn as long as steps return values,
   * and waits only for a step that returns a promise. Neither throws nor rejects.
   */
  pass(call: Arrived, parts: Parts): Awaitable<GatewayAnswer> {
    return this.#from(0, call, parts);
  }

  #from(first: number, arrived: Arrived, parts: Parts): Awaitable<GatewayAnswer> {
    let call = arrived;
    for (let index = first; ; index += 1) {
      const step = this.#steps[index];
      assert(step, 'the last step answers every call');
      let result: Awaitable<Arrived | GatewayAnswer>;
      try {
        result = step.run(call, parts);
      } catch (error) {
        return parts.failed(error, call);
      }
      if (result instanceof Promise) return this.#after(result, { index, call }, parts);
      if (isAnswer(result)) return result;
      call = result;
    }
  }

  /** Continues after the step at this index, once its promise is settled. */
  #after(
    result: Promise<Arrived | GatewayAnswer>,
    { index, call }: { readonly index: number; readonly call: Arrived },
    parts: Parts,
  ): Promise<GatewayAnswer> {
    return result.then(
      (found) => (isAnswer(found) ? found : this.#from(index + 1, found, parts)),
      (error: unknown) => parts.failed(error, call),
    );
  }
}

function isAnswer(result: Arrived | GatewayAnswer): result is GatewayAnswer {
  return 'status' in result;
}

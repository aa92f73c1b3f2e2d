/** A value, or the promise of one where it has to be waited for. */
export type Awaitable<Value> = Value | Promise<Value>;

/**
 * Goes on with a value: immediately where it is there, so that a call for which nothing has to be waited for passes all
 * steps in one turn, without a promise.
 */
export function whenReady<Value, Next>(
  value: Awaitable<Value>,
  step: (value: Value) => Awaitable<Next>,
): Awaitable<Next> {
  return value instanceof Promise ? value.then(step) : step(value);
}

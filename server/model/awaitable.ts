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

/** Calls `act` and, if that throws or rejects, `recover`. Like `whenReady`, it waits for nothing that is there. */
export function whenFailed<Value, Other = never>(
  act: () => Awaitable<Value>,
  recover: (error: unknown) => Awaitable<Other>,
): Awaitable<Value | Other> {
  try {
    const value = act();
    return value instanceof Promise ? value.catch(recover) : value;
  } catch (error) {
    return recover(error);
  }
}

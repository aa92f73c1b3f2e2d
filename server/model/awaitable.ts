export type Awaitable<Value> = Value | Promise<Value>;

/**
 * Passes a value to `step`: immediately if it is not a promise, so that a call that waits for nothing runs all steps in one turn
 * of the event loop.
 */
export function whenReady<Value, Next>(
  value: Awaitable<Value>,
  step: (value: Value) => Awaitable<Next>,
): Awaitable<Next> {
  return value instanceof Promise ? value.then(step) : step(value);
}

/** Calls `act` and, if that throws or rejects, `recover`. Like `whenReady`, it waits only for promises. */
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

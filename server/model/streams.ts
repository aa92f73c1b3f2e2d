/** Passes items on. Calls `done` when they end, fail, or their reader stops. */
export async function* onEnd<Item>(
  items: AsyncIterable<Item>,
  done: () => void,
): AsyncGenerator<Item> {
  try {
    yield* items;
  } finally {
    done();
  }
}

/** Passes items on. Throws `translate(error)` instead of the error that they fail with. */
export async function* translateErrors<Item>(
  items: AsyncIterable<Item>,
  translate: (error: unknown) => unknown,
): AsyncGenerator<Item> {
  try {
    yield* items;
  } catch (error) {
    throw translate(error);
  }
}

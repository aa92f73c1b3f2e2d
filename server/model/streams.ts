/** The same items. Calls `over` at their end, when they break off, or when their reader stops. */
export async function* whenOver<Item>(
  items: AsyncIterable<Item>,
  over: () => void,
): AsyncGenerator<Item> {
  try {
    yield* items;
  } finally {
    over();
  }
}

/** The same items. If they break off, `translate` returns the error that the reader gets. */
export async function* withErrors<Item>(
  items: AsyncIterable<Item>,
  translate: (error: unknown) => unknown,
): AsyncGenerator<Item> {
  try {
    yield* items;
  } catch (error) {
    throw translate(error);
  }
}

interface Next<Item> {
  readonly from: AsyncIterator<Item>;
  readonly result: IteratorResult<Item>;
}

/**
 * What two sources give, as it comes, until `first` ends or one of them fails. `stop` must end both: it is called
 * when nobody reads on.
 */
export async function* joined<Item>(
  first: AsyncIterable<Item>,
  second: AsyncIterable<Item>,
  stop: () => void,
): AsyncGenerator<Item> {
  const [leading, other] = [first[Symbol.asyncIterator](), second[Symbol.asyncIterator]()];
  const next = async (from: AsyncIterator<Item>): Promise<Next<Item>> => ({
    from,
    result: await from.next(),
  });
  let ofLeading: Promise<Next<Item>> = next(leading);
  let ofOther: Promise<Next<Item>> | undefined = next(other);
  try {
    for (;;) {
      const racing: Promise<Next<Item>>[] = ofOther ? [ofLeading, ofOther] : [ofLeading];
      const { from, result } = await Promise.race(racing);
      if (from === leading) {
        if (result.done) return;
        ofLeading = next(leading);
      } else ofOther = result.done ? undefined : next(other);
      if (!result.done) yield result.value;
    }
  } finally {
    stop();
    // What they still had to say is for nobody.
    ofLeading.catch(() => undefined);
    ofOther?.catch(() => undefined);
  }
}

/** Somewhere to write lines. */
export interface Sink {
  write(text: string): unknown;
}

/**
 * Writes what came within one turn of the event loop in one go: under load a line a request would be
 * a system call a request. `flush` writes what is waiting, as a process that exits must.
 */
export function batchedSink(sink: Sink): Sink & { flush(): void } {
  let waiting = '';
  const flush = () => {
    const text = waiting;
    waiting = '';
    if (text !== '') sink.write(text);
  };
  return {
    write(text) {
      if (waiting === '') setImmediate(flush);
      waiting += text;
    },
    flush,
  };
}

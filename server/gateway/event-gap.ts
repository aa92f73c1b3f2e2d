const longestGap = 4;

/** Whether a stream of events stands between two of them, where alone something of ours can be said. */
export class EventGap {
  #tail = Buffer.from('\n\n');

  push(chunk: Uint8Array): void {
    this.#tail = Buffer.concat([this.#tail, chunk.subarray(-longestGap)]).subarray(-longestGap);
  }

  get isOpen(): boolean {
    return /(?:\n\n|\r\n\r\n)$/.test(this.#tail.toString('latin1'));
  }
}

const maxPieces = 256;

/**
 * The bytes of a body between the one who brings them and the one who takes them: at most `windowBytes`
 * at a time, as nobody may bring more than was allowed.
 */
export class ArrivingBody {
  #pieces: Buffer[] = [];
  #bytes = 0;
  #allowed: number;
  #taken = 0;
  readonly #windowBytes: number;

  constructor(windowBytes: number) {
    this.#windowBytes = windowBytes;
    this.#allowed = windowBytes;
  }

  /** How many bytes wait to be taken. */
  get bytes(): number {
    return this.#bytes;
  }

  /** `false` when that is more than was allowed; nothing is kept of it then. */
  push(piece: Buffer): boolean {
    if (piece.length > this.#allowed) return false;
    this.#allowed -= piece.length;
    if (piece.length === 0) return true;
    this.#bytes += piece.length;
    this.#pieces.push(piece);
    // Bytes that come one by one would cost a hundred times what they are.
    if (this.#pieces.length > maxPieces) this.#pieces = [Buffer.concat(this.#pieces)];
    return true;
  }

  /** All that has come, as one piece; `undefined` when that is nothing. */
  take(): Buffer | undefined {
    const [first] = this.#pieces;
    if (!first) return undefined;
    const all = this.#pieces.length === 1 ? first : Buffer.concat(this.#pieces);
    this.#pieces = [];
    this.#taken += all.length;
    this.#bytes = 0;
    return all;
  }

  /** How many bytes may be allowed anew for what was taken; 0 until it is worth a frame. */
  credit(): number {
    if (this.#taken < this.#windowBytes / 4) return 0;
    const credit = this.#taken;
    this.#taken = 0;
    this.#allowed += credit;
    return credit;
  }
}

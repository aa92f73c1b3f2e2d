const quote = 0x22;
const backslash = 0x5c;
const colon = 0x3a;
const comma = 0x2c;
/** Our own names and ids are never longer. */
const longestToken = 1024;

/**
 * Finds out whether a JSON object has a `result`, and the text of its `id`, from chunks as they pass. Reads only the outermost
 * level and stores nothing else, so that a message of any length can be streamed. Names are case-insensitive, because some
 * parsers take `Id` for `id`.
 */
export class TopLevelMembers {
  hasResult = false;
  /** The text of the first two members called `id`: more than one is an error. */
  readonly ids: string[] = [];
  /** Whether the end of the object was read. */
  isComplete = false;
  /** Whether the text is not a single JSON object. */
  isBroken = false;
  #depth = 0;
  #inString = false;
  #isEscaped = false;
  /** The part of the current top-level name or value that has arrived. */
  #token: number[] = [];
  #name: string | undefined;

  push(chunk: Uint8Array): void {
    for (const byte of chunk) this.#take(byte);
  }

  #take(byte: number): void {
    if (this.#inString) {
      if (this.#isEscaped) this.#isEscaped = false;
      else if (byte === backslash) this.#isEscaped = true;
      else if (byte === quote) this.#inString = false;
      if (this.#depth === 1) this.#keep(byte);
      return;
    }
    if (byte === 0x20 || byte === 0x09 || byte === 0x0a || byte === 0x0d) return;
    if (this.#depth === 0) {
      if (byte !== 0x7b || this.isComplete) this.isBroken = true;
      this.#depth = 1;
      return;
    }
    if (byte === quote) this.#inString = true;
    const opens = byte === 0x7b || byte === 0x5b;
    const closes = byte === 0x7d || byte === 0x5d;
    if (this.#depth === 1) {
      if (byte === colon && this.#name === undefined) return this.#endName();
      if (byte === comma || closes) this.#endValue();
      else this.#keep(byte);
    }
    if (opens) this.#depth += 1;
    if (closes) this.#depth -= 1;
    if (closes && this.#depth === 0) this.isComplete = true;
  }

  #keep(byte: number): void {
    if (this.#token.length <= longestToken) this.#token.push(byte);
  }

  #endName(): void {
    const text = this.#text();
    try {
      this.#name = String(JSON.parse(text)).toLowerCase();
      if (this.#name === 'result') this.hasResult = true;
    } catch {
      this.isBroken = true;
    }
  }

  #endValue(): void {
    const text = this.#text();
    if (this.#name === 'id' && this.ids.length < 2) this.ids.push(text);
    this.#name = undefined;
  }

  #text(): string {
    const text = Buffer.from(this.#token).toString('utf8');
    this.#token = [];
    return text;
  }
}

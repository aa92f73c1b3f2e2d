const pageBytes = 16 * 1024;

/**
 * Bytes that arrive in parts of any length. Parts of less than 16 KiB are copied together, because many small buffers take a
 * hundred times the memory of their bytes.
 */
export class GatheredBytes {
  #parts: Uint8Array[] = [];
  /** Takes short parts until it is full. */
  #page: Buffer | undefined;
  #filled = 0;
  #length = 0;

  get length(): number {
    return this.#length;
  }

  add(part: Uint8Array): void {
    this.#length += part.length;
    // Most bodies arrive in one part.
    if (this.#parts.length === 0) return void this.#parts.push(part);
    let rest = part;
    while (rest.length > 0) {
      if (!this.#page && rest.length >= pageBytes) return void this.#parts.push(rest);
      this.#page ??= Buffer.allocUnsafeSlow(pageBytes);
      const fits = rest.subarray(0, pageBytes - this.#filled);
      this.#page.set(fits, this.#filled);
      this.#filled += fits.length;
      rest = rest.subarray(fits.length);
      if (this.#filled < pageBytes) return;
      this.#parts.push(this.#page);
      this.#page = undefined;
      this.#filled = 0;
    }
  }

  whole(): Buffer {
    const parts = this.parts();
    const [only] = parts;
    if (!only || parts.length > 1) return Buffer.concat(parts);
    return Buffer.from(only.buffer, only.byteOffset, only.byteLength);
  }

  /** All bytes, in few buffers. */
  parts(): Uint8Array[] {
    return this.#page ? [...this.#parts, this.#page.subarray(0, this.#filled)] : this.#parts;
  }

  clear(): void {
    this.#parts = [];
    this.#page = undefined;
    this.#filled = this.#length = 0;
  }
}

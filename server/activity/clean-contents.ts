// Selects the parts of the arguments and the result of a call to store. It chooses the members of results by name, so that members
// that the protocol adds, such as `_meta` and task ids, are not stored. The work for a value depends on the limit, not on its length.
import { blankEnd, stringEnd } from 'latchkey-mcp/json';
import { redact } from 'latchkey-mcp/safe-text';
import type { ContentKind, KeptValue } from '#model/call-contents';

/** The members of a result or an error that are stored. MCP 2025-11-25 `CallToolResult` and others; JSON-RPC 2.0 §5.1 */
const ofResults: ReadonlySet<string> = new Set([
  'content',
  'structuredContent',
  'isError',
  'contents',
  'description',
  'messages',
  'code',
  'message',
  'data',
]);

/** Members that are never stored, wherever they are. MCP 2026-07-28 "Multi Round-Trip Requests" */
const neverStored: ReadonlySet<string> = new Set([
  '_meta',
  'requestState',
  'inputRequests',
  'inputResponses',
]);

const secretNames = [
  String.raw`(?:access|refresh|id|auth|bearer|session|api|subject|actor|security)?[_-]?token`,
  String.raw`pass(?:word|wd|phrase)|pwd`,
  String.raw`(?:client|api|app|shared)?[_-]?secret(?:[_-]?access)?(?:[_-]?key)?`,
  String.raw`(?:x[_-]?)?api[_-]?key|(?:private|access|encryption|signing)[_-]?key`,
  String.raw`(?:proxy[_-]?)?authorization|(?:set[_-]?)?cookie|(?:client[_-]?)?assertion|saml[_-]?response`,
].join('|');
/** Members whose values are secrets, whatever their form. */
const secretName = new RegExp(`^(?:${secretNames})$`, 'i');
/** Such members in a text that contains JSON, as the texts of many tools do. */
const secretInText = new RegExp(
  String.raw`("(?:${secretNames})"\s{0,20}:\s{0,20})"(?:[^"\\]|\\[\s\S])*(?:"|$)`,
  'gi',
);

const redacted = '[redacted]';
/** How many bytes of a text are read beyond the limit, to recognize a secret that the limit would cut. */
const margin = 8192;
const maxDepth = 64;
const longestName = 256;
/** From this length on, a text of nothing but base64 is an image, a sound or a file. */
const leastBase64 = 512;
const ellipsis = '…';

const [quote, comma, openBrace, closeBrace, openBracket, closeBracket] = [
  0x22, 0x2c, 0x7b, 0x7d, 0x5b, 0x5d,
];

/** A JSON text of at most `limitBytes`. */
export interface CleanedContents {
  readonly text: string;
  /** Whether the end of the value is missing. */
  readonly isCut: boolean;
}

/**
 * Returns the part of the arguments or the result of a call to store: valid JSON within the limit, without secrets and without state
 * that the protocol keeps between rounds; `undefined` if nothing is left. It also redacts `secrets`, which the call was sent with.
 */
export function cleanedContents(
  kind: ContentKind,
  value: KeptValue,
  limitBytes: number,
  secrets: readonly string[] = [],
): CleanedContents | undefined {
  const only = kind === 'result' ? ofResults : undefined;
  const cleaned = new Cleaner(value, limitBytes, secrets).clean(only);
  return cleaned.text === '' || cleaned.text === '{}' ? undefined : cleaned;
}

/** Reads the beginning of a JSON value, which was checked before, and writes the parts of it to store. */
class Cleaner {
  readonly #bytes: Buffer;
  readonly #isWhole: boolean;
  readonly #secrets: readonly string[];
  readonly #out: string[] = [];
  #at = 0;
  #left: number;

  constructor({ bytes, isWhole }: KeptValue, limitBytes: number, secrets: readonly string[]) {
    this.#bytes = bytes;
    this.#isWhole = isWhole;
    this.#left = limitBytes;
    this.#secrets = secrets;
  }

  clean(only: ReadonlySet<string> | undefined): CleanedContents {
    const isComplete = this.#value(0, only);
    return { text: this.#out.join(''), isCut: !isComplete };
  }

  /** The methods that write return `false` at the limit or at the end of the bytes. Open objects and arrays are then closed. */
  #value(depth: number, only?: ReadonlySet<string>): boolean {
    const first = this.#next();
    if (first === quote) return this.#string();
    if (first === openBrace || first === openBracket) return this.#within(first, depth, only);
    return this.#write(this.#word());
  }

  /** The next byte that is no blank. 0 at the end. */
  #next(): number {
    this.#at = blankEnd(this.#bytes, this.#at);
    return this.#bytes[this.#at] ?? 0;
  }

  #write(text: string | undefined): boolean {
    if (text === undefined) return false;
    const length = Buffer.byteLength(text);
    if (length > this.#left) return false;
    this.#left -= length;
    this.#out.push(text);
    return true;
  }

  /** A number, `true`, `false` or `null`; `undefined` if the word may continue after the end of the bytes. */
  #word(): string | undefined {
    const start = this.#at;
    while (wordBytes.has(this.#bytes[this.#at] ?? 0)) this.#at += 1;
    const isSure = this.#at < this.#bytes.length || this.#isWhole;
    return isSure && this.#at > start ? this.#bytes.toString('utf8', start, this.#at) : undefined;
  }

  #within(first: number, depth: number, only: ReadonlySet<string> | undefined): boolean {
    if (depth === maxDepth || this.#left < 2) return false;
    const isObject = first === openBrace;
    this.#left -= 2;
    this.#out.push(isObject ? '{' : '[');
    this.#at += 1;
    const isComplete = isObject ? this.#members(depth, only) : this.#elements(depth);
    this.#out.push(isObject ? '}' : ']');
    return isComplete;
  }

  #members(depth: number, only: ReadonlySet<string> | undefined): boolean {
    let isFirst = true;
    for (;;) {
      const next = this.#next();
      if (next === closeBrace) return this.#passed();
      if (next === comma) this.#at += 1;
      if (this.#next() !== quote) return false;
      const name = this.#text(longestName);
      if (name.isCut) return false;
      this.#at = blankEnd(this.#bytes, this.#at) + 1;
      const isStored = !neverStored.has(name.text) && (only?.has(name.text) ?? true);
      if (!isStored) {
        if (!this.#skip()) return false;
        continue;
      }
      const [before, left] = [this.#out.length, this.#left];
      if (
        !this.#write(
          `${isFirst ? '' : ','}${JSON.stringify(withoutSecrets(name.text, this.#secrets))}:`,
        )
      )
        return false;
      const isDone = secretName.test(name.text) ? this.#secret() : this.#value(depth + 1);
      if (!isDone) {
        // A name without a value is no JSON.
        if (this.#out.length === before + 1) {
          this.#out.length = before;
          this.#left = left;
        }
        return false;
      }
      isFirst = false;
    }
  }

  #elements(depth: number): boolean {
    let isFirst = true;
    for (;;) {
      const next = this.#next();
      if (next === closeBracket) return this.#passed();
      if (next === comma) this.#at += 1;
      const [before, left] = [this.#out.length, this.#left];
      if (!isFirst && !this.#write(',')) return false;
      if (!this.#value(depth + 1)) {
        if (!isFirst && this.#out.length === before + 1) {
          this.#out.length = before;
          this.#left = left;
        }
        return false;
      }
      isFirst = false;
    }
  }

  #passed(): true {
    this.#at += 1;
    return true;
  }

  /** Writes `true`, `false` and `null`, which reveal nothing, and redacts any other value. */
  #secret(): boolean {
    const isWord = 'tfn'.includes(String.fromCharCode(this.#next()));
    return isWord
      ? this.#write(this.#word())
      : this.#skip() && this.#write(JSON.stringify(redacted));
  }

  #string(): boolean {
    const { text, isCut, isOpen, length } = this.#text(this.#left + margin);
    if (length >= leastBase64 && isBase64(text)) {
      const note = isOpen ? '[base64]' : `[base64, ${length} characters]`;
      return this.#write(JSON.stringify(note)) && !isOpen;
    }
    const clean = withoutSecrets(text, this.#secrets, isCut);
    if (!isCut && this.#write(JSON.stringify(clean))) return true;
    this.#write(beginning(clean, this.#left));
    return false;
  }

  /**
   * Reads the string that begins here, and returns its decoded text and the number of its bytes. If it is longer than `most` bytes, or
   * continues after the end of the bytes (`isOpen`), the text is only its beginning.
   */
  #text(most: number): { text: string; isCut: boolean; isOpen: boolean; length: number } {
    const start = this.#at + 1;
    const end = stringEnd(this.#bytes, this.#at, false);
    const isOpen = end < 0;
    const last = isOpen ? this.#bytes.length : end - 1;
    this.#at = isOpen ? this.#bytes.length : end;
    const isCut = isOpen || last - start > most;
    const raw = this.#bytes.toString('utf8', start, Math.min(last, start + most));
    const whole = isCut ? withoutBrokenEnd(raw) : raw;
    return { text: decoded(whole), isCut, isOpen, length: last - start };
  }

  /** Passes over a value. */
  #skip(): boolean {
    let depth = 0;
    for (;;) {
      const next = this.#next();
      if (next === 0) return false;
      if (next === quote) {
        const end = stringEnd(this.#bytes, this.#at, false);
        if (end < 0) return false;
        this.#at = end;
      } else if (next === openBrace || next === openBracket) {
        depth += 1;
        this.#at += 1;
      } else if (next === closeBrace || next === closeBracket) {
        depth -= 1;
        this.#at += 1;
      } else if (wordBytes.has(next)) {
        if (this.#word() === undefined) return false;
      } else {
        // A comma or a colon.
        this.#at += 1;
      }
      if (depth === 0) return true;
    }
  }
}

/** The bytes of numbers, `true`, `false` and `null`. RFC 8259 §3, §6 */
const wordBytes: ReadonlySet<number> = new Set(Buffer.from('+-.0123456789Eaeflnrstu'));

/** Removes an incomplete character or escape, which cutting may leave at the end of a string. RFC 3629 §3; RFC 8259 §7 */
function withoutBrokenEnd(raw: string): string {
  const text = raw.slice(0, -3) + raw.slice(-3).replace(/\uFFFD+$/, '');
  const escape = /\\(?:u[\da-fA-F]{0,3})?$/.exec(text.slice(-5))?.[0];
  if (escape === undefined) return text;
  const before = text.slice(0, -escape.length);
  let slashes = 0;
  while (before.at(-1 - slashes) === '\\') slashes += 1;
  // After an odd number, the backslash is itself escaped.
  return slashes % 2 === 0 ? before : text;
}

/** No known secret is shorter. */
const shortestSecret = 8;

function withoutSecrets(text: string, secrets: readonly string[], isCut = false): string {
  const shown = secrets.reduce(
    (hidden, secret) => withoutBeginning(hidden.replaceAll(secret, redacted), isCut ? secret : ''),
    text,
  );
  if (shown.length < shortestSecret) return shown;
  const clean = redact(shown);
  return clean.includes('"') ? clean.replaceAll(secretInText, `$1"${redacted}"`) : clean;
}

/** Redacts the end of a text if it may be the beginning of this secret. */
function withoutBeginning(text: string, secret: string): string {
  for (let length = secret.length - 1; length >= shownCharacters; length -= 1) {
    if (text.endsWith(secret.slice(0, length))) return `${text.slice(0, -length)}${redacted}`;
  }
  return text;
}

/** A shorter beginning of a secret reveals nothing, and is not redacted. */
const shownCharacters = 4;

function decoded(raw: string): string {
  return raw.includes('\\') ? String(JSON.parse(`"${raw}"`)) : raw;
}

function isBase64(text: string): boolean {
  return /^[\w+/-]+={0,2}$/.test(text) && /\d/.test(text) && /[A-Z]/.test(text);
}

/** The longest beginning of a text that is, as JSON with an ellipsis, within the limit; `undefined` if none is. */
function beginning(text: string, limitBytes: number): string | undefined {
  const json = (length: number) => JSON.stringify(`${text.slice(0, length)}${ellipsis}`);
  let [fits, exceeds] = [-1, Math.min(text.length, limitBytes) + 1];
  while (exceeds - fits > 1) {
    const middle = (fits + exceeds) >> 1;
    if (Buffer.byteLength(json(middle)) <= limitBytes) fits = middle;
    else exceeds = middle;
  }
  if (fits < 0) return undefined;
  // Does not cut between the halves of a surrogate pair.
  const isSplit = /[\uD800-\uDBFF]/.test(text.charAt(fits - 1));
  return json(isSplit ? fits - 1 : fits);
}

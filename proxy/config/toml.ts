import { memberOf } from 'latchkey-mcp/json-value';
// Reads TOML 1.0, with the position of each statement. Numbers and times are not validated, because nothing uses them.

/** The text is not TOML that this module understands; `offset` is where. */
export class TomlError extends Error {
  override readonly name = 'TomlError';
  readonly offset: number;

  constructor(problem: string, offset: number) {
    super(problem);
    this.offset = offset;
  }
}

/** A number or a time, as it is written. */
export class Literal {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

type Table = Map<string, unknown>;

/** A header, or a key with its value. */
export type Statement = {
  kind: 'header' | 'pair';
  /** From the root, also for a key in a table. */
  path: readonly string[];
  /** Its lines: from the indentation to the end of the last line, with its line break. */
  start: number;
  end: number;
};

/** A string or a comment. Only a string has a `value`. */
export type Token = { start: number; end: number; value?: string };

export type TomlDocument = { root: Table; statements: Statement[]; tokens: Token[] };

/**
 * Parses TOML to a value of the types that JSON has. Numbers and times are {@link Literal}s, which can only be written again.
 *
 * @throws {TomlError}
 */
export function parseToml(text: string): unknown {
  return plain(readToml(text).root);
}

function plain(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(plain);
  if (!(value instanceof Map)) return value;
  // Also correct for a key `__proto__`.
  return Object.fromEntries([...value].map(([key, member]) => [key, plain(member)]));
}

const bareKey = /[A-Za-z0-9_-]+/y;
const blank = /[ \t]*/y;
const blankLines = /[ \t\r\n]*/y;
const comment = /#[^\n]*/y;
/** A backslash at the end of a line of a multi-line string hides the line break. */
const hiddenBreak = /\\[ \t]*\r?\n[ \t\r\n]*/y;
const literalValue = /[A-Za-z0-9+.:_-]+(?: \d\d:[\d:.Zz+-]+)?/y;
const escaped: Readonly<Record<string, string>> = {
  b: '\b',
  t: '\t',
  n: '\n',
  f: '\f',
  r: '\r',
  '"': '"',
  '\\': '\\',
};

/** Reads a whole document. */
export function readToml(text: string): TomlDocument {
  return new TomlReader(text).read();
}

/** More levels than any settings need, and few enough for the stack. */
const maxDepth = 100;

/** Reads a text. Its state is the position up to which it has read, and what it found. */
class TomlReader {
  readonly #text: string;
  readonly #root: Table = new Map();
  readonly #statements: Statement[] = [];
  readonly #tokens: Token[] = [];
  /** Tables and arrays that were written as values. Headers and dotted keys may not extend them. */
  readonly #closed = new Set<unknown>();
  /** Tables that have a header. */
  readonly #headers = new Set<unknown>();
  #at: number;
  #depth = 0;

  constructor(text: string) {
    this.#text = text;
    this.#at = text.startsWith('\u{FEFF}') ? 1 : 0;
  }

  read(): TomlDocument {
    const first = this.#at;
    const text = this.#text;
    let table = this.#root;
    let prefix: readonly string[] = [];
    for (this.#skipLines(); this.#at < text.length; this.#skipLines()) {
      const start = Math.max(first, text.lastIndexOf('\n', this.#at - 1) + 1);
      const isHeader = text[this.#at] === '[';
      if (isHeader) {
        const isArray = text.startsWith('[[', this.#at);
        this.#expect(isArray ? '[[' : '[');
        prefix = this.#key();
        this.#expect(isArray ? ']]' : ']');
        table = isArray ? this.#appended(prefix) : this.#opened(prefix);
      }
      const path = isHeader ? prefix : [...prefix, ...this.#pair(table)];
      this.#endLine();
      const kind = isHeader ? 'header' : 'pair';
      this.#statements.push({ kind, path, start, end: this.#at });
    }
    return { root: this.#root, statements: this.#statements, tokens: this.#tokens };
  }

  #fail(problem: string): never {
    throw new TomlError(problem, this.#at);
  }

  #take(pattern: RegExp): string {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#text)?.[0] ?? '';
    this.#at += found.length;
    return found;
  }

  #takeCharacter(): string {
    const character = this.#text[this.#at] ?? '';
    this.#at += 1;
    return character;
  }

  #expect(word: string): void {
    if (!this.#text.startsWith(word, this.#at)) this.#fail(`expected ${word}`);
    this.#at += word.length;
  }

  #takeComment(): void {
    const start = this.#at;
    if (this.#take(comment) !== '') this.#tokens.push({ start, end: this.#at });
  }

  #skipLines(): void {
    for (;;) {
      this.#take(blankLines);
      if (this.#text[this.#at] !== '#') return;
      this.#takeComment();
    }
  }

  #endLine(): void {
    this.#take(blank);
    this.#takeComment();
    if (this.#take(/\r?\n/y) === '' && this.#at < this.#text.length)
      this.#fail('expected the end of the line');
  }

  /** A key with its parts. Quoted parts are strings of one line. */
  #key(): string[] {
    const path: string[] = [];
    do {
      if (path.length > 0) this.#at += 1;
      this.#take(blank);
      const isQuoted = /["']/.test(this.#text[this.#at] ?? '');
      const name = isQuoted ? this.#string(false) : this.#take(bareKey);
      if (!isQuoted && name === '') this.#fail('expected a key');
      path.push(name);
      this.#take(blank);
    } while (this.#text[this.#at] === '.');
    return path;
  }

  #string(mayBeLong: boolean): string {
    const start = this.#at;
    const quote = this.#text[start] ?? '';
    const long = quote.repeat(3);
    const isLong = mayBeLong && this.#text.startsWith(long, start);
    const value = isLong ? this.#longString(long) : this.#shortString(quote);
    this.#tokens.push({ start, end: this.#at, value });
    return value;
  }

  #shortString(quote: string): string {
    const text = this.#text;
    let value = '';
    for (this.#at += 1; text[this.#at] !== quote;) {
      if (this.#at >= text.length || text[this.#at] === '\n') this.#fail('the string has no end');
      const isEscape = text[this.#at] === '\\' && quote === '"';
      value += isEscape ? this.#escape() : this.#takeCharacter();
    }
    this.#at += 1;
    return value;
  }

  #longString(long: string): string {
    const text = this.#text;
    this.#at += 3;
    this.#take(/\r?\n/y);
    let value = '';
    // One or two quotes may precede the three that end it.
    while (!text.startsWith(long, this.#at) || text.startsWith(long, this.#at + 1)) {
      if (this.#at >= text.length) this.#fail('the string has no end');
      const isEscape = text[this.#at] === '\\' && long === '"""';
      if (!isEscape) value += this.#takeCharacter();
      else if (this.#take(hiddenBreak) === '') value += this.#escape();
    }
    this.#at += 3;
    return value;
  }

  #escape(): string {
    const [whole = '', hex4, hex8] =
      /^\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|.)/.exec(
        this.#text.slice(this.#at, this.#at + 10),
      ) ?? [];
    const code = hex4 ?? hex8;
    const known = escaped[whole[1] ?? ''];
    const point = code === undefined ? Number.NaN : Number.parseInt(code, 16);
    if (known === undefined && !(point <= 0x10ffff)) this.#fail('the string has an invalid escape');
    this.#at += whole.length;
    return known ?? String.fromCodePoint(point);
  }

  #value(): unknown {
    const first = this.#text[this.#at];
    if (first === '"' || first === "'") return this.#string(true);
    if (first === '[' || first === '{') {
      if (this.#depth >= maxDepth) this.#fail('the value is nested too deeply');
      this.#depth += 1;
      const found = first === '[' ? this.#array() : this.#inlineTable();
      this.#depth -= 1;
      return found;
    }
    const word = this.#take(literalValue);
    if (word === '') this.#fail('expected a value');
    return word === 'true' || word === 'false' ? word === 'true' : new Literal(word);
  }

  #array(): unknown[] {
    const found: unknown[] = [];
    this.#closed.add(found);
    this.#members('[', ']', () => void found.push(this.#value()));
    return found;
  }

  #inlineTable(): Table {
    const found: Table = new Map();
    this.#members('{', '}', () => void this.#pair(found));
    this.#close(found);
    return found;
  }

  #members(open: string, end: string, readMember: () => void): void {
    this.#expect(open);
    for (this.#skipLines(); this.#text[this.#at] !== end; this.#skipLines()) {
      readMember();
      this.#skipLines();
      if (this.#text[this.#at] !== end) this.#expect(',');
    }
    this.#expect(end);
  }

  #close(table: unknown): void {
    this.#closed.add(table);
    if (table instanceof Map) for (const member of table.values()) this.#close(member);
  }

  /** Reads a key and its value. Returns the key. */
  #pair(table: Table): string[] {
    const path = this.#key();
    this.#expect('=');
    this.#take(blank);
    let within = table;
    for (const name of path.slice(0, -1)) {
      const next: unknown = within.get(name) ?? new Map();
      if (!(next instanceof Map) || this.#closed.has(next) || this.#headers.has(next))
        return this.#fail(`contains "${name}" twice`);
      within.set(name, next);
      within = next;
    }
    const last = path.at(-1) ?? '';
    if (within.has(last)) this.#fail(`contains "${last}" twice`);
    within.set(last, this.#value());
    return path;
  }

  /** The table of a header. Creates the tables on the path. */
  #opened(path: readonly string[]): Table {
    const [within, name] = this.#parentOf(path);
    const found: unknown = within.get(name) ?? new Map();
    if (!(found instanceof Map) || this.#closed.has(found) || this.#headers.has(found))
      return this.#fail(`contains "${name}" twice`);
    within.set(name, found);
    this.#headers.add(found);
    return found;
  }

  /** Appends a table to an array of tables. */
  #appended(path: readonly string[]): Table {
    const [within, name] = this.#parentOf(path);
    const found: unknown = within.get(name) ?? [];
    if (!Array.isArray(found) || this.#closed.has(found))
      return this.#fail(`contains "${name}" twice`);
    const table: Table = new Map();
    within.set(name, [...found, table]);
    return table;
  }

  #parentOf(path: readonly string[]): [Table, name: string] {
    let within = this.#root;
    for (const name of path.slice(0, -1)) {
      const found: unknown = within.get(name) ?? new Map();
      const next: unknown = Array.isArray(found) ? found.at(-1) : found;
      if (!(next instanceof Map) || this.#closed.has(found) || this.#closed.has(next))
        return this.#fail(`contains "${name}" twice`);
      if (!within.has(name)) within.set(name, next);
      within = next;
    }
    return [within, path.at(-1) ?? ''];
  }
}

/** The value at `path` in a file's TOML; `undefined` if there is none, or the text is not valid TOML. */
export function tomlMemberAt(bytes: Buffer | undefined, path: readonly string[]): unknown {
  try {
    let value: unknown = parseToml(bytes?.toString() ?? '');
    for (const name of path) value = memberOf(value, name);
    return value;
  } catch (error) {
    if (error instanceof TomlError) return undefined;
    throw error;
  }
}

/*
 * Compares resource URIs with the URI templates of rules. An attacker may choose both, so the cost is bounded: one comparison takes time
 * proportional to the length of the URI times that of the template, and all comparisons of one URI share a limited number of steps.
 */

/** A longer URI matches no rule that allows access, and every rule that denies it. URIs that people write rules about are shorter. */
const longestUri = 8192;
/** The longest template that can allow access, and the longest URI that it can match. Together they bound the cost of a comparison. */
const longestOpening = 512;
const longestOpened = 2048;

/** A few hundredths of a second of work. Without a limit, a member's URI and an upstream's thousands of templates could block the process. */
const mostSteps = 1_000_000;
/** The steps for a whole list, which may have ten thousand URIs. */
const mostListSteps = 5 * mostSteps;

/** A budget of steps that several comparisons share. */
export class Steps {
  #left: number;

  constructor(left = mostSteps) {
    this.#left = left;
  }

  /** A budget for all URIs of a list together. */
  static ofList(): Steps {
    return new Steps(mostListSteps);
  }

  /** Uses up steps; `false` if too few are left. An unfinished comparison never allows access, and always denies it. */
  take(count: number): boolean {
    this.#left -= count;
    return this.#left >= 0;
  }
}

/** A URI as it was sent, and as upstreams may interpret it. */
export class ResourceUri {
  readonly text: string;
  readonly steps: Steps;
  #forms: readonly string[] | undefined;
  #formsOfFolder: readonly string[] | undefined;
  #decoded: string | undefined;
  #isRead = false;
  #isPlain: boolean | undefined;
  #hidesSeparators: boolean | undefined;

  constructor(text: string, steps = new Steps()) {
    this.text = text;
    this.steps = steps;
  }

  /**
   * The ways in which upstreams may normalize the URI. Forms serve only for comparison with other forms: they ignore case,
   * percent-encoding, compatible characters, dot segments, empty segments, a trailing slash and the default port, and exist with and
   * without the query and the fragment. Empty if the URI is too long, or encoded too many times, to tell.
   *
   * RFC 3986 §6.2; WHATWG URL; UAX #15
   */
  get forms(): readonly string[] {
    this.#forms ??= formsOf(this.text);
    return this.#forms;
  }

  /** Each form without and with a trailing slash, because a template distinguishes the two. */
  get formsOfFolder(): readonly string[] {
    this.#formsOfFolder ??= this.forms.flatMap((form) => [form, `${form}/`]);
    return this.#formsOfFolder;
  }

  /** Whether it has no control characters, backslashes or dot segments, even encoded ones, which upstreams interpret differently. */
  get isPlain(): boolean {
    this.#isPlain ??= isPlain(this.#read());
    return this.#isPlain;
  }

  /** Whether it contains an encoded separator, or a character that Unicode normalization turns into one. */
  get hidesSeparators(): boolean {
    this.#hidesSeparators ??= separatorsIn(this.#read() ?? '') !== separatorsIn(this.text);
    return this.#hidesSeparators;
  }

  #read(): string | undefined {
    if (!this.#isRead) {
      this.#decoded = this.text.length > longestUri ? undefined : settled(this.text);
      this.#isRead = true;
    }
    return this.#decoded;
  }
}

function isPlain(decoded: string | undefined): boolean {
  if (decoded === undefined || /[\p{Cc}\\]/u.test(decoded)) return false;
  return !decoded.split(/[/?#=]/).some((segment) => segment === '.' || segment === '..');
}

function separatorsIn(text: string): number {
  let count = 0;
  for (const character of text) if ('/?#\\'.includes(character)) count += 1;
  return count;
}

function formsOf(text: string): readonly string[] {
  if (text.length > longestUri) return [];
  const spelled = [text, parsed(text)].filter((one) => one !== undefined);
  const forms = new Set<string>();
  for (const one of spelled) {
    const read = settled(one);
    if (read === undefined) return [];
    const plain = read
      .replaceAll(/\p{Cc}/gu, '')
      .replaceAll('\\', '/')
      .trim();
    const [withoutFragment = ''] = plain.split('#', 1);
    const [withoutQuery = ''] = withoutFragment.split('?', 1);
    for (const part of [plain, withoutFragment, withoutQuery]) {
      forms.add(withoutDots(part, true));
      if (part.includes('/.')) forms.add(withoutDots(part, false));
    }
  }
  return [...forms];
}

/** The URI as the WHATWG URL parser writes it, if that differs. The parser also removes default ports and decodes host names. */
function parsed(text: string): string | undefined {
  const url = URL.parse(text);
  if (!url) return undefined;
  // Over HTTP, credentials do not change which resource is requested. In other schemes, they may be part of its name.
  if (/^https?:$/.test(url.protocol)) {
    url.username = '';
    url.password = '';
  }
  return url.href === text ? undefined : url.href;
}

const mostRounds = 4;

/** Decodes, normalizes and lower-cases a text until nothing changes any more; `undefined` if that takes too many rounds. */
function settled(text: string): string | undefined {
  let read = text;
  for (let round = 0; round < mostRounds; round += 1) {
    const next = percentDecoded(read).normalize('NFKC').toLowerCase().normalize('NFKC');
    if (next === read) return read;
    read = next;
  }
  return undefined;
}

const percent = 0x25;

/** Decodes percent-encoding, including nested encoding, in one pass. */
function percentDecoded(text: string): string {
  if (!text.includes('%')) return text;
  const bytes = Buffer.from(text);
  let length = 0;
  for (const byte of bytes) {
    bytes[length] = byte;
    length += 1;
    // The decoded byte may complete a code that began before it.
    while (length >= 3 && bytes[length - 3] === percent) {
      const code = 16 * digit(bytes[length - 2] ?? 0) + digit(bytes[length - 1] ?? 0);
      if (Number.isNaN(code)) break;
      length -= 2;
      bytes[length - 1] = code;
    }
  }
  return bytes.toString('utf8', 0, length);
}

function digit(byte: number): number {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30;
  const letter = byte | 0x20;
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : NaN;
}

/** Removes dot segments, empty segments and a trailing slash. With `hasAuthority`, the text after `//` is a host, which `..` does not remove. */
function withoutDots(uri: string, hasAuthority: boolean): string {
  const at = uri.indexOf(':');
  const isScheme = at > 0 && /^[a-z][a-z\d+.-]*$/.test(uri.slice(0, at));
  const scheme = isScheme ? uri.slice(0, at) : '';
  const rest = isScheme ? uri.slice(at + 1) : uri;
  const end = rest.search(/[?#]/);
  const path = end < 0 ? rest : rest.slice(0, end);
  const segments = path.split('/');
  const kept: string[] = [];
  const authority = hasAuthority && path.startsWith('//') ? (segments.splice(0, 3)[2] ?? '') : '';
  for (const segment of segments) {
    if (segment === '..') kept.pop();
    else if (segment !== '' && segment !== '.') kept.push(segment);
  }
  if (authority !== '' && !(scheme === 'file' && authority === 'localhost'))
    kept.unshift(authority);
  const query = end < 0 ? '' : rest.slice(end);
  return `${scheme}:${kept.map((segment) => `/${segment}`).join('')}${query === '?' || query === '#' ? '' : query}`;
}

/** A private-use character that replaces each expression in the forms of a template. A URI that contains it gains nothing. */
const anything = '\ue000';

/** A URI template. RFC 6570 */
export class UriTemplate {
  readonly text: string;
  readonly #parts: readonly TemplatePart[];
  #raw: readonly string[] | undefined;
  /** The text between the expressions, for each form. */
  #pieces: (readonly string[])[] | undefined;
  #machine: Machine | undefined;

  constructor(text: string) {
    this.text = text;
    this.#parts = partsOf(text);
  }

  /** Whether some upstream may interpret the URI as a match, with any text in place of each expression. For rules that deny access. */
  matchesWidely(uri: ResourceUri): boolean {
    if (!this.#pieces && !uri.steps.take(this.text.length)) return true;
    const pieces = (this.#pieces ??= this.#piecesOfForms());
    // How upstreams interpret such a URI or template is unknown, so it counts as a match.
    if (uri.forms.length === 0 || pieces.length === 0) return true;
    this.#raw ??= this.#withAnything().split(anything);
    if (mayBeGlob(this.#raw, uri.text, uri)) return true;
    return pieces.some((of) => uri.formsOfFolder.some((form) => mayBeGlob(of, form, uri)));
  }

  /**
   * Whether every upstream interprets the URI as a match: each expression stands only for what it can expand to, without dot segments,
   * and without separators unless its operator allows them. For rules that allow access.
   */
  matchesNarrowly(uri: ResourceUri): boolean {
    const { text } = uri;
    const first = this.#parts[0];
    const last = this.#parts.at(-1);
    if (first?.type === 'literal' && !text.startsWith(first.text)) return false;
    if (last?.type === 'literal' && !text.endsWith(last.text)) return false;
    if (this.text.length > longestOpening || text.length > longestOpened) return false;
    if (!uri.isPlain) return false;
    if (!uri.steps.take(this.#machine ? 0 : this.text.length)) return false;
    const machine = (this.#machine ??= machineOf(this.#parts.flatMap(nodesOf)));
    const isReserved = this.#parts.every(
      (part) => part.type === 'literal' || part.operator === '+' || part.operator === '#',
    );
    return (isReserved || !uri.hidesSeparators) && accepts(machine, uri);
  }

  #piecesOfForms(): (readonly string[])[] {
    const forms = formsOf(this.#withAnything()).map((form) => form.split(anything));
    if (this.#parts[0]?.type === 'literal') return forms;
    // The template begins with an expression, so a URI with any scheme may match.
    return forms.map((pieces) => pieces.with(0, ''));
  }

  #withAnything(): string {
    return this.#parts.map((part) => (part.type === 'literal' ? part.text : anything)).join('');
  }
}

type TemplatePart =
  | { readonly type: 'literal'; readonly text: string }
  /** The operator is `invalid` for an expression that only some upstreams may understand. */
  | { readonly type: 'expression'; readonly operator: Operator | 'invalid' };

const operators = ['', '+', '#', '.', '/', ';', '?', '&'] as const;
type Operator = (typeof operators)[number];

function partsOf(template: string): readonly TemplatePart[] {
  const parts: TemplatePart[] = [];
  const literal = (text: string) => text !== '' && parts.push({ type: 'literal', text });
  let at = 0;
  for (let open = template.indexOf('{'); open >= 0; open = template.indexOf('{', at)) {
    literal(template.slice(at, open));
    const close = template.indexOf('}', open);
    const operator = close < 0 ? 'invalid' : operatorOf(template.slice(open + 1, close));
    parts.push({ type: 'expression', operator });
    at = close < 0 ? template.length : close + 1;
  }
  literal(template.slice(at));
  return parts;
}

const variable = /^[\w.%]+(?:\*|:\d{1,4})?$/;

function operatorOf(expression: string): Operator | 'invalid' {
  const operator = operators.find((each) => each !== '' && expression.startsWith(each)) ?? '';
  const variables = expression.slice(operator.length).split(',');
  return variables.every((each) => variable.test(each)) ? operator : 'invalid';
}

/** Whether `text`, a form of `uri`, consists of the pieces in order, with any text between them. `true` if no steps are left to tell. */
function mayBeGlob(pieces: readonly string[], text: string, uri: ResourceUri): boolean {
  const first = pieces[0] ?? '';
  if (pieces.length === 1) return text === first;
  const last = pieces.at(-1) ?? '';
  if (!text.startsWith(first) || !text.endsWith(last)) return false;
  if (!uri.steps.take(pieces.length)) return true;
  const end = text.length - last.length;
  let at = first.length;
  for (let index = 1; index < pieces.length - 1; index += 1) {
    const piece = pieces[index] ?? '';
    const found = text.indexOf(piece, at);
    if (found < 0) return false;
    at = found + piece.length;
  }
  return at <= end;
}

/** Sets of characters that an expression can expand to. */
const classes = ['any', 'query', 'path', 'other', 'none'] as const;
type Class = (typeof classes)[number];

/** A part of a template: it matches one character, or one or more characters of a class. */
interface Node {
  readonly takes: number | Class;
  /** How many nodes, from this one on, may be left out. */
  readonly skips: number;
}

function nodesOf(part: TemplatePart): readonly Node[] {
  if (part.type === 'literal') {
    const { text } = part;
    return Array.from({ length: text.length }, (_, at) => ({
      takes: text.charCodeAt(at),
      skips: 0,
    }));
  }
  const { operator } = part;
  switch (operator) {
    case '':
      return [{ takes: 'other', skips: 0 }];
    case '+':
      return [{ takes: 'any', skips: 0 }];
    case '#':
      return led(operator, 'any');
    case '.':
    case ';':
      return led(operator, 'other');
    case '/':
      return led(operator, 'path');
    case '?':
    case '&':
      return led(operator, 'query');
    case 'invalid':
      return [{ takes: 'none', skips: 0 }];
  }
}

/** Nodes that match nothing, or the operator's character followed by characters of a class. */
function led(by: Operator, takes: Class): readonly Node[] {
  return [
    { takes: by.charCodeAt(0), skips: 2 },
    { takes, skips: 1 },
  ];
}

const [slash, questionMark, numberSign, backslash] = [0x2f, 0x3f, 0x23, 0x5c];

/** The classes that a character belongs to, as a bit set in the order of `classes`. */
function classesOf(code: number): number {
  switch (code) {
    case numberSign:
    case backslash:
      return 0b0001;
    case questionMark:
      return 0b0011;
    case slash:
      return 0b0111;
    default:
      return 0b1111;
  }
}

/** Nodes as numbers, which take half the time to compare. */
interface Machine {
  /** The code of a character, or a negative number: that of a class, counted from -1. */
  readonly takes: Int32Array;
  readonly skips: Uint8Array;
}

function machineOf(nodes: readonly Node[]): Machine {
  const codes = nodes.map(({ takes }) =>
    typeof takes === 'number' ? takes : -1 - classes.indexOf(takes),
  );
  return { takes: Int32Array.from(codes), skips: Uint8Array.from(nodes, ({ skips }) => skips) };
}

/**
 * Whether a template's nodes match the whole text of a URI; `false` if no steps are left to tell. Follows all possibilities at once, so that
 * no URI causes backtracking.
 */
function accepts({ takes, skips }: Machine, { text, steps }: ResourceUri): boolean {
  const { length } = takes;
  let states = new Uint8Array(length + 1);
  let next = new Uint8Array(length + 1);
  states[0] = 1;
  // All nodes that may take the next character are among these.
  let [low, high] = [0, 0];
  for (let at = 0; ; at += 1) {
    for (let index = low; index <= high; index += 1) {
      const skipped = skips[index] ?? 0;
      if (skipped === 0 || states[index] === 0) continue;
      states[index + skipped] = 1;
      high = Math.max(high, index + skipped);
    }
    if (at === text.length) return states[length] === 1;
    if (!steps.take(high - low + 1)) return false;
    const code = text.charCodeAt(at);
    const among = classesOf(code);
    let [nextLow, nextHigh] = [length, -1];
    for (let index = low; index <= high; index += 1) {
      const wanted = takes[index];
      if (states[index] === 0 || wanted === undefined) continue;
      const isAgain = wanted < 0 && ((among >> (-1 - wanted)) & 1) === 1;
      if (!isAgain && wanted !== code) continue;
      if (isAgain) next[index] = 1;
      next[index + 1] = 1;
      if (nextHigh < 0) nextLow = isAgain ? index : index + 1;
      nextHigh = index + 1;
    }
    if (nextHigh < 0) return false;
    states.fill(0, low, high + 1);
    [states, next] = [next, states];
    [low, high] = [nextLow, nextHigh];
  }
}

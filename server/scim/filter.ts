import { isObject } from 'latchkey-mcp/json-value';
import { attributeOf, type Attribute, type ResourceKind, subAttributeOf } from './schemas.ts';
import { badRequest, type ScimError } from './scim-error.ts';

/*
 * Filters and paths: a parser by recursive descent, and the evaluation of what it returns. Everything that can grow is bounded, because
 * a filter comes from outside. RFC 7644 §3.4.2.2 and §3.5.2, figure 1 and 7
 */

const mostCharacters = 2000;
const mostDepth = 8;
const mostConditions = 50;

const operators = ['eq', 'ne', 'co', 'sw', 'ew', 'gt', 'ge', 'lt', 'le'] as const;
type Operator = (typeof operators)[number];
type Literal = string | number | boolean | null;

/** An attribute or, with `sub`, one of its parts. The prefix of a core schema is removed; a name with another prefix matches no attribute. */
export interface AttributePath {
  readonly attribute: string;
  readonly sub: string | undefined;
}

export type Filter =
  | { readonly type: 'and' | 'or'; readonly parts: readonly Filter[] }
  | { readonly type: 'not'; readonly of: Filter }
  | {
      readonly type: 'compare';
      readonly path: AttributePath;
      readonly operator: Operator;
      readonly value: Literal;
    }
  | { readonly type: 'present'; readonly path: AttributePath }
  /** At least one value of a multi-valued attribute matches `of`. The paths in `of` name parts of that value. */
  | { readonly type: 'some'; readonly path: AttributePath; readonly of: Filter };

/** The target of a PATCH operation. RFC 7644 §3.5.2, figure 7 */
export interface PatchPath extends AttributePath {
  /** Selects values of a multi-valued attribute. */
  readonly filter: Filter | undefined;
}

/** @throws {ScimError} 400 `invalidFilter` */
export function parseFilter(text: string): Filter {
  const parser = new Parser(text, (detail) => badRequest('invalidFilter', detail));
  const filter = parser.alternatives(0);
  parser.end();
  return filter;
}

/** @throws {ScimError} 400 `invalidPath` */
export function parsePath(text: string): PatchPath {
  const parser = new Parser(text, (detail) => badRequest('invalidPath', detail));
  const path = parser.patchPath();
  parser.end();
  return path;
}

class Parser {
  readonly #text: string;
  readonly #refusal: (detail: string) => ScimError;
  #at = 0;
  #conditions = 0;

  constructor(text: string, refusal: (detail: string) => ScimError) {
    this.#text = text;
    this.#refusal = refusal;
    if (text.length > mostCharacters)
      throw refusal(`at most ${mostCharacters} characters are allowed`);
  }

  end(): void {
    this.#skipSpaces();
    if (this.#at < this.#text.length) throw this.#unexpected();
  }

  /** Parses conditions joined by `or`, which binds less tightly than `and`. */
  alternatives(depth: number): Filter {
    const parts = [this.#all(depth)];
    while (this.#word('or')) parts.push(this.#all(depth));
    const [only] = parts;
    return parts.length === 1 && only ? only : { type: 'or', parts };
  }

  #all(depth: number): Filter {
    const parts = [this.#one(depth)];
    while (this.#word('and')) parts.push(this.#one(depth));
    const [only] = parts;
    return parts.length === 1 && only ? only : { type: 'and', parts };
  }

  #one(depth: number): Filter {
    if (depth > mostDepth) throw this.#refusal(`at most ${mostDepth} levels are allowed`);
    if (this.#word('not')) {
      if (!this.#sign('(')) throw this.#unexpected();
      return { type: 'not', of: this.#inParentheses(depth) };
    }
    if (this.#sign('(')) return this.#inParentheses(depth);
    this.#conditions += 1;
    if (this.#conditions > mostConditions) {
      throw this.#refusal(`at most ${mostConditions} conditions are allowed`);
    }
    const path = this.#attributePath();
    if (!this.#sign('[')) return this.#condition(path);
    const inside = this.alternatives(depth + 1);
    if (!this.#sign(']')) throw this.#unexpected();
    // Microsoft Entra compares a part of the matching value: emails[type eq "work"].value eq "x".
    const of: Filter = this.#sign('.')
      ? {
          type: 'and',
          parts: [inside, this.#condition({ attribute: this.#name(), sub: undefined })],
        }
      : inside;
    return { type: 'some', path, of };
  }

  #inParentheses(depth: number): Filter {
    const inside = this.alternatives(depth + 1);
    if (!this.#sign(')')) throw this.#unexpected();
    return inside;
  }

  #condition(path: AttributePath): Filter {
    if (this.#word('pr')) return { type: 'present', path };
    for (const operator of operators) {
      if (this.#word(operator)) return { type: 'compare', path, operator, value: this.#literal() };
    }
    throw this.#unexpected();
  }

  patchPath(): PatchPath {
    const path = this.#attributePath();
    if (!this.#sign('[')) return { ...path, filter: undefined };
    const filter = this.alternatives(0);
    if (!this.#sign(']')) throw this.#unexpected();
    return { attribute: path.attribute, filter, sub: this.#sign('.') ? this.#name() : undefined };
  }

  #attributePath(): AttributePath {
    this.#skipSpaces();
    const urn = this.#match(/urn:[\w.:-]*:/iy);
    const attribute = this.#name();
    const sub = this.#text[this.#at] === '.' && this.#sign('.') ? this.#name() : undefined;
    const isCore =
      urn === undefined || /^urn:ietf:params:scim:schemas:core:2\.0:(?:user|group):$/i.test(urn);
    // With the prefix of another schema, the name matches no attribute.
    return { attribute: isCore ? attribute : `${urn}${attribute}`, sub };
  }

  #name(): string {
    const name = this.#match(/\$?[A-Za-z][\w-]*/y);
    if (name === undefined) throw this.#unexpected();
    return name;
  }

  #literal(): Literal {
    this.#skipSpaces();
    const quoted = this.#match(/"(?:[^"\\]|\\.)*"/sy);
    if (quoted !== undefined) {
      try {
        return String(JSON.parse(quoted));
      } catch {
        throw this.#refusal('a text in quotes is no JSON string');
      }
    }
    const word = this.#match(/true|false|null/iy)?.toLowerCase();
    if (word !== undefined) return word === 'null' ? null : word === 'true';
    const number = this.#match(/-?\d+(?:\.\d+)?(?:e[+-]?\d+)?/iy);
    if (number !== undefined) return Number(number);
    throw this.#unexpected();
  }

  /** Reads a word in any letter case, unless a longer name begins with it. */
  #word(word: string): boolean {
    this.#skipSpaces();
    const end = this.#at + word.length;
    if (this.#text.slice(this.#at, end).toLowerCase() !== word) return false;
    if (/[\w.:-]/.test(this.#text[end] ?? ' ')) return false;
    this.#at = end;
    return true;
  }

  #sign(sign: string): boolean {
    this.#skipSpaces();
    if (this.#text[this.#at] !== sign) return false;
    this.#at += 1;
    return true;
  }

  /** `pattern` must be sticky. */
  #match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#text)?.[0];
    if (found !== undefined) this.#at += found.length;
    return found;
  }

  #skipSpaces(): void {
    while (this.#text[this.#at] === ' ') this.#at += 1;
  }

  #unexpected(): ScimError {
    return this.#refusal(
      this.#at < this.#text.length
        ? `unexpected text at character ${this.#at + 1}`
        : 'it ends too early',
    );
  }
}

type Members = Readonly<Record<string, unknown>>;

/** Whether a resource, with attributes named as in the schema of its kind, matches. @throws {ScimError} 400 `invalidFilter` */
export function matches(filter: Filter, resource: Members, kind: ResourceKind): boolean {
  return evaluate(filter, resource, (name) => attributeOf(kind, name));
}

/** Whether one value of a multi-valued attribute matches. @throws {ScimError} 400 `invalidFilter` */
export function valueMatches(filter: Filter, value: Members, attribute: Attribute): boolean {
  return evaluate(filter, value, (name) => subAttributeOf(attribute, name));
}

type Lookup = (name: string) => Attribute | undefined;

function evaluate(filter: Filter, members: Members, lookup: Lookup): boolean {
  switch (filter.type) {
    case 'and':
      return filter.parts.every((part) => evaluate(part, members, lookup));
    case 'or':
      return filter.parts.some((part) => evaluate(part, members, lookup));
    case 'not':
      return !evaluate(filter.of, members, lookup);
    case 'present':
      return valuesAt(filter.path, members, lookup).values.some((value) => value !== '');
    case 'some': {
      const attribute = lookup(filter.path.attribute);
      if (!attribute) return false;
      return listOf(members[attribute.name]).some(
        (value) => isObject(value) && valueMatches(filter.of, value, attribute),
      );
    }
    case 'compare': {
      const { path, operator, value } = filter;
      const { values, attribute } = valuesAt(path, members, lookup);
      const isExact = attribute?.caseExact ?? false;
      if (operator === 'ne') {
        if (value === null) return values.length > 0;
        return !values.some((one) => compare(one, 'eq', value, isExact));
      }
      if (value === null && operator === 'eq') return values.length === 0;
      return values.some((one) => compare(one, operator, value, isExact));
    }
  }
}

/** The simple values at a path. A complex value stands for its part `value`. RFC 7644 §3.4.2.2 */
function valuesAt(
  { attribute: name, sub }: AttributePath,
  members: Members,
  lookup: Lookup,
): { readonly values: readonly (string | number | boolean)[]; readonly attribute?: Attribute } {
  const attribute = lookup(name);
  if (!attribute) return { values: [] };
  const part = attribute.subAttributes && subAttributeOf(attribute, sub ?? 'value');
  if (sub !== undefined && !part) return { values: [] };
  const found = listOf(members[attribute.name]).map((value) =>
    part && isObject(value) ? value[part.name] : value,
  );
  return { values: found.filter(isSimple), attribute: part ?? attribute };
}

function compare(
  have: string | number | boolean,
  operator: Exclude<Operator, 'ne'>,
  want: Literal,
  isExact: boolean,
): boolean {
  if (typeof have === 'boolean') {
    if (operator !== 'eq')
      throw badRequest('invalidFilter', 'a truth value can only be compared with eq and ne');
    return String(have) === String(want).toLowerCase();
  }
  if (typeof have === 'number' || typeof want !== 'string') {
    return operator === 'eq' && String(have) === String(want);
  }
  const [one, other] = isExact ? [have, want] : [have.toLowerCase(), want.toLowerCase()];
  switch (operator) {
    case 'eq':
      return one === other;
    case 'co':
      return one.includes(other);
    case 'sw':
      return one.startsWith(other);
    case 'ew':
      return one.endsWith(other);
    case 'gt':
      return one > other;
    case 'ge':
      return one >= other;
    case 'lt':
      return one < other;
    case 'le':
      return one <= other;
  }
}

function listOf(value: unknown): readonly unknown[] {
  if (value === undefined || value === null) return [];
  return Array.isArray(value) ? value : [value];
}

function isSimple(value: unknown): value is string | number | boolean {
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean';
}

/** The conditions `attribute eq "text"` or `attribute.part eq "text"` that every match fulfils. Paths are in lower case. */
export function requiredTexts(
  filter: Filter,
): readonly { readonly path: string; readonly value: string }[] {
  switch (filter.type) {
    case 'and':
      return filter.parts.flatMap(requiredTexts);
    case 'compare': {
      const { path, operator, value } = filter;
      if (operator !== 'eq' || typeof value !== 'string') return [];
      const name = path.sub === undefined ? path.attribute : `${path.attribute}.${path.sub}`;
      return [{ path: name.toLowerCase(), value }];
    }
    case 'some': {
      const outer = filter.path.attribute.toLowerCase();
      return requiredTexts(filter.of).map(({ path, value }) => ({
        path: `${outer}.${path}`,
        value,
      }));
    }
    case 'or':
    case 'not':
    case 'present':
      return [];
  }
}

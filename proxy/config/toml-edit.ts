// Edits TOML by whole tables. Text between them stays as it is, and an edit that would change anything else is refused.
import { membersOf } from 'latchkey-mcp/json-value';
import { isDeepStrictEqual } from 'node:util';
import { decodedText, editRefusal, type JsonChange } from './jsonc.ts';
import {
  Literal,
  parseToml,
  readToml,
  TomlError,
  type Statement,
  type Token,
  type TomlDocument,
} from './toml.ts';

/**
 * Sets or removes some tables of a file's text, and changes nothing else. `bytes` is `undefined` for a file that does not exist yet.
 *
 * @throws {ConfigurationError} with line and column if the text is invalid
 */
export function editToml(
  bytes: Buffer | undefined,
  source: string,
  changes: readonly JsonChange[],
): Buffer {
  let text = decodedText(bytes, source);
  if (changes.length === 0) readOrRefuse(text, source);
  for (const { path, value } of changes) {
    const before = readOrRefuse(text, source);
    const edited = withTable(text, before.statements, path, value);
    const expected = changedValue(parseToml(text), path, value);
    if (!isEdit(edited, expected)) {
      const problem = `"${path.join('.')}" is written in a form that Latchkey does not edit`;
      throw editRefusal(source, text, 0, problem);
    }
    text = edited;
  }
  return Buffer.from(text);
}

function readOrRefuse(text: string, source: string): TomlDocument {
  try {
    return readToml(text);
  } catch (error) {
    if (!(error instanceof TomlError)) throw error;
    throw editRefusal(source, text, error.offset, `is not valid TOML (${error.message})`);
  }
}

/** Whether `text` means `expected`. A table without members may be missing. */
function isEdit(text: string, expected: Record<string, unknown>): boolean {
  try {
    const filled = (value: unknown) =>
      typeof value !== 'object' || value === null || Object.keys(value).length > 0;
    const found = Object.entries(parseToml(text) ?? {}).filter(([, value]) => filled(value));
    const wanted = Object.entries(expected).filter(([, value]) => filled(value));
    return isDeepStrictEqual(Object.fromEntries(found), Object.fromEntries(wanted));
  } catch (error) {
    if (error instanceof TomlError) return false;
    throw error;
  }
}

function changedValue(
  value: unknown,
  [name = '', ...rest]: readonly string[],
  to: unknown,
): Record<string, unknown> {
  const members = Object.entries(membersOf(value));
  const next = rest.length === 0 ? to : changedValue(new Map(members).get(name), rest, to);
  const others = members.filter(([key]) => key !== name);
  return Object.fromEntries(next === undefined ? others : [...others, [name, next]]);
}

/** Replaces a table of `text`, or appends it if there is none; removes it if `value` is `undefined`. */
function withTable(
  text: string,
  statements: readonly Statement[],
  path: readonly string[],
  value: unknown,
): string {
  const eol = text.includes('\r\n') ? '\r\n' : '\n';
  const section = value === undefined ? '' : tableText(path, value, eol);
  const runs = runsWithin(statements, path);
  const [first] = runs;
  const inPlace = first?.kind === 'header' && section !== '';
  let edited = text;
  for (const run of runs.toReversed()) {
    const start = inPlace && run === first ? run.start : beforeBlankLine(edited, run.start);
    edited =
      edited.slice(0, start) + (inPlace && run === first ? section : '') + edited.slice(run.end);
  }
  if (section === '' || inPlace) return edited;
  const open = edited === '' || edited.endsWith('\n') ? '' : eol;
  const gap = edited.trim() === '' ? '' : eol;
  return edited + open + gap + section;
}

/** The statements below `path`; adjacent ones are merged. */
function runsWithin(statements: readonly Statement[], path: readonly string[]): Statement[] {
  const runs: Statement[] = [];
  let last: Statement | undefined;
  for (const statement of statements) {
    const isWithin = path.every((name, depth) => statement.path[depth] === name);
    if (isWithin && last) last.end = statement.end;
    else if (isWithin) runs.push((last = { ...statement }));
    else last = undefined;
  }
  return runs;
}

/** The blank line before a table belongs to the table. */
function beforeBlankLine(text: string, start: number): number {
  return start - (/(?<=\n)\r?\n$/.exec(text.slice(Math.max(0, start - 3), start))?.[0].length ?? 0);
}

function tableText(path: readonly string[], value: unknown, eol: string): string {
  const members = Object.entries(membersOf(value));
  const lines = members.map(([key, member]) => `${keyText(key)} = ${valueText(member)}`);
  return [`[${path.map(keyText).join('.')}]`, ...lines, ''].join(eol);
}

function keyText(key: string): string {
  return /^[A-Za-z0-9_-]+$/.test(key) ? key : stringText(key);
}

function valueText(value: unknown): string {
  if (value instanceof Literal) return value.text;
  if (typeof value === 'string') return stringText(value);
  if (Array.isArray(value)) return `[${value.map(valueText).join(', ')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const members = Object.entries(value);
  const pairs = members.map(([key, member]) => `${keyText(key)} = ${valueText(member)}`);
  return pairs.length === 0 ? '{}' : `{ ${pairs.join(', ')} }`;
}

/** JSON's escapes are valid in TOML, which forbids one more character. */
function stringText(text: string): string {
  return JSON.stringify(text).replaceAll('\u007f', '\\u007f');
}

/** Changes every string and comment of a file's text with `mask`. Text that is not valid TOML is masked as a whole. */
export function maskedToml(bytes: Buffer, mask: (text: string) => string): Buffer {
  const text = bytes.toString();
  let masked = '';
  let end = 0;
  for (const token of tokensOf(text)) {
    const written = text.slice(token.start, token.end);
    const safe = mask(token.value ?? written);
    masked += text.slice(end, token.start);
    if (token.value === undefined) masked += safe;
    else masked += safe === token.value ? written : stringText(safe);
    end = token.end;
  }
  return Buffer.from(masked + (end === 0 ? mask(text) : text.slice(end)));
}

function tokensOf(text: string): Token[] {
  try {
    return readToml(text).tokens;
  } catch (error) {
    if (error instanceof TomlError) return [];
    throw error;
  }
}

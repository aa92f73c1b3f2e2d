import type { Node, ParseError } from 'jsonc-parser';
import { ConfigurationError } from './configuration-error.ts';
import { changedMember, endOfLine } from './changed-member.ts';

/** One member to set, or with `undefined` to remove. */
export type JsonChange = { path: readonly string[]; value: unknown };

const byteOrderMark = '\u{FEFF}';

/**
 * A file's text with some members changed and everything else as it was: comments, order, indentation,
 * line ends, a byte order mark. `undefined` stands for a file that does not exist yet.
 *
 * @throws {ConfigurationError} with line and column where the text is not what it has to be
 */
export async function editJson(
  bytes: Buffer | undefined,
  source: string,
  changes: readonly JsonChange[],
): Promise<Buffer> {
  const jsonc = await import('jsonc-parser');
  const whole = decoded(bytes, source);
  const mark = whole.startsWith(byteOrderMark) ? byteOrderMark : '';
  let text = whole.slice(mark.length);
  if (text.trim() === '') text = `{}${endOfLine(text)}`;
  for (const { path, value } of changes) {
    const errors: ParseError[] = [];
    const tree = jsonc.parseTree(text, errors, { allowTrailingComma: true });
    const [first] = errors;
    if (first) {
      const what = jsonc.printParseErrorCode(first.error).replaceAll(/\B[A-Z]/g, ' $&');
      throw refusal(source, text, first.offset, `is not JSON (${what.toLowerCase()})`);
    }
    checkPlace(tree, path, (node, problem) => refusal(source, text, node.offset, problem));
    if (tree) text = changedMember(text, tree, { path, value }, jsonc);
  }
  return Buffer.from(mark + text);
}

/** The objects on the way exist or can be made, and there is one of each. */
function checkPlace(
  tree: Node | undefined,
  path: readonly string[],
  refuse: (node: Node, problem: string) => Error,
): void {
  let node = tree;
  for (const name of path) {
    if (!node) return;
    if (node.type !== 'object') throw refuse(node, 'is not an object');
    const named = (node.children ?? []).filter(({ children }) => children?.[0]?.value === name);
    const [property, second] = named;
    // Which of the two the assistant reads is its own secret.
    if (second) throw refuse(second, `says "${name}" a second time`);
    node = property?.children?.[1];
  }
}

function decoded(bytes: Buffer | undefined, source: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new ConfigurationError([{ source, key: '', problem: 'is not UTF-8 text' }]);
  }
}

function refusal(source: string, text: string, offset: number, problem: string): Error {
  const before = text.slice(0, offset).split('\n');
  const place = `${source}:${before.length}:${(before.at(-1)?.length ?? 0) + 1}`;
  const remedy = 'nothing was changed; mend it there and repeat';
  return new ConfigurationError([{ source: place, key: '', problem: `${problem}; ${remedy}` }]);
}

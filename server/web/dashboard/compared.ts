import { diffLines, diffWordsWithSpace } from 'diff';
import { exactJson } from '#tools/exact-json';
import { html, type Html } from '#web/html';
import { revealed } from '#web/invisible';
import { argumentFacts } from './tool-arguments.ts';

// Two versions of what a server says, side by side: by members of the definition, then by lines, then by words.

/** A part of a line; marked if it is not in the other version. */
export interface Piece {
  readonly text: string;
  readonly isMarked: boolean;
}

/** Two lines side by side. Equal lines have no marks; a line that only one version has stands alone. */
export interface ComparedLine {
  readonly before: readonly Piece[] | undefined;
  readonly after: readonly Piece[] | undefined;
}

/** Longer comparisons are useless and too slow for a page. */
const mostEdits = 300;
const mostWordEdits = 200;

/** How many equal lines are shown around each difference. */
const shownAround = 3;

/** Compares two texts by lines. Texts with too many differences stand side by side, line by line. */
export function comparedLines(before: string, after: string): ComparedLine[] {
  const parts = diffLines(`${before}\n`, `${after}\n`, { maxEditLength: mostEdits }) ?? [
    { value: `${before}\n`, removed: true, added: false },
    { value: `${after}\n`, removed: false, added: true },
  ];
  const lines: ComparedLine[] = [];
  let gone: string[] = [];
  let come: string[] = [];
  const beside = () => {
    for (let place = 0; place < Math.max(gone.length, come.length); place += 1) {
      lines.push(linesBeside(gone[place], come[place]));
    }
    [gone, come] = [[], []];
  };
  for (const { value, added, removed } of parts) {
    const texts = value.replace(/\n$/, '').split('\n');
    if (removed) gone.push(...texts);
    else if (added) come.push(...texts);
    else {
      beside();
      lines.push(...texts.map((text) => ({ before: [plain(text)], after: [plain(text)] })));
    }
  }
  beside();
  return lines;
}

const plain = (text: string): Piece => ({ text, isMarked: false });
const marked = (text: string): Piece => ({ text, isMarked: true });

function linesBeside(before: string | undefined, after: string | undefined): ComparedLine {
  if (before === undefined || after === undefined) {
    return {
      before: before === undefined ? undefined : [marked(before)],
      after: after === undefined ? undefined : [marked(after)],
    };
  }
  const words = diffWordsWithSpace(before, after, { maxEditLength: mostWordEdits });
  const common = (words ?? [])
    .filter(({ added, removed }) => !added && !removed)
    .reduce((sum, { value }) => sum + value.length, 0);
  // Marking only the few words that two different sentences share would be hard to read.
  const isAlike = words && common * 3 >= Math.max(before.length, after.length);
  if (!isAlike) return { before: [marked(before)], after: [marked(after)] };
  const side = (without: 'added' | 'removed') =>
    words
      .filter((word) => !word[without])
      .map(({ value, added, removed }) => ({ text: value, isMarked: added || removed }));
  return { before: side('added'), after: side('removed') };
}

/** A member of a definition, or all of a definition that is not JSON. */
export interface DefinitionPart {
  /** The name of the member. */
  readonly name: string;
  /** What people call it; absent for members that MCP does not define, which could have any name. */
  readonly label?: string | undefined;
  readonly text: string;
  /** Whether it is a text rather than JSON. */
  readonly isText: boolean;
}

/** The labels of members, in this order. Other members follow under their own names. */
const partLabels = {
  title: 'Title',
  description: 'Description',
  inputSchema: 'Arguments',
  arguments: 'Arguments',
  outputSchema: 'Result',
  annotations: 'Annotations',
  mimeType: 'Type',
  icons: 'Icons',
  execution: 'Execution',
} as const satisfies Record<string, string>;

/**
 * The members of a stored definition, each as text for people: a string as it is, all else as JSON. Instructions, and a definition that was
 * truncated because it is very long, are one text.
 */
export function definitionParts(text: string): readonly DefinitionPart[] {
  const members = membersOf(text);
  if (!members) return [{ name: '', label: 'Text', text, isText: true }];
  const known: readonly string[] = Object.keys(partLabels);
  const place = (name: string) => (known.includes(name) ? known.indexOf(name) : known.length);
  return Object.entries(members)
    .sort(([a], [b]) => place(a) - place(b))
    .map(([name, value]) => ({
      name,
      label: Object.entries(partLabels).find(([member]) => member === name)?.[1],
      text: typeof value === 'string' ? value : JSON.stringify(value, undefined, 2),
      isText: typeof value === 'string',
    }));
}

function membersOf(text: string): object | undefined {
  try {
    const value = exactJson(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** A part that differs, by its lines. */
interface ComparedPart extends Pick<DefinitionPart, 'name' | 'label'> {
  readonly lines: readonly ComparedLine[];
}

/** The parts that differ, and the parts that are the same. */
export function comparedParts(
  before: string,
  after: string,
): { readonly changed: readonly ComparedPart[]; readonly same: readonly DefinitionPart[] } {
  const olds = new Map(definitionParts(before).map((part) => [part.name, part]));
  const news = new Map(definitionParts(after).map((part) => [part.name, part]));
  const all = [...new Map([...olds, ...news]).values()];
  const isSame = ({ name }: DefinitionPart) => olds.get(name)?.text === news.get(name)?.text;
  return {
    changed: all
      .filter((part) => !isSame(part))
      .map(({ name, label }) => ({
        name,
        label,
        lines: partLines(olds.get(name)?.text, news.get(name)?.text),
      })),
    same: all.filter(isSame),
  };
}

function labelOf({ name, label }: Pick<DefinitionPart, 'name' | 'label'>): Html {
  return label === undefined ? html`<code>${revealed(name)}</code>` : html`${label}`;
}

function partLines(before: string | undefined, after: string | undefined): ComparedLine[] {
  if (before !== undefined && after !== undefined) return comparedLines(before, after);
  const lines = (before ?? after ?? '').split('\n').map((text) => [marked(text)]);
  return lines.map((line) =>
    before === undefined ? { before: undefined, after: line } : { before: line, after: undefined },
  );
}

/** The accepted and the current definition side by side. `name` is what they define. */
export function comparison(name: string, before: string, after: string): Html {
  const { changed, same } = comparedParts(before, after);
  if (changed.length === 0) {
    return html`<p class="help">The difference is beyond the part of the definition that is stored.</p>`;
  }
  return html`<table class="compared">
<caption class="unseen">What changed in ${name}</caption>
<thead>
<tr><th scope="col">Accepted</th><th scope="col">Now</th></tr>
</thead>
${changed.map(
  (part) =>
    html`<tbody>
<tr><th scope="rowgroup" colspan="2">${labelOf(part)}</th></tr>
${shortened(part.lines).map(lineRow)}
</tbody>`,
)}
</table>
${same.length > 0 && html`<p class="help">Not changed: ${same.map((part, place) => html`${place > 0 && ', '}${labelOf(part)}`)}</p>`}`;
}

/** Longer JSON is folded. */
const mostGlanced = 12;

/** A definition as a whole: texts as they are, the arguments of a tool as a list, and long JSON folded. */
export function definitionList(text: string): Html {
  return html`<dl class="definition">
${definitionParts(text).map(
  (part) =>
    html`<div>
<dt>${labelOf(part)}</dt>
<dd dir="auto">${partContent(part)}</dd>
</div>`,
)}
</dl>`;
}

function partContent({ name, text, isText }: DefinitionPart): Html {
  const lines = text.split('\n').length;
  const whole = html`<div class="verbatim">${revealed(text)}</div>`;
  if (isText || lines <= mostGlanced) return whole;
  const list = name === 'inputSchema' && argumentFacts({ inputSchema: schemaOf(text) });
  return html`${list}
<details>
<summary>${lines} lines of JSON</summary>
${whole}
</details>`;
}

function schemaOf(text: string): Readonly<Record<string, unknown>> {
  return { ...Object(JSON.parse(text)) };
}

/** Replaces equal lines that are not near a difference by their number. */
function shortened(lines: readonly ComparedLine[]): readonly (ComparedLine | number)[] {
  const isNear = lines.map((_, place) =>
    lines.slice(Math.max(0, place - shownAround), place + shownAround + 1).some(isChanged),
  );
  const shown: (ComparedLine | number)[] = [];
  let left = 0;
  for (const [place, line] of lines.entries()) {
    if (!isNear[place]) {
      left += 1;
      continue;
    }
    if (left > 0) shown.push(left);
    left = 0;
    shown.push(line);
  }
  return left > 0 ? [...shown, left] : shown;
}

function isChanged({ before, after }: ComparedLine): boolean {
  return [before, after].some((side) => side?.some((piece) => piece.isMarked) ?? true);
}

function lineRow(line: ComparedLine | number): Html {
  if (typeof line === 'number') {
    const words = line === 1 ? 'One line is' : `${line} lines are`;
    return html`<tr class="left-out"><td colspan="2">${words} the same</td></tr>`;
  }
  const { before, after } = line;
  return html`<tr class="${!isChanged(line) && 'same'}">
<td class="${before ? 'before' : 'none'}" dir="auto">${before?.map((piece) => pieceOf(piece, 'del'))}</td>
<td class="${after ? 'after' : 'none'}" dir="auto">${after?.map((piece) => pieceOf(piece, 'ins'))}</td>
</tr>`;
}

function pieceOf({ text, isMarked }: Piece, mark: 'del' | 'ins'): Html {
  if (!isMarked) return revealed(text);
  return mark === 'del' ? html`<del>${revealed(text)}</del>` : html`<ins>${revealed(text)}</ins>`;
}

import type { EpochSeconds } from '#model/clock';
import { selectOptions, type Choice } from './forms.ts';
import { html, type Html } from './html.ts';
import { badge, type Badge, type Link } from './layout.ts';
import { type Titled, titleMarkup } from './titles.ts';
import { isoTime, timeIn } from './times.ts';

export type Cell =
  /** The name of the row; the first cell of each row. */
  | {
      readonly kind: 'name';
      readonly text: string;
      readonly href?: string;
      readonly badges?: readonly Badge[];
      /** More about the row, on a line below its name. */
      readonly note?: string | undefined;
      /** A box that selects the row for the form with this id. */
      readonly check?: { readonly form: string; readonly name: string; readonly label: string };
    }
  /** An organization or a server, with a link if there is one. */
  | {
      readonly kind: 'title';
      readonly of: Titled;
      readonly href?: string;
      readonly badges?: readonly Badge[];
    }
  /** A text, such as a number that links to what it counts. `label` is the text of the link for screen readers. */
  | {
      readonly kind: 'text';
      readonly text: string;
      readonly link?: { readonly href: string; readonly label: string } | undefined;
    }
  /** A sentence, with facts, if any, that can be unfolded below it. */
  | {
      readonly kind: 'sentence';
      readonly sentence: Html;
      readonly badges: readonly Badge[];
      readonly facts: readonly Fact[];
    }
  /** A state as a badge, with the reason for it. */
  | { readonly kind: 'status'; readonly status: Badge; readonly reason?: string | undefined }
  /** A time; `otherwise` is shown if there is none. */
  | { readonly kind: 'time'; readonly at: EpochSeconds | undefined; readonly otherwise: string }
  /** An identifier with a button that copies it. */
  | { readonly kind: 'id'; readonly text: string }
  /** An address in full, over several lines if necessary. */
  | { readonly kind: 'address'; readonly text: string }
  /** Prefix and last four characters of a secret. */
  | { readonly kind: 'hint'; readonly text: string }
  /** Actions on the row; the destructive action last. */
  | { readonly kind: 'actions'; readonly actions: readonly RowAction[] };

/** A time, or `otherwise` if there is none. */
export function timeCell(at: EpochSeconds | null | undefined, otherwise = '') {
  return { kind: 'time', at: at ?? undefined, otherwise } as const;
}

/** An action on a row: a link to the page that performs it or asks for confirmation first. */
interface RowAction extends Link {
  /** The resource that it acts on, for screen readers that read links out of context. */
  readonly of: string;
  /** Whether the action is destructive. It then leads to a confirmation, in a dialog if scripts run. */
  readonly danger?: boolean;
}

/** A column; a sortable one has a link. */
export interface Column {
  readonly text: string;
  readonly sort?: { readonly href: string; readonly now: 'ascending' | 'descending' | undefined };
}

/** A table; every row has a cell for each column. */
export interface Table {
  /** What the table lists, for screen readers. */
  readonly caption: string;
  /** Headings; a sortable column is a `Column`. */
  readonly columns: readonly (string | Column)[];
  readonly rows: readonly Row[];
  /** A hint for an empty table, and the next step. */
  readonly empty: { readonly text: string; readonly action?: Link | undefined };
  readonly now: EpochSeconds;
}

interface Row {
  /** Stable for a record, so that a live page recognizes its rows. */
  readonly id: string;
  /** Whether it was revoked, expired or disabled. */
  readonly isOver?: boolean;
  readonly cells: readonly Cell[];
}

export function dataTable({ caption, columns: given, rows, empty, now }: Table): Html {
  const columns = given.map((one): Column => (typeof one === 'string' ? { text: one } : one));
  const [first] = rows;
  if (!first) {
    return html`<div class="empty">
<p>${empty.text}</p>
${empty.action && html`<p><a class="button" href="${empty.action.href}">${empty.action.text}</a></p>`}
</div>`;
  }
  // A column of actions is omitted if no row has any.
  const isShown = columns.map((_, index) => rows.some(({ cells }) => !isIdle(cells[index])));
  return html`<div class="scroll" tabindex="0" role="region" aria-label="${caption}">
<table>
<caption class="unseen">${caption}</caption>
<thead>
<tr>
${columns.map((column, index) => isShown[index] && columnHead(column, first.cells[index]))}
</tr>
</thead>
<tbody>
${rows.map(
  ({ id, isOver, cells }) =>
    html`<tr id="row-${id}" data-row class="${isOver && 'over'}">
${cells.map((one, index) => isShown[index] && columnCell(one, index, columns[index]?.text, now))}
</tr>`,
)}
</tbody>
</table>
</div>`;
}

function isIdle(content: Cell | undefined): boolean {
  return content?.kind === 'actions' && content.actions.length === 0;
}

function columnHead({ text, sort }: Column, first: Cell | undefined): Html {
  return html`<th scope="col"${first?.kind === 'actions' && html` class="cell-actions"`}${sort?.now && html` aria-sort="${sort.now}"`}>
${sort ? html`<a href="${sort.href}">${text}</a>` : text}
</th>`;
}

function columnCell(
  content: Cell,
  index: number,
  label: string | undefined,
  now: EpochSeconds,
): Html {
  if (index === 0) return html`<th scope="row">${cell(content, now)}</th>`;
  const className = content.kind === 'text' && !content.text ? 'none' : `cell-${content.kind}`;
  return html`<td data-label="${label}" class="${className}">${cell(content, now)}</td>`;
}

/** How many characters without a space stay on one line. Most e-mail addresses are shorter. */
const longestWord = 40;

/** A text with a longer word than this may break anywhere, so that its column can be narrower than the word. */
const longestOfSeveral = 20;

function cell(content: Cell, now: EpochSeconds): Html {
  switch (content.kind) {
    case 'name': {
      const { text, href, badges = [], note, check } = content;
      const name = href
        ? html`<a href="${href}" dir="auto">${text}</a>`
        : html`<span dir="auto">${text}</span>`;
      const box =
        check &&
        html`<input class="check" type="checkbox" form="${check.form}" name="${check.name}" value="yes" aria-label="${check.label}"> `;
      return html`${box}${name}${badges.map((one) => html` ${badge(one)}`)}${note && html`<p class="note" dir="auto">${note}</p>`}`;
    }
    case 'title': {
      const { of, href, badges = [] } = content;
      const name = href ? html`<a href="${href}">${titleMarkup(of)}</a>` : titleMarkup(of);
      return html`${name}${badges.map((one) => html` ${badge(one)}`)}`;
    }
    case 'sentence': {
      const { sentence, badges, facts } = content;
      return html`<div class="sentence">${sentence}${badges.map((one) => html` ${badge(one)}`)}</div>
${
  facts.length > 0 &&
  html`<details>
<summary>Details</summary>
${factList(facts, now)}
</details>`
}`;
    }
    case 'text': {
      const { text, link } = content;
      if (link) return html`<a href="${link.href}" aria-label="${link.label}">${text}</a>`;
      const words = text.split(' ');
      const isWord = words.length === 1 && text.length <= longestWord;
      const breaks = !isWord && words.some(({ length }) => length > longestOfSeveral);
      return html`<span dir="auto"${isWord && html` class="word"`}${breaks && html` class="breaks"`}>${text}</span>`;
    }
    case 'status': {
      const { status, reason } = content;
      return html`${badge(status)}${reason && html` <span dir="auto">${reason}</span>`}`;
    }
    case 'time':
      return html`${content.at ? relativeTime(content.at, now) : content.otherwise}`;
    case 'id':
      return identifier(content.text, content.text.length > 24);
    case 'address':
      return identifier(content.text, false);
    case 'hint':
      return html`<code>${content.text}</code>`;
    case 'actions':
      return html`${content.actions.map(rowAction)}`;
  }
}

function rowAction({ text, href, of, danger }: RowAction): Html {
  return html`<a class="button small-button${danger && ' danger'}" href="${href}"${danger && html` data-question`} aria-label="${text} ${of}">${text}</a> `;
}

/** An identifier with a button that copies it. The short form omits the middle, but the button copies all of it. */
function identifier(id: string, isShort: boolean): Html {
  const short = isShort ? `${id.slice(0, 14)}…${id.slice(-6)}` : id;
  return html`<span class="id"><code title="${id}">${short}</code><button type="button" class="quiet copy" data-copy="${id}" aria-label="Copy ${id}" hidden>Copy</button></span>`;
}

/** A time relative to `now`, with the exact one on hover. */
export function relativeTime(at: EpochSeconds, now: EpochSeconds): Html {
  const past = now - at;
  const seconds = Math.abs(past);
  const [length, unit] =
    seconds < 3600 ? [60, 'minute'] : seconds < 86_400 ? [3600, 'hour'] : [86_400, 'day'];
  const count = Math.floor(seconds / length);
  const words = `${count} ${unit}${count === 1 ? '' : 's'}`;
  const text = seconds < 60 ? 'just now' : past > 0 ? `${words} ago` : `in ${words}`;
  return html`<time datetime="${isoTime(at)}" title="${timeIn('exact', at)}">${text}</time>`;
}

/** A line of `factList`: its label, and its value as text or as a table cell. */
export interface Fact {
  readonly label: string;
  readonly text?: string;
  readonly cell?: Cell;
}

export function factList(facts: readonly Fact[], now: EpochSeconds): Html {
  return html`<dl class="facts beside">
${facts.map(
  (fact) =>
    html`<div>
<dt>${fact.label}</dt>
<dd>${fact.cell ? cell(fact.cell, now) : html`<span dir="auto">${fact.text}</span>`}</dd>
</div>`,
)}
</dl>`;
}

/** An identifier or address in full, with a button that copies it; `name` says what is copied. */
export function copyable(text: string, name: string): Html {
  return html`<p class="copied"><code>${text}</code>${copyButton(text, name)}</p>`;
}

/** A button that copies `text`. It is hidden until our script finds that the browser can copy. */
export function copyButton(text: string, name: string): Html {
  return html`<button type="button" data-copy="${text}" aria-label="Copy ${name}" hidden>Copy</button>`;
}

/** The part of a list that its URL requests. */
export interface ListFrame {
  /** Path of the list, without a query. */
  readonly path: string;
  /** The text that names are searched for. */
  readonly filter: string;
  /** States to choose from, such as active or revoked. */
  readonly states: readonly Choice[];
  /** Parameters of the URL that a search keeps: the sort order. */
  readonly hidden: Readonly<Record<string, string>>;
  /** Such as `1–50 of 312`. */
  readonly range: string;
  readonly previous: string | undefined;
  readonly next: string | undefined;
}

/** A form that searches a list by name and state. */
export function listFilter({ path, filter, states, hidden }: ListFrame): Html {
  return html`<form class="filter" method="get" action="${path}" role="search">
${Object.entries(hidden).map(([name, value]) => html`<input type="hidden" name="${name}" value="${value}">`)}
<label class="unseen" for="filter">Filter by name</label>
<input id="filter" name="filter" type="search" value="${filter}" placeholder="Filter by name" dir="auto" autocomplete="off">
${
  states.length > 0 &&
  html`<label class="unseen" for="state">Status</label>
<select id="state" name="state">
${selectOptions(states)}
</select>`
}
<button>Apply</button>
</form>`;
}

/** Links to the previous and next page of a list; nothing if there is only one. */
export function pager({
  range,
  previous,
  next,
}: Pick<ListFrame, 'range' | 'previous' | 'next'>): Html | undefined {
  if (!previous && !next) return undefined;
  return html`<nav class="pager" aria-label="Pages">
<span>${range}</span>
${previous && html`<a class="button" rel="prev" href="${previous}">Previous</a>`}
${next && html`<a class="button" rel="next" href="${next}">Next</a>`}
</nav>`;
}

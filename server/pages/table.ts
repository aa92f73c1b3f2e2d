import type { EpochSeconds } from '#clock/clock';
import { timePiece } from './time-piece.ts';

/** A word about a thing's state; `tone` colours it, and is never all that tells it. */
export interface Badge {
  readonly text: string;
  readonly tone: 'plain' | 'good' | 'care' | 'bad';
}

/** One cell of a table. */
export type Cell =
  /** What the row is called; the first cell of each row. */
  | {
      readonly kind: 'name';
      readonly text: string;
      readonly href?: string;
      readonly badges?: readonly Badge[];
    }
  | { readonly kind: 'text'; readonly text: string }
  /** A time; `otherwise` where there is none. */
  | { readonly kind: 'time'; readonly at: EpochSeconds | undefined; readonly otherwise: string }
  /** Something to copy as it stands. */
  | { readonly kind: 'id'; readonly text: string }
  /** Prefix and last four characters of a secret. */
  | { readonly kind: 'hint'; readonly text: string }
  /** What can be done with the row; the destructive one last. */
  | { readonly kind: 'actions'; readonly actions: readonly RowAction[] };

/** Something that can be done with a row: a link to where it is done or asked. */
export interface RowAction {
  readonly text: string;
  readonly href: string;
  /** What it acts on, for who hears the link out of its row. */
  readonly of: string;
  /** Whether it destroys something: it leads to a question, in a dialog where scripts run. */
  readonly danger?: boolean;
}

/** A column; one that can be sorted by has the link that does it. */
export interface Column {
  readonly text: string;
  readonly sort?: { readonly href: string; readonly now: 'ascending' | 'descending' | undefined };
}

/** A table as the template `@table` takes it; every row has a cell for each column. */
export interface Table {
  /** What the table lists, for who cannot see it. */
  readonly caption: string;
  readonly columns: readonly Column[];
  readonly rows: readonly {
    /** Stays the same while the thing lives, so that a live page knows its rows again. */
    readonly id: string;
    /** Whether the thing does nothing any more. */
    readonly isOver?: boolean;
    readonly cells: readonly Cell[];
  }[];
  /** What belongs here, and the one next step; shown in place of a table without rows. */
  readonly empty: {
    readonly text: string;
    readonly action?: { readonly text: string; readonly href: string } | undefined;
  };
  readonly now: EpochSeconds;
}

/** How many characters without a blank stay on one line, as an e-mail address does. */
const longestWord = 40;

/** The template of a cell, in which `cell` and `now` are expressions. */
function cellPiece(cell: string, now: string): string {
  return `<% if (${cell}.kind === 'name') { %>
<% if (${cell}.href) { %><a href="<%= ${cell}.href %>" dir="auto"><%= ${cell}.text %></a><% } else { %><span dir="auto"><%= ${cell}.text %></span><% } %>
<% for (const badge of ${cell}.badges || []) { %> <span class="badge <%= badge.tone %>"><%= badge.text %></span><% } %>
<% } else if (${cell}.kind === 'time') { %><% if (${cell}.at) { %>${timePiece(`${cell}.at`, now)}<% } else { %><%= ${cell}.otherwise %><% } %>
<% } else if (${cell}.kind === 'id') { %>${idPiece(`${cell}.text`)}
<% } else if (${cell}.kind === 'hint') { %><code><%= ${cell}.text %></code>
<% } else if (${cell}.kind === 'actions') { %>
<% for (const action of ${cell}.actions) { %><a class="button small-button<%= action.danger ? ' danger' : '' %>" href="<%= action.href %>" <% if (action.danger) { %>data-question <% } %>aria-label="<%= action.text %> <%= action.of %>"><%= action.text %></a> <% } %>
<% } else { %><span dir="auto"<% if (${cell}.text.length <= ${longestWord} && !${cell}.text.includes(' ')) { %> class="word"<% } %>><%= ${cell}.text %></span><% } %>`;
}

/** Cut in the middle by what is shown, never in what is copied. */
function idPiece(id: string): string {
  return `<span class="id"><code title="<%= ${id} %>"><%= ${id}.length > 24 ? ${id}.slice(0, 14) + '…' + ${id}.slice(-6) : ${id} %></code><button type="button" class="quiet copy" data-copy="<%= ${id} %>" aria-label="Copy <%= ${id} %>" hidden>Copy</button></span>`;
}

/** `@table`, of a `Table`, with its cells in it, as a piece for each of hundreds would cost; `@cell` and `@id` are its parts. */
export const tablePieces: Readonly<Record<string, string>> = {
  '@table': `<% if (it.rows.length === 0) { %>
<div class="empty"><p><%= it.empty.text %></p>
<% if (it.empty.action) { %><p><a class="button" href="<%= it.empty.action.href %>"><%= it.empty.action.text %></a></p><% } %></div>
<% } else { %>
<% const idle = it.columns.map((_, place) => it.rows.every(({ cells }) => cells[place].kind === 'actions' && cells[place].actions.length === 0)) %>
<div class="scroll" tabindex="0" role="region" aria-label="<%= it.caption %>">
<table>
<caption class="unseen"><%= it.caption %></caption>
<thead><tr>
<% it.columns.forEach(({ text, sort }, place) => { if (idle[place]) return %>
<th scope="col" <% if (it.rows[0].cells[place].kind === 'actions') { %>class="cell-actions" <% } %><% if (sort && sort.now) { %>aria-sort="<%= sort.now %>"<% } %>><% if (sort) { %><a href="<%= sort.href %>"><%= text %></a><% } else { %><%= text %><% } %></th>
<% }) %>
</tr></thead>
<tbody>
<% for (const row of it.rows) { %>
<tr id="row-<%= row.id %>" data-row class="<%= row.isOver ? 'over' : '' %>">
<% row.cells.forEach((cell, place) => { if (idle[place]) return %>
<% if (place === 0) { %><th scope="row"><% } else { %><td data-label="<%= it.columns[place].text %>" class="<%= cell.kind === 'text' && !cell.text ? 'none' : 'cell-' + cell.kind %>"><% } %>
${cellPiece('cell', 'it.now')}
<% if (place === 0) { %></th><% } else { %></td><% } %>
<% }) %>
</tr>
<% } %>
</tbody>
</table>
</div>
<% } %>`,

  '@cell': cellPiece('it.cell', 'it.now'),

  '@id': idPiece('it.text'),
};

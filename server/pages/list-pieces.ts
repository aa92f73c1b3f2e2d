/** Where a list stands among its pages, and what it is narrowed to; all of it is in the URL. */
export interface ListFrame {
  /** Path of the list, without a query. */
  readonly path: string;
  /** What the names are searched for. */
  readonly filter: string;
  /** What else can be chosen, as active or revoked ones. */
  readonly states: readonly {
    readonly value: string;
    readonly text: string;
    readonly isChosen: boolean;
  }[];
  /** Goes along with a search: the order. */
  readonly hidden: Readonly<Record<string, string>>;
  /** As `1–50 of 312`. */
  readonly range: string;
  readonly previous: string | undefined;
  readonly next: string | undefined;
}

/** `@filter` and `@pager`, of a `ListFrame`; a list that is short and whole shows neither. */
export const listPieces: Readonly<Record<string, string>> = {
  '@filter': `<form class="filter" method="get" action="<%= it.path %>" role="search">
<% for (const [name, value] of Object.entries(it.hidden)) { %><input type="hidden" name="<%= name %>" value="<%= value %>"><% } %>
<label class="unseen" for="filter">Name contains</label>
<input id="filter" name="filter" type="search" value="<%= it.filter %>" placeholder="Name contains" dir="auto" autocomplete="off">
<% if (it.states.length > 0) { %><label class="unseen" for="state">Which</label>
<select id="state" name="state"><% for (const { value, text, isChosen } of it.states) { %><option value="<%= value %>" <% if (isChosen) { %>selected<% } %>><%= text %></option><% } %></select><% } %>
<button>Show</button>
</form>`,

  '@pager': `<% if (it.previous || it.next) { %><nav class="pager" aria-label="Pages">
<span><%= it.range %></span>
<% if (it.previous) { %><a class="button" rel="prev" href="<%= it.previous %>">Previous</a><% } %>
<% if (it.next) { %><a class="button" rel="next" href="<%= it.next %>">Next</a><% } %>
</nav><% } %>`,
};

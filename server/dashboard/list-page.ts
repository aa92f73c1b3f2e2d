import type { ListFrame } from '#pages/list-pieces';
import type { Page } from '#pages/page';
import type { Table } from '#pages/table';

/** One of several pages about the same thing. */
export interface Tab {
  readonly text: string;
  readonly href: string;
  readonly isHere: boolean;
}

/** Opens a part of a page that is fetched anew, from `it.here`, when something was written; a `</div>` ends it. */
export const renewedPart = `<div id="renewed" class="group" data-renew hx-get="<%= it.here %>" hx-trigger="written from:body" hx-select="#renewed" hx-target="this" hx-swap="outerMorph">`;

/** What a list says of itself, and the part of it that was asked for. */
export interface ListPageData {
  readonly heading: string;
  readonly lead: string;
  readonly action: { readonly text: string; readonly href: string } | undefined;
  readonly tabs: { readonly label: string; readonly entries: readonly Tab[] } | undefined;
  readonly notice: string | undefined;
  readonly list: ListFrame;
  /** Whether there is enough to search in. */
  readonly isSearchable: boolean;
  readonly table: Table;
  /** This page's own path and query. */
  readonly here: string;
}

/** A list of things: what it is about, what can be added, and a live table. */
export const listPage: Page<ListPageData> = {
  title: ({ heading, tabs }) => {
    const tab = tabs?.entries.find(({ isHere }) => isHere)?.text;
    return tab === undefined ? heading : `${tab} of ${heading}`;
  },
  width: 'table',
  template: `<%~ include('@heading', { heading: it.heading, lead: it.lead, action: it.action }) %>
<% if (it.tabs) { %><%~ include('@subnav', it.tabs) %><% } %>
<%~ include('@notice', { text: it.notice }) %>
<% if (it.isSearchable) { %><%~ include('@filter', it.list) %><% } %>
${renewedPart}
<%~ include('@table', it.table) %>
<%~ include('@pager', it.list) %>
</div>`,
};

import type { FastifyReply } from 'fastify';
import type { EpochSeconds } from '#model/clock';
import { html, type Html } from '#web/html';
import {
  type Frame,
  layout,
  type Link,
  pageHeading,
  statusNotice,
  tabNavigation,
  type Tabs,
} from '#web/layout';
import { queryText } from '#web/page-request';
import { type Column, dataTable, listFilter, type ListFrame, pager, type Table } from '#web/tables';
import { type Titled, titleText } from '#web/titles';
import type { DashboardRequest, DashboardVisit } from './guard.ts';
import { type DashboardPageOptions, sendDashboardPage } from './page.ts';

/** A part of a page that is fetched again from `here` when its data changes. */
export function renewedPart(here: string, content: Html): Html {
  return html`<div id="renewed" class="group" data-renew hx-get="${here}" hx-trigger="written from:body" hx-select="#renewed" hx-target="this" hx-swap="outerMorph">
${content}
</div>`;
}

/** A list, and the requested part of it. */
interface ListPageData {
  readonly heading: string | Titled;
  readonly lead: string;
  readonly action: Link | undefined;
  readonly tabs: Tabs | undefined;
  readonly notice: string | undefined;
  readonly list: ListFrame;
  /** Whether there are enough rows to search. */
  readonly isSearchable: boolean;
  readonly table: Table;
  /** Shown after the table. */
  readonly more?: Html | false | undefined;
  /** This page's own path and query. */
  readonly here: string;
}

/** A list of resources: an explanation, an action that adds one, and a live table. */
export function listPage(data: ListPageData, frame: Frame): Html {
  const { heading, lead, action, tabs, list, isSearchable, here } = data;
  const tab = tabs?.entries.find(({ isHere }) => isHere)?.text;
  const name = titleText(heading);
  const title = tab === undefined || typeof heading === 'string' ? name : `${tab} of ${name}`;
  const rows = html`${dataTable(data.table)}
${pager(list)}
${data.more}`;
  const content = html`${pageHeading({ heading, lead, action })}
${tabs && tabNavigation(tabs)}
${statusNotice(data.notice)}
${isSearchable && listFilter(list)}
${renewedPart(here, rows)}`;
  return layout({ title, width: 'table' }, frame, content);
}

const rowsAPage = 50;

/** The states of resources that can be revoked. */
export const activeOrRevoked = [
  { value: '', text: 'All' },
  { value: 'active', text: 'Active' },
  { value: 'revoked', text: 'Revoked' },
] as const;

/** The filters and sort orders of a list. */
interface ListShape {
  /** Values of the operation's `status` with their labels; '' for all. */
  readonly states: readonly { readonly value: string; readonly text: string }[];
  /** Columns by the operation's `sort`; a column without it is not sortable. */
  readonly columns: readonly (string | ListColumn)[];
  readonly usual: { readonly sort: string; readonly order: 'asc' | 'desc' };
}

/** A column that can be sorted if the operation has a `sort` for it. */
interface ListColumn {
  readonly text: string;
  readonly sort?: string;
}

/** Reads a list's URL: `filter`, `state`, `sort`, `order`, `page`. Invalid parameters are ignored. */
export function listQuery(request: DashboardRequest, shape: ListShape) {
  const { states, usual } = shape;
  const columns = shape.columns.map((one): ListColumn =>
    typeof one === 'string' ? { text: one } : one,
  );
  const path = request.url.split('?')[0] ?? '';
  const known = columns.map(({ sort }) => sort).filter((sort) => sort !== undefined);
  const asked = queryText(request, 'sort') ?? '';
  const sort = known.includes(asked) ? asked : usual.sort;
  const orders = ['asc', 'desc'] as const;
  const order = orders.find((one) => one === queryText(request, 'order')) ?? usual.order;
  const filter = (queryText(request, 'filter') ?? '')
    .slice(0, 200)
    .replaceAll(/\p{Cc}/gu, ' ')
    .trim();
  const wanted = queryText(request, 'state') ?? states[0]?.value ?? '';
  const state = states.some(({ value }) => value === wanted) ? wanted : '';
  const page = Math.min(Math.max(1, Math.floor(Number(queryText(request, 'page')) || 1)), 100_000);

  const isUsual = sort === usual.sort && order === usual.order;
  const ordering: Readonly<Record<string, string>> = isUsual ? {} : { sort, order };
  const href = (but: Readonly<Record<string, string>>) => {
    const query = new URLSearchParams({
      ...(filter && { filter }),
      ...(state !== (states[0]?.value ?? '') && { state }),
      ...ordering,
      ...but,
    });
    return query.size === 0 ? path : `${path}?${query.toString()}`;
  };
  return {
    /** For the operation. */
    input: {
      sort,
      order,
      page,
      limit: rowsAPage,
      ...(filter && { text: filter }),
      ...(state && { status: state }),
    },
    /** For a list that the page itself, not the operation, filters and cuts. */
    part: { filter, state, start: (page - 1) * rowsAPage, end: page * rowsAPage },
    /** Whether no filter is set. */
    isWhole: filter === '' && state === '',
    columns: columns.map((column): Column => {
      if (column.sort === undefined) return { text: column.text };
      const isNow = column.sort === sort;
      const next = isNow
        ? order === 'asc'
          ? 'desc'
          : 'asc'
        : column.sort === 'name'
          ? 'asc'
          : 'desc';
      const now = isNow ? (order === 'asc' ? 'ascending' : 'descending') : undefined;
      return { text: column.text, sort: { href: href({ sort: column.sort, order: next }), now } };
    }),
    frame(total: number): ListFrame {
      const from = Math.min((page - 1) * rowsAPage + 1, total);
      const to = Math.min(page * rowsAPage, total);
      return {
        path,
        filter,
        states: states.map(({ value, text }) => ({ value, text, isChosen: value === state })),
        hidden: ordering,
        range: `${from}–${to} of ${total}`,
        previous: page > 1 ? href(page > 2 ? { page: String(page - 1) } : {}) : undefined,
        next: to < total ? href({ page: String(page + 1) }) : undefined,
      };
    },
  };
}

/** A list page and its rows. */
interface ListedThings
  extends Pick<ListPageData, 'heading' | 'notice'>, Partial<Pick<ListPageData, 'tabs' | 'more'>> {
  readonly lead?: string;
  readonly caption: string;
  /** The action that adds a resource; `undefined` without permission. */
  readonly action?: ListPageData['action'];
  readonly query: ReturnType<typeof listQuery>;
  readonly rows: Table['rows'];
  /** The number of rows on all pages. */
  readonly total: number;
  /** Shown if there are no resources at all. */
  readonly none: string;
  /** Shown if none match the filter. Default: `none`. */
  readonly noneLikeThat?: string;
  /** Default: whether there are rows, or a filter is set. */
  readonly isSearchable?: boolean;
  readonly now: EpochSeconds;
}

/** Sends a list page with its action. */
export function sendListPage(
  reply: FastifyReply,
  visit: DashboardVisit,
  list: ListedThings,
  at: Pick<DashboardPageOptions, 'crumbs' | 'live'>,
): FastifyReply {
  const { heading, lead = '', tabs, notice, action, query, rows, none, more } = list;
  const { noneLikeThat = none, isSearchable = !query.isWhole || rows.length > 0 } = list;
  const data = {
    heading,
    lead,
    action,
    tabs,
    notice,
    list: query.frame(list.total),
    isSearchable,
    table: {
      caption: list.caption,
      columns: query.columns,
      rows,
      empty: query.isWhole ? { text: none, action } : { text: noneLikeThat },
      now: list.now,
    },
    more,
    here: reply.request.url,
  };
  return sendDashboardPage(reply, visit, listPage, data, at);
}

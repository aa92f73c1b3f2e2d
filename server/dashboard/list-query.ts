import { queryText } from '#http/query-text';
import type { ListFrame } from '#pages/list-pieces';
import type { Column } from '#pages/table';
import type { DashboardRequest } from './dashboard-door.ts';

const rowsAPage = 50;

/** What a list can be narrowed to and sorted by. */
export interface ListShape {
  /** Values of the operation's `status`, with their words; '' is all of them. */
  readonly states: readonly { readonly value: string; readonly text: string }[];
  /** Columns by the operation's `sort`; one without cannot be sorted by. The first sort is the usual one. */
  readonly columns: readonly { readonly text: string; readonly sort?: string }[];
  readonly usual: { readonly sort: string; readonly order: 'asc' | 'desc' };
}

/** What the URL of a list asks for. What it asks for in vain counts as not asked. */
export interface ListQuery {
  /** For the operation. */
  readonly input: Readonly<Record<string, string | number>>;
  /** Whether nothing narrows it. */
  readonly isWhole: boolean;
  readonly columns: readonly Column[];
  readonly frame: (total: number) => ListFrame;
}

/** Reads a list's URL: `filter`, `state`, `sort`, `order`, `page`. */
export function listQuery(request: DashboardRequest, shape: ListShape): ListQuery {
  const { states, columns, usual } = shape;
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
    input: {
      sort,
      order,
      page,
      limit: rowsAPage,
      ...(filter && { text: filter }),
      ...(state && { status: state }),
    },
    isWhole: filter === '' && state === '',
    columns: columns.map((column) => {
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
    frame(total) {
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

import { z } from 'zod';

import type { Page, PageQuery } from '#model/page';
import { words } from './fields.ts';

const mostALimit = 200;

/** The input fields that select a page of a list that cannot be sorted or searched. */
export const pageNumberFields = {
  page: z.coerce.number().int().min(1).max(100_000).default(1),
  limit: z.coerce.number().int().min(1).max(mostALimit).default(50),
};

/** The input fields that select a page of a list. `sorts` are the columns to sort by; the first is the default. */
export function pageFields<const Sorts extends readonly [string, ...string[]]>(
  sorts: Sorts,
  usual: { order: 'asc' | 'desc' } = { order: 'asc' },
) {
  const [first] = sorts;
  return {
    text: words(200).optional().describe('Only items whose name contains this'),
    sort: z.enum(sorts).default(z.enum(sorts).parse(first)),
    order: z.enum(['asc', 'desc']).default(usual.order),
    ...pageNumberFields,
  };
}

/** The output schema of a list: a page of it, and the total number of items. */
export function pageOf<Item extends z.ZodType>(item: Item) {
  return z.object({
    items: z.array(item),
    total: z.int().describe('The number of items on all pages'),
    page: z.int(),
    limit: z.int(),
  });
}

/** Converts the paging fields of an input to a query of the database. */
export function pageQuery<Sort extends string>({
  text,
  sort,
  order,
  page,
  limit,
}: {
  text?: string | undefined;
  sort: Sort;
  order: 'asc' | 'desc';
  page: number;
  limit: number;
}): PageQuery<Sort> {
  const wanted = text === '' ? undefined : text;
  return { text: wanted, sort, descending: order === 'desc', limit, offset: (page - 1) * limit };
}

/** Converts a page from the database to the output of a list. */
export function toPageView<Item, Shown>(
  { items, total }: Page<Item>,
  { page, limit }: { page: number; limit: number },
  show: (item: Item) => Shown,
) {
  return { items: items.map(show), total, page, limit };
}

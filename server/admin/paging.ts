import { z } from 'zod';

import type { Page, PageQuery } from '#listing/page';
import { words } from './fields.ts';

const mostALimit = 200;

/** The fields by which a list is asked for a part of it; `sorts` are the columns, the first the usual one. */
export function pageFields<const Sorts extends readonly [string, ...string[]]>(
  sorts: Sorts,
  usual: { order: 'asc' | 'desc' } = { order: 'asc' },
) {
  const [first] = sorts;
  return {
    text: words(200).optional().describe('Only what has this in its name'),
    sort: z.enum(sorts).default(z.enum(sorts).parse(first)),
    order: z.enum(['asc', 'desc']).default(usual.order),
    page: z.coerce.number().int().min(1).max(100_000).default(1),
    limit: z.coerce.number().int().min(1).max(mostALimit).default(50),
  };
}

/** A list's answer: a part of it, and how much there is. */
export function pageOf<Item extends z.ZodType>(item: Item) {
  return z.object({
    items: z.array(item),
    total: z.int().describe('How many there are on all pages'),
    page: z.int(),
    limit: z.int(),
  });
}

/** The paging fields of an input as a store takes them. */
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

/** A page of a store as the answer of a list. */
export function toPageView<Item, Shown>(
  { items, total }: Page<Item>,
  { page, limit }: { page: number; limit: number },
  show: (item: Item) => Shown,
) {
  return { items: items.map(show), total, page, limit };
}

import { expect, test } from 'vitest';

import type { DashboardRequest } from '#server/web/dashboard/guard';
import { listQuery } from '#server/web/dashboard/lists';

const shape = {
  states: [
    { value: '', text: 'All' },
    { value: 'revoked', text: 'Revoked' },
  ],
  columns: [
    { text: 'Name', sort: 'name' },
    { text: 'Created', sort: 'created_at' },
    { text: 'Key' },
  ],
  usual: { sort: 'created_at', order: 'desc' },
} as const;

function asked(search: string) {
  const query = Object.fromEntries(new URLSearchParams(search));
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion
  return listQuery({ url: `/keys?${search}`, query } as DashboardRequest, shape);
}

test('list: without a query it is the default one, unfiltered', () => {
  expect(asked('').input).toEqual({ sort: 'created_at', order: 'desc', page: 1, limit: 50 });
});

test('list: filter, state, order and page come from the URL', () => {
  const { input } = asked('filter=night&state=revoked&sort=name&order=asc&page=3');

  expect(input).toEqual({
    sort: 'name',
    order: 'asc',
    page: 3,
    limit: 50,
    text: 'night',
    status: 'revoked',
  });
});

test('list: order and page do not filter it', () => {
  const wholes = ['', 'sort=name&order=desc', 'page=2', 'state=king', 'filter=%20'];
  const narrowed = ['filter=a', 'state=revoked'];

  expect(wholes.filter((search) => !asked(search).isWhole)).toEqual([]);
  expect(narrowed.filter((search) => asked(search).isWhole)).toEqual([]);
});

test('list: invalid values in the URL are ignored', () => {
  const { input } = asked('state=king&sort=password&order=up&page=-7&filter=%00%0a');

  expect(input).toEqual({ sort: 'created_at', order: 'desc', page: 1, limit: 50 });
});

test('list: the column that it is sorted by links to the opposite order', () => {
  const [name, created, key] = asked('filter=a').columns;

  expect(name?.sort).toEqual({ href: '/keys?filter=a&sort=name&order=asc', now: undefined });
  expect(created?.sort).toEqual({
    href: '/keys?filter=a&sort=created_at&order=asc',
    now: 'descending',
  });
  expect(key?.sort).toBeUndefined();
});

test('list: links to the previous and next page keep the query', () => {
  const middle = asked('filter=a&page=2').frame(120);
  const last = asked('page=3').frame(120);

  expect(middle.range).toBe('51–100 of 120');
  expect(middle.previous).toBe('/keys?filter=a');
  expect(middle.next).toBe('/keys?filter=a&page=3');
  expect(last.next).toBeUndefined();
});

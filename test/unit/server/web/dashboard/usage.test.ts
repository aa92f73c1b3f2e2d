import { expect, test } from 'vitest';

import { usagePath } from '#server/web/dashboard/usage';

const of = (serverId: string, subject: string) =>
  usagePath('acme', { range: '24h', kind: 'tool', subject: { serverId, subject } });

test.each(['query', 'find-rows_2.1', '', 'a b', 'x&by=key', 'ünïcode/…', '%20', '1+1=2', '"><'])(
  'usage: the link to %j leads to it again',
  (subject) => {
    const { pathname, searchParams } = new URL(of('srv_1', subject), 'http://127.0.0.1');

    expect(pathname).toBe('/dashboard/acme/usage');
    expect(Object.fromEntries(searchParams)).toEqual({
      range: '24h',
      by: 'tool',
      server: 'srv_1',
      of: subject,
    });
  },
);

test('usage: a link to all subjects of a kind names none of them', () => {
  const all = usagePath('acme', { range: '1h', kind: 'key', subject: undefined }, '/usage.csv');

  expect(all).toBe('/dashboard/acme/usage.csv?range=1h&by=key');
});

import { expect, test } from 'vitest';
import { usagePath } from '#server/dashboard/usage-query';

const of = (serverId: string, subject: string) =>
  usagePath('acme', { range: '24h', kind: 'tool', subject: { serverId, subject } });

test.each(['query', 'find-rows_2.1', '', 'a b', 'x&by=key', 'ünïcode/…', '%20', '1+1=2', '"><'])(
  'what is called %j is found again by its link',
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

test('a link to all of a kind names none of it', () => {
  const all = usagePath('acme', { range: '1h', kind: 'key', subject: undefined }, '/usage.csv');

  expect(all).toBe('/dashboard/acme/usage.csv?range=1h&by=key');
});

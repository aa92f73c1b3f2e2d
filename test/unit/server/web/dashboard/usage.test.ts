import { expect, onTestFinished, test } from 'vitest';

import { insertServer } from '#server/db/servers';
import { insertKey } from '#server/db/keys';
import { type CallTally, recordCalls } from '#server/db/rollups';
import { usagePath } from '#server/web/dashboard/usage';
import { newKey } from '#support/made-records';
import { pageApp } from '#support/page-app';

const of = (serverId: string, subject: string) =>
  usagePath('acme', { range: '24h', kind: 'tool', serverId, subject });

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
  const all = usagePath('acme', { range: '1h', kind: 'key' }, '/usage.csv');

  expect(all).toBe('/dashboard/acme/usage.csv?range=1h&by=key');
});

/** A dashboard of `acme` with calls by two keys and a client at two servers, over three hours. */
async function called() {
  const app = await pageApp();
  onTestFinished(() => app[Symbol.asyncDispose]());
  const { db } = app.server.stores;
  const server = { organizationId: 'org_acme', name: 'stock', createdAt: 1 };
  const ids = { id: 'srv_stock', targetId: 'target_stock' };
  await insertServer(db, { ...server, ...ids, upstream: { kind: 'demo' } });
  for (const id of ['key_1', 'key_2']) await insertKey(db, newKey({ id, hash: id, name: id }));
  const now = app.server.clock.now();
  const none = { toolErrors: 0, refused: 0, upstreamErrors: 0, bucket: 4 };
  const tallies = (
    [
      ['srv_sales', 'key', 'key_1', 7, 0],
      ['srv_sales', 'key', 'key_2', 5, 1],
      ['srv_sales', 'client', 'client_1', 4, 1],
      ['srv_stock', 'client', 'client_1', 2, 2],
    ] as const
  ).flatMap(([serverId, kind, subject, calls, hours]): CallTally[] => {
    const ofServer = { serverId, targetId: serverId.replace('srv', 'target') };
    const call = { ...none, ...ofServer, calls, toolErrors: 1, at: now - hours * 3600 };
    return [
      { ...call, kind, subject },
      { ...call, kind: 'server', subject: serverId },
    ];
  });
  await recordCalls(db, tallies);
  const { cookie } = await app.browser('user_ada', { organizationId: 'org_acme', role: 'owner' });
  return { app, look: async (query: string) => app.get(`/dashboard/acme/usage?${query}`, cookie) };
}

/** The calls that the bars of the first plot say together, and the first number of each row of the table below. */
function numbersOn(text: string) {
  const [plot = ''] = /<figure[\s\S]*?<\/figure>/.exec(text) ?? [];
  const bars = [...plot.matchAll(/aria-label="[^"]*: (\d+) calls?"/g)].map(([, calls]) =>
    Number(calls),
  );
  const [table = ''] =
    /<table>\n<caption class="unseen">[^<]*busiest first[\s\S]*?<\/table>/.exec(text) ?? [];
  const rows = [
    ...table.matchAll(
      /<th scope="row">[\s\S]*?dir="auto">([^<]*)<[\s\S]*?<td[^>]*><span[^>]*>(\d+)</g,
    ),
  ];
  return {
    inPlot: bars.reduce((sum, calls) => sum + calls, 0),
    steps: bars.length,
    rows: Object.fromEntries(rows.map(([, name = '', calls]) => [name, Number(calls)])),
  };
}

test.each([
  ['by=server', 18, { sales: 16, stock: 2 }],
  ['by=client', 6, { 'Deleted (client_1) · sales': 4, 'Deleted (client_1) · stock': 2 }],
  ['by=key', 12, { key_1: 7, key_2: 5 }],
  ['by=server&server=srv_stock', 2, { stock: 2 }],
  ['by=client&server=srv_sales', 4, { 'Deleted (client_1)': 4 }],
  ['by=server&who=key%3Akey_2', 5, { key_2: 5 }],
  ['by=tool&server=srv_sales&who=client%3Aclient_1', 4, { 'Deleted (client_1)': 4 }],
  ['by=client&of=client_1&range=1h', 0, {}],
])('usage: with the filter %s, plot and table agree', async (query, calls, rows) => {
  const { look } = await called();

  const { text } = await look(query);
  const { inPlot, rows: found } = numbersOn(text);
  const { Total = Object.values(found).reduce((sum, one) => sum + one, 0), ...subjects } = found;

  expect(subjects).toEqual(rows);
  expect([inPlot, Total]).toEqual([calls, calls]);
});

test('usage: every hour has a bar, an hour without calls says so, and the current one is marked', async () => {
  const { look } = await called();

  const { text } = await look('by=server');

  expect(numbersOn(text).steps).toBe(24);
  expect(text.match(/: 0 calls"/g)).toHaveLength(21);
  expect(
    text.match(/class="bar current"[^>]*aria-label="[^"]*, until now: 7 calls"/g),
  ).toHaveLength(1);
});

test('usage: an id of another organization reveals nothing', async () => {
  const { look } = await called();

  const answers = await Promise.all(
    ['by=key&of=key_other', 'server=srv_other', 'who=client%3Aclient_other'].map(look),
  );

  expect(answers.map(({ status }) => status)).toEqual([404, 404, 404]);
});

import { expect, onTestFinished, test } from 'vitest';

import { insertServer } from '#server/db/servers';
import { insertKey } from '#server/db/keys';
import { callerSubject, type CallTally, untimed } from '#server/model/call-counts';
import { recordCalls } from '#server/db/rollups';
import { usagePath } from '#server/web/dashboard/usage-query';
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
  const look = async (query: string, format = '') =>
    app.get(`/dashboard/acme/usage${format}?${query}`, cookie);
  return { app, look };
}

/** The sum and the number of the bars of the first plot, and the first number of each row of the table below. */
function numbersOn(text: string) {
  const [plot = ''] = /<figure[\s\S]*?<\/figure>/.exec(text) ?? [];
  const bars = [...plot.matchAll(/aria-label="[^"]*: (\d+) calls?(?:, \d+ errors?)?"/g)].map(
    ([, calls]) => Number(calls),
  );
  const [table = ''] =
    /<table>\n<caption class="unseen">[^<]*busiest first[\s\S]*?<\/table>/.exec(text) ?? [];
  const rows = [
    ...table.matchAll(
      /<th scope="row">[\s\S]*?dir="auto">([^<]*)<[\s\S]*?<td[^>]*><(?:span|a)[^>]*>(\d+)</g,
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
    text.match(/class="bar current"[^>]*aria-label="[^"]*, until now: 7 calls[^"]*"/g),
  ).toHaveLength(1);
});

test('usage: an id of another organization reveals nothing', async () => {
  const { look } = await called();

  const answers = await Promise.all(
    ['by=key&of=key_other', 'server=srv_other', 'who=client%3Aclient_other'].map((query) =>
      look(query),
    ),
  );

  expect(answers.map(({ status }) => status)).toEqual([404, 404, 404]);
});

/** A dashboard of `acme` in which Eli and a key used tools of two servers. */
async function withCallers() {
  const { app, look } = await called();
  const { db } = app.server.stores;
  await app.browser('user_eli', { organizationId: 'org_acme', role: 'member' });
  const eli = { type: 'person', id: 'user_eli' } as const;
  const key = { type: 'key', id: 'key_1' } as const;
  const none = { toolErrors: 0, refused: 0, upstreamErrors: 0, at: app.server.clock.now() };
  const tallies = (
    [
      ['srv_sales', eli, 'refund', { calls: 9, toolErrors: 2, refused: 1 }],
      ['srv_sales', key, 'refund', { calls: 4 }],
      ['srv_stock', eli, 'count', { calls: 3 }],
      ['srv_stock', key, '(other)', { calls: 1, toolErrors: 1 }],
    ] as const
  ).flatMap(([serverId, caller, tool, counts]): CallTally[] => {
    const targetId = serverId.replace('srv', 'target');
    const call = { ...none, serverId, targetId, ...counts };
    const ofTool = { ...call, kind: 'tool', subject: tool, bucket: 4 } as const;
    const ofPerson = { ...call, kind: caller.type, subject: caller.id, bucket: 4 } as const;
    const subject = callerSubject(caller, tool);
    return [ofTool, ofPerson, { ...call, kind: 'caller', subject, bucket: untimed }];
  });
  await recordCalls(db, tallies);
  return look;
}

/** The rows of a table, each with the texts of its cells. */
function rowsIn(text: string, caption: string) {
  const [, body = ''] =
    new RegExp(`<caption class="unseen">${caption}[\\s\\S]*?<tbody>([\\s\\S]*?)</tbody>`).exec(
      text,
    ) ?? [];
  return [...body.matchAll(/<tr[\s\S]*?<\/tr>/g)].map(([row]) =>
    [...row.matchAll(/<t[hd][\s\S]*?<\/t[hd]>/g)].map(([cell]) =>
      cell.replaceAll(/<[^>]+>/g, '').trim(),
    ),
  );
}

test('usage: who used which tool, with failures, and links to these calls', async () => {
  const look = await withCallers();

  const { text } = await look('by=caller');
  const links = [
    ...text.matchAll(/href="[^"]*(activity\?[^"]*)&amp;from=[^"]*" aria-label="([^"]*)"/g),
  ];

  expect(rowsIn(text, 'Callers and tools')).toEqual([
    ['user_eli@example.com', 'refund · sales', '9', '3 (33.3%)', '1'],
    ['key_1', 'refund · sales', '4', '0', '0'],
    ['user_eli@example.com', 'count · stock', '3', '0', '0'],
    ['key_1', '(other) · stock', '1', '1 (100%)', '0'],
    ['Total', '', '17', '4 (23.5%)', '1'],
  ]);
  expect(links.map(([, href, label]) => [label, href?.replaceAll('&amp;', '&')])).toEqual([
    [
      '9 calls: user_eli@example.com, refund · sales',
      'activity?endpoint=srv_sales&tool=refund&person=user_eli',
    ],
    [
      '3 (33.3%) failed calls: user_eli@example.com, refund · sales',
      'activity?endpoint=srv_sales&tool=refund&person=user_eli&outcome=failed',
    ],
    [
      '1 denied calls: user_eli@example.com, refund · sales',
      'activity?endpoint=srv_sales&tool=refund&person=user_eli&outcome=refused',
    ],
    ['4 calls: key_1, refund · sales', 'activity?endpoint=srv_sales&tool=refund&credential=key_1'],
    [
      '3 calls: user_eli@example.com, count · stock',
      'activity?endpoint=srv_stock&tool=count&person=user_eli',
    ],
  ]);
  expect(text).not.toContain('Median');
});

test.each([
  ['by=person&of=user_eli', ['user_eli@example.com', 'refund · sales'], 3],
  ['by=person&of=user_eli&server=srv_stock', ['user_eli@example.com', 'count'], 1],
  ['by=key&of=key_1', ['key_1', 'refund · sales'], 3],
  ['by=tool&of=refund', ['user_eli@example.com', 'refund'], 3],
  ['by=server&of=srv_sales', ['user_eli@example.com', 'refund'], 3],
  ['by=client&of=client_1', undefined, 0],
  ['by=person', undefined, 0],
])('usage: %s also says who used which tool', async (query, first, count) => {
  const look = await withCallers();

  const { status, text } = await look(query);
  const rows = rowsIn(text, 'Callers and tools');

  expect(status).toBe(200);
  expect(rows).toHaveLength(count);
  expect(rows[0]?.slice(0, 2)).toEqual(first);
});

test('usage: a caller with a tool has a page, and the CSV has a row for each', async () => {
  const look = await withCallers();
  const { text: list } = await look('by=caller');
  const [, href = ''] = /usage\?([^"]*of=person[^"]*)"/.exec(list) ?? [];

  const { text } = await look(href.replaceAll('&amp;', '&'));
  const { text: csv } = await look('by=caller', '.csv');

  expect(text).toContain('<h1 dir="auto">user_eli<wbr>@example.com · refund</h1>');
  expect(rowsIn(text, 'Callers and tools')).toHaveLength(1);
  expect(csv.split('\r\n').slice(0, 2)).toEqual([
    'caller,caller_id,tool,server,calls,tool_errors,refused,upstream_errors',
    '"user_eli@example.com","user_eli","refund","sales",9,2,1,0',
  ]);
});

test('usage: the errors of an application lead to the failed calls of all its versions', async () => {
  const { app, look } = await called();
  const ids = { serverId: 'srv_sales', targetId: 'target_sales' };
  const counts = { calls: 4, toolErrors: 1, refused: 0, upstreamErrors: 0, bucket: 4 };
  await recordCalls(app.server.stores.db, [
    { ...ids, ...counts, at: app.server.clock.now(), kind: 'application', subject: 'Claude Code' },
  ]);

  const { text } = await look('by=application');

  expect(rowsIn(text, 'Applications')[0]?.slice(0, 3)).toEqual(['Claude Code', '4', '1 (25%)']);
  expect(text).toContain(
    'activity?endpoint=srv_sales&amp;application=Claude+Code&amp;versions=all&amp;outcome=failed&amp;from=',
  );
});

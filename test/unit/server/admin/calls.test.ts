import { expect, onTestFinished, test, vi } from 'vitest';

import { exportCalls } from '#server/activity/export-calls';
import { callExport, callList, callRead, isKnownAddress } from '#server/admin/calls';
import { operator, perform } from '#server/admin/operation';
import { findCommand } from '#server/cli/find-command';
import { readOptions } from '#server/config/read-options';
import { addGaps } from '#server/db/call-gaps';
import { findOrganization } from '#server/db/organizations';
import { deleteUser } from '#server/db/people';
import { findServer } from '#server/db/servers';
import { passwordHashing } from '#server/accounts/passwords';
import type { EndedCall } from '#server/model/calls';
import { administered } from '#support/administered';
import { administrationWithServer, type Administration } from '#support/administration';
import { recordCalls } from '#support/made-calls';
import { newestEvents } from '#support/newest-events';

const acme = { organization: 'acme' };
const elsewhere = { id: 'ep_other', organization: 'other', name: 'web' };

async function withCalls() {
  const at = await administered();
  const by = {
    owner: await at.person('owner'),
    admin: await at.person('admin'),
    member: await at.person('member'),
    viewer: await at.person('viewer'),
    other: await at.person('owner', 'other'),
    nobody: await at.person(undefined),
  };
  const target = (await findServer(at.stores.db, 'acme', 'web'))?.target.id ?? '';
  await recordCalls(at.stores.db, at.clock.now() * 1000, [
    { subject: 'search', userId: 'user_1' },
    { subject: 'elsewhere', endpoint: elsewhere, userId: 'user_5' },
    {
      subject: 'refund_order',
      userId: 'user_3',
      credential: { type: 'key', id: 'key_ci' },
      end: 'refused',
      error: 'insufficient_scope',
    },
    {
      subject: 'refund_list',
      userId: 'user_3',
      target: { id: target, name: 'web' },
      account: 'person_account',
      application: { text: 'Claude 1.0', source: 'client_info' },
      end: 'cancelled',
    },
  ]);
  at.clock.advance(10);
  const tools = async (input: object, as?: keyof typeof by) => {
    const { items } = await at.perform(callList, { ...acme, ...input }, as && by[as]);
    return items.map(({ tool }) => tool);
  };
  return { at, by, tools };
}

const all = ['refund_list', 'refund_order', 'search'];

test.each(['owner', 'admin'] as const)('the %s lists, reads and exports all calls', async (who) => {
  const { at, by, tools } = await withCalls();
  await using _ = at;

  expect(await tools({}, who)).toEqual(all);
  const [first] = (await at.perform(callList, acme, by[who])).items;
  expect(await at.perform(callRead, { ...acme, callId: first?.id }, by[who])).toEqual(first);
  await at.perform(callExport, { ...acme, format: 'csv' }, by[who]);
  expect(await newestEvents(at.stores.db, 1)).toMatchObject([
    {
      action: 'call.export',
      actor: who === 'owner' ? 'user:user_1' : 'user:user_2',
      target: 'csv',
    },
  ]);
});

test.each(['other', 'nobody'] as const)('a person of %s finds no call', async (who) => {
  const { at, by, tools } = await withCalls();
  await using _ = at;
  const [first] = (await at.perform(callList, acme)).items;
  const code = 'not_found';

  await expect(tools({}, who)).rejects.toMatchObject({ code });
  await expect(tools({ person: 'user_5' }, who)).rejects.toMatchObject({ code });
  const read = at.perform(callRead, { ...acme, callId: first?.id }, by[who]);
  await expect(read).rejects.toMatchObject({ code });
  const exported = at.perform(callExport, { ...acme, format: 'jsonl' }, by[who]);
  await expect(exported).rejects.toMatchObject({ code });
});

test('members and viewers list, read and export their own calls only', async () => {
  const { at, by, tools } = await withCalls();
  await using _ = at;
  const [ofMember, , ofOwner] = (await at.perform(callList, acme)).items;
  const read = (callId: string | undefined) => at.perform(callRead, { ...acme, callId }, by.member);
  const exported = { ...acme, format: 'jsonl' };

  expect(await tools({}, 'member')).toEqual(['refund_list', 'refund_order']);
  expect(await tools({ person: 'p3@example.com' }, 'member')).toHaveLength(2);
  expect(await tools({}, 'viewer')).toEqual([]);
  expect(await read(ofMember?.id)).toEqual(ofMember);
  await expect(read(ofOwner?.id)).rejects.toMatchObject({ code: 'not_found' });
  const { query } = await at.perform(callExport, exported, by.viewer);
  expect(query.filter.person).toBe('user_4');
  for (const person of ['user_1', 'p1@example.com', 'nobody@example.com', '']) {
    await expect(tools({ person }, 'member')).rejects.toMatchObject({ code: 'forbidden' });
    const others = at.perform(callExport, { ...exported, person }, by.member);
    await expect(others).rejects.toMatchObject({ code: 'forbidden' });
  }
});

test('members do not learn from their own refused calls which tools exist', async () => {
  const { at, by } = await withCalls();
  await using _ = at;
  const codes = ['unknown_tool', 'hidden_tool', 'withheld_tool', 'closed_tool'];
  const refused = codes.map((error) => ({
    subject: `a_tool ${error}`,
    userId: 'user_3',
    end: 'refused' as const,
    error,
  }));
  await recordCalls(at.stores.db, at.clock.now() * 1000, refused);
  at.clock.advance(10);
  const wanted = { ...acme, tool: 'a_tool*' };
  const found = async (who: keyof typeof by, error?: string) =>
    (await at.perform(callList, { ...wanted, error }, by[who])).items;
  const exported = async (who: keyof typeof by) => {
    const { query } = await at.perform(callExport, { ...wanted, format: 'jsonl' }, by[who]);
    const pieces: string[] = [];
    for await (const piece of exportCalls(query, 'jsonl', at.stores.db)) pieces.push(piece);
    const lines = pieces.join('').trimEnd().split('\n');
    return lines.map((line): unknown => JSON.parse(line).error);
  };
  const seen = (items: Awaited<ReturnType<typeof found>>) =>
    new Set(items.map(({ error, reason, remedy }) => [error, reason, remedy].join()));

  const own = await found('member');
  expect(own).toHaveLength(4);
  expect(seen(own).size).toBe(1);
  const read = own.map(({ id }) => at.perform(callRead, { ...acme, callId: id }, by.member));
  expect(seen(await Promise.all(read))).toEqual(seen(own));
  expect(await exported('member')).toEqual(codes.map(() => 'unknown_tool'));
  expect(await found('member', 'unknown_tool')).toEqual(own);
  expect(await found('member', 'hidden_tool')).toEqual([]);
  expect(await exported('admin')).toEqual(codes.toReversed());
  expect(await found('admin', 'hidden_tool')).toHaveLength(1);
});

test('missing calls: those who see all calls read how many, others only when, and other organizations nothing', async () => {
  const { at, by } = await withCalls();
  await using _ = at;
  const { db } = at.stores;
  const organizationId = (await findOrganization(db, 'acme'))?.id ?? '';
  const nowMs = at.clock.now() * 1000;
  const gap = { organizationId, node: 'node-1', reason: 'queue_full', fromMs: nowMs } as const;
  await addGaps(db, [{ ...gap, untilMs: nowMs + 1, calls: 7 }]);
  const missing = async (who: keyof typeof by, organization = 'acme') =>
    (await at.perform(callList, { organization }, by[who])).missing;
  const times = { from: at.clock.now(), until: at.clock.now() + 1, reason: 'queue_full' };

  expect(await missing('admin')).toEqual([{ ...times, calls: 7 }]);
  expect(await missing('viewer')).toEqual([{ ...times, calls: null }]);
  expect(await missing('other', 'other')).toEqual([]);
});

test('a call of another organization is found neither by its id nor beyond a cursor', async () => {
  const { at, by, tools } = await withCalls();
  await using _ = at;
  const [theirs] = (await at.perform(callList, { organization: 'other' })).items;
  const read = at.perform(callRead, { ...acme, callId: theirs?.id }, by.owner);

  expect(theirs?.tool).toBe('elsewhere');
  await expect(read).rejects.toMatchObject({ code: 'not_found' });
  expect(await tools({ after: theirs?.id }, 'owner')).toEqual(['search']);
  expect(await tools({ newer: theirs?.id }, 'owner')).toEqual(['refund_list', 'refund_order']);
  const [, ours] = (await at.perform(callList, acme)).items;
  const inTheirs = await at.perform(callList, { organization: 'other', newer: ours?.id }, by.other);
  expect(inTheirs.items).toEqual([]);
});

test.each<[string, Readonly<Record<string, string | number>>, readonly string[]]>([
  ['a person', { person: 'user_3' }, ['refund_list', 'refund_order']],
  ['an e-mail address', { person: 'P3@example.com' }, ['refund_list', 'refund_order']],
  ['an unknown e-mail address', { person: 'nobody@example.com' }, []],
  ['a person elsewhere', { person: 'user_5' }, []],
  ['an application', { application: 'Claude 1.0' }, ['refund_list']],
  ['a credential', { credential: 'key_ci' }, ['refund_order']],
  ['a server', { server: 'web' }, ['refund_list']],
  ['a tool', { tool: 'search' }, ['search']],
  ['a pattern', { tool: 'refund*' }, ['refund_list', 'refund_order']],
  ['a pattern in the middle', { tool: '*_o*' }, ['refund_order']],
  ['a pattern of one that matches all', { tool: '*' }, all],
  ['a pattern that matches nothing', { tool: 'nothing*' }, []],
  ['signs that databases use in patterns', { tool: 'refund%*' }, []],
  ['one character of a database pattern', { tool: 'refund?list*' }, []],
  ['an outcome', { outcome: 'refused' }, ['refund_order']],
  ['failed ones', { outcome: 'failed' }, ['refund_order']],
  ['an error', { error: 'insufficient_scope' }, ['refund_order']],
  ['an account', { account: 'person_account' }, ['refund_list']],
  ['another account', { account: 'server_account' }, []],
  ['two at once', { person: 'user_3', tool: 'refund*', outcome: 'cancelled' }, ['refund_list']],
  ['a beginning', { from: 1_800_000_000 }, all],
  ['a later beginning', { from: 1_800_000_001 }, []],
  ['an end', { until: 1_800_000_000 }, []],
  ['a later end', { until: 1_800_000_001 }, all],
])('calls are selected by %s', async (_what, filter, expected) => {
  const { at, tools } = await withCalls();
  await using _ = at;

  expect(await tools(filter)).toEqual(expected);
});

test('a search ends when no one waits for it any more', async () => {
  const { at } = await withCalls();
  await using _ = at;
  const calls = Array.from({ length: 5000 }, () => ({ userId: 'user_3' }));
  await recordCalls(at.stores.db, at.clock.now() * 1000, calls);
  at.clock.advance(10);
  const input = { ...acme, person: 'user_1' };
  const ports = { ...at.ports, signal: AbortSignal.abort() };

  const whole = await at.perform(callList, input);
  const ended = await perform(callList, input, operator, ports);

  expect(whole).toMatchObject({ items: [{ tool: 'search' }], searchedTo: null });
  expect(ended).toMatchObject({ items: [], searchedTo: expect.any(Number) });
});

test('calls of a deleted account are found by the address that they carry, by those who may see them', async () => {
  const { at, tools } = await withCalls();
  await using _ = at;
  await deleteUser(at.stores.db, 'user_3');
  const person = 'P3@example.com';

  expect(await tools({ person }, 'admin')).toEqual(['refund_list', 'refund_order']);
  expect(await tools({ person, tool: 'refund_l*' }, 'owner')).toEqual(['refund_list']);
  expect(await tools({ organization: 'other', person }, 'other')).toEqual([]);
  await expect(tools({ person }, 'viewer')).rejects.toMatchObject({ code: 'forbidden' });
});

test.each([
  ['of a member without calls', 'p2@example.com', true],
  ['of a person whose account was deleted, but not their calls', 'P3@example.com', true],
  ['of a person who left and has no calls', 'p4@example.com', false],
  ['of a person of another organization', 'p5@example.com', false],
  ['that nobody has', 'p33@example.com', false],
])('an address is known or not: one %s', async (_, address, isKnown) => {
  const { at } = await withCalls();
  await using __ = at;
  await deleteUser(at.stores.db, 'user_3');
  await deleteUser(at.stores.db, 'user_4');
  const { id = '' } = (await findOrganization(at.stores.db, 'acme')) ?? {};
  // Long after the calls that have the address.
  at.clock.advance(90 * 86_400);

  expect(await isKnownAddress(address, id, at.ports)).toBe(isKnown);
});

test.each([
  ['outcome', 'nope'],
  ['account', 'nope'],
  ['tool', 'x'.repeat(501)],
  ['person', 'a\nb'],
  ['error', 'x'.repeat(101)],
  ['after', 'x'],
  ['after', '0'.repeat(25)],
  ['newer', "' or 1=1 --"],
  ['from', 'yesterday'],
  ['limit', 201],
  ['limit', 0],
  ['unknown', 'x'],
])('a wrong %s, %j, is refused', async (name, value) => {
  const { at, tools } = await withCalls();
  await using _ = at;

  await expect(tools({ [name]: value })).rejects.toMatchObject({ code: 'invalid' });
});

test('calls of a server that does not exist are not found', async () => {
  const { at, tools } = await withCalls();
  await using _ = at;

  await expect(tools({ server: 'nope' })).rejects.toMatchObject({ code: 'not_found' });
});

test('pages of calls go on without a gap in both directions, also while calls arrive', async () => {
  const { at } = await withCalls();
  await using _ = at;
  const page = async (input: object) => {
    const { items, next } = await at.perform(callList, { ...acme, limit: 2, ...input });
    return { tools: items.map(({ tool }) => tool), ids: items.map(({ id }) => id), next };
  };
  const first = await page({});
  await recordCalls(at.stores.db, at.clock.now() * 1000, [
    { subject: 'new_1' },
    { subject: 'new_2' },
    { subject: 'new_3' },
  ]);
  const early = await page({ newer: first.ids[0] });
  at.clock.advance(10);
  const second = await page({ after: first.next });
  const newer = await page({ newer: first.ids[0] });
  const newest = await page({ newer: newer.next });

  expect(first.tools).toEqual(['refund_list', 'refund_order']);
  expect(early).toEqual({ tools: [], ids: [], next: null });
  expect([second.tools, second.next]).toEqual([['search'], null]);
  expect(newer.tools).toEqual(['new_2', 'new_1']);
  expect([newest.tools, newest.next]).toEqual([['new_3'], null]);
});

const evil = '=HYPERLINK("https://evil.example")';

/** A call whose texts attack spreadsheets and terminals. */
const attack: Partial<EndedCall> = {
  subject: evil,
  application: { text: '+1\u001b[2J\u202e', source: 'user_agent' },
  requestId: '@SUM(1)',
  error: '-2+3\r\nx,"y"',
  end: 'protocol_error',
};

test('an export escapes formulas, control characters and quotes, and has the selected calls only', async () => {
  const { at } = await withCalls();
  await using _ = at;
  await recordCalls(at.stores.db, at.clock.now() * 1000, [attack]);
  at.clock.advance(10);
  const text = async (filter: object, format: 'csv' | 'jsonl') => {
    const { query } = await at.perform(callExport, { ...acme, ...filter, format });
    const pieces: string[] = [];
    for await (const piece of exportCalls(query, format, at.stores.db)) pieces.push(piece);
    return pieces.join('');
  };

  const csv = await text({ outcome: 'protocol_error' }, 'csv');
  expect(csv).toMatch(/^at,duration_ms,person,application,/);
  expect(csv.split('\r\n')).toHaveLength(3);
  expect(csv).toContain(`"'=HYPERLINK(""https://evil.example"")"`);
  expect(csv).toContain(`"'+1`);
  expect(csv).toContain(`"'@SUM(1)"`);
  expect(csv).toContain(`"'-2+3`);
  expect(csv.replaceAll('\r\n', '')).not.toMatch(/[\p{Cc}\p{Cf}]/u);
  const lines = (await text({}, 'jsonl')).trimEnd().split('\n');
  expect(lines).toHaveLength(4);
  expect(lines.join('')).not.toMatch(/[\p{Cc}\p{Cf}]/u);
  expect(lines.map((line) => JSON.parse(line).tool)).toEqual([evil, ...all]);
});

test('an export stops once its reader has left', async () => {
  const { at } = await withCalls();
  await using _ = at;
  const many = Array.from({ length: 600 }, (): Partial<EndedCall> => ({ subject: 'search' }));
  await recordCalls(at.stores.db, at.clock.now() * 1000, many);
  at.clock.advance(10);
  const { query } = await at.perform(callExport, { ...acme, format: 'jsonl' });
  const reader = new AbortController();
  const pieces = exportCalls(query, 'jsonl', at.stores.db, { signal: reader.signal });
  const first = await pieces.next();

  reader.abort();
  const second = await pieces.next();

  expect(first.done).toBe(false);
  expect(second).toEqual({ done: true, value: undefined });
});

async function commandWithCalls(): Promise<Administration> {
  const admin = await administrationWithServer();
  await recordCalls(admin.stores.db, admin.clock.now() * 1000, [
    { subject: 'search' },
    { subject: 'refund', end: 'refused', error: 'insufficient_scope' },
  ]);
  admin.clock.advance(10);
  return admin;
}

test.each([
  ['--since', 'yesterday'],
  ['--since', '2026-13-01'],
  ['--until', '2 hours'],
  ['--until', '-1h'],
  ['--outcome', 'nope'],
  ['--account', 'nope'],
  ['--limit', '201'],
  ['--limit', 'many'],
])('call list %s %s is refused as wrong usage', async (option, value) => {
  await using admin = await commandWithCalls();

  await expect(admin.run('call', 'list', 'acme', `${option}=${value}`)).rejects.toMatchObject({
    name: expect.stringMatching(/^(UsageError|CommandError)$/),
    message: expect.stringContaining(option.slice(2)),
  });
});

test('call list prints the documented members, and a table for people', async () => {
  await using admin = await commandWithCalls();
  const refused = await admin.json('call', 'list', 'acme', '--tool', 'ref*', '--since', '1h');

  expect(refused).toEqual([
    {
      at: '2027-01-15T08:00:00.000Z',
      duration_ms: 12,
      person: null,
      application: null,
      credential: expect.any(String),
      endpoint: 'library',
      server: 'library',
      method: 'tools/call',
      tool: 'refund',
      outcome: 'refused',
      error: 'insufficient_scope',
      request_id: 'r1',
      times: 1,
      id: expect.stringMatching(/^[\da-f]{24}$/),
    },
  ]);
  const table = await admin.run('call', 'list', 'acme');
  expect(table[0]).toMatch(/^called_at +who +application +server +tool +outcome +error +ms +id$/);
  expect(table).toHaveLength(3);
  expect(await admin.run('call', 'list', 'acme', '--since', '5s')).toEqual(['no matching calls']);
  expect(await admin.json('call', 'list', 'acme', '--until', '5s')).toHaveLength(2);
  expect(await admin.json('call', 'list', 'acme/web')).toEqual([]);
});

test('call show and call export print a call; unknown ones are refused', async () => {
  await using admin = await commandWithCalls();
  const [first] = (await admin.run('call', 'export', 'acme')).map((line) => JSON.parse(line));
  const csv = await admin.run('call', 'export', 'acme', '--csv', '--outcome', 'failed');

  expect(await admin.json('call', 'show', 'acme', first.id)).toMatchObject({
    id: first.id,
    tool: 'refund',
    address: '192.0.2.1',
    account: 'none',
    bytes_in: 100,
  });
  expect(csv).toHaveLength(2);
  for (const wrong of [
    ['call', 'show', 'acme', '0'.repeat(24)],
    ['call', 'list', 'nope'],
    ['call', 'export', 'acme/nope'],
  ]) {
    await expect(admin.run(...wrong)).rejects.toMatchObject({ name: 'CommandError' });
  }
});

test('call list says which calls are missing in the selected time, and call export too', async () => {
  await using admin = await commandWithCalls();
  const fromMs = (admin.clock.now() - 3600) * 1000;
  const { db } = admin.stores;
  const organization = await findOrganization(db, 'acme');
  const gap = {
    organizationId: organization?.id ?? '',
    node: 'node-1',
    reason: 'queue_full',
  } as const;
  await addGaps(db, [{ ...gap, fromMs, untilMs: fromMs + 1500, calls: 12 }]);
  const words =
    '12 calls between 2027-01-15T07:00:10Z and 2027-01-15T07:00:12Z are missing: the queue was full';

  const listed = await admin.json('call', 'list', 'acme');
  expect([listed, admin.told]).toEqual([expect.any(Array), [words]]);
  await admin.run('call', 'export', 'acme', '--csv');
  expect(admin.told).toEqual([words]);
  await admin.run('call', 'list', 'acme', '--since', '30m');
  expect(admin.told).toEqual([]);
});

test('call list goes on with a search that takes long, and says how far it is', async () => {
  await using admin = await commandWithCalls();
  const nowMs = (admin.clock.now() - 7200) * 1000;
  const calls = Array.from({ length: 9000 }, () => ({ userId: 'eli' }));
  await recordCalls(admin.stores.db, nowMs - 1000, [{ userId: 'dana', subject: 'rare' }]);
  await recordCalls(admin.stores.db, nowMs, calls);
  let passedMs = 0;
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => (passedMs += 1000));
  onTestFinished(() => clock.mockRestore());

  const found = await admin.json('call', 'list', 'acme', '--person', 'dana');

  expect(found).toMatchObject([{ tool: 'rare' }]);
  expect(admin.told.length).toBeGreaterThan(0);
  for (const line of admin.told) {
    expect(line).toMatch(
      /^searched back to 2027-01-15T06:00:\d\dZ, 0 found so far; Ctrl\+C stops the search$/,
    );
  }
});

/** Follows until the tool `last` is printed; returns the tools in the order of printing. Calls `printed` after each one. */
async function followed(
  admin: Administration,
  words: readonly string[],
  { last, printed }: { readonly last: string; readonly printed?: (tool: string) => void },
): Promise<string[]> {
  const tools: string[] = [];
  const { command, rest } = findCommand(['call', 'list', 'acme', '--follow', ...words]);
  if (!('run' in command)) throw new TypeError('not a command on stores');
  const ended = new Error('ended');
  const out = (line: string) => {
    const { tool }: { tool: string } = JSON.parse(line);
    tools.push(tool);
    printed?.(tool);
    if (tool === last) throw ended;
  };
  const { stores, clock } = admin;
  const readPassword = async () => ({ password: '', repeated: '' });
  const tell = () => undefined;
  const tryUrl = () => Promise.resolve(undefined);
  const ports = { stores, clock, out, tell, readPassword, hashing: passwordHashing(), tryUrl };
  const running = command.run(readOptions(command.options, rest, {}), ports);
  await expect(running).rejects.toBe(ended);
  return tools;
}

test('call list --follow prints each later call once, also more than one page of them', async () => {
  await using admin = await commandWithCalls();
  const { db } = admin.stores;
  const many = Array.from({ length: 250 }, (_, index) => ({ subject: `later_${index}` }));
  const nowMs = admin.clock.now() * 1000;
  await recordCalls(db, nowMs, many);
  const following = followed(admin, [], {
    last: 'end',
    printed(tool) {
      // The watermark passes the later calls only after the first page was printed.
      if (tool === 'search') admin.clock.advance(10);
      if (tool === 'later_249')
        void recordCalls(db, nowMs + 1000, [{ subject: 'end' }]).then(() =>
          admin.clock.advance(10),
        );
    },
  });

  expect(await following).toEqual([
    'search',
    'refund',
    ...many.map(({ subject }) => subject),
    'end',
  ]);
});

test('call list --follow prints a call that was recorded just before it began', async () => {
  await using admin = await commandWithCalls();
  await recordCalls(admin.stores.db, admin.clock.now() * 1000 - 1000, [{ subject: 'fresh' }]);
  const following = followed(admin, ['--tool', 'fresh'], { last: 'fresh' });
  setTimeout(() => admin.clock.advance(10), 300);

  expect(await following).toEqual(['fresh']);
});

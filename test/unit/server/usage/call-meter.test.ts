import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import type { CallTally } from '#server/model/call-counts';
import type { MeteredCall } from '#server/gateway/metering';
import { CallMeter, CountedNames, otherNames } from '#server/usage/call-meter';
import { type StillClock, stillClock } from '#support/still-clock';

type Ports = ConstructorParameters<typeof CallMeter>[1];
const record = vi.fn<Ports['record']>();
const listed = vi.fn<Ports['listed']>();
const deleteOld = vi.fn<Ports['deleteOld']>();
const failed = vi.fn();
let clock: StillClock;
let meter: CallMeter;

const start = (counted: ConstructorParameters<typeof CallMeter>[0] = []) => {
  meter = new CallMeter(counted, { record, listed, deleteOld, clock, failed });
};

beforeEach(() => {
  vi.useFakeTimers();
  clock = stillClock(1_800_000_030);
  for (const spy of [record, listed, deleteOld, failed]) spy.mockReset();
  record.mockResolvedValue();
  listed.mockResolvedValue([]);
  deleteOld.mockResolvedValue();
  start();
});

afterEach(async () => {
  await meter.close();
  vi.useRealTimers();
});

function call(but: Partial<MeteredCall> = {}): MeteredCall {
  return {
    serverId: 'srv_sales',
    targetId: 'target_sales',
    credential: { type: 'key', id: 'key_a' },
    method: 'tools/call',
    tool: 'query',
    outcome: 'ok',
    ms: 12,
    ...but,
  };
}

/** Makes every server have listed these names. */
const listing = (...names: string[]) =>
  listed.mockImplementation((tools) =>
    Promise.resolve(tools.filter(({ subject }) => names.includes(subject))),
  );

/** The written tallies, without times and latencies, as `kind subject calls toolErrors refused upstreamErrors`. */
function written(): string[] {
  const tallies: CallTally[] = record.mock.calls.flatMap(([batch]) => [...batch]);
  return tallies.map(({ kind, subject, calls, toolErrors, refused, upstreamErrors }) =>
    [kind, subject, calls, toolErrors, refused, upstreamErrors].join(' '),
  );
}

test('a call counts for its person too, whether an application or a page makes it', async () => {
  meter.note(call({ credential: { type: 'client', id: 'client_a' }, userId: 'user_dana' }));
  meter.note(call({ credential: { type: 'client', id: 'client_a' }, userId: 'user_eli' }));
  meter.note(call({ credential: { type: 'person', id: 'user_dana' }, userId: 'user_dana' }));
  await meter.flush();

  const rows = written();
  expect(rows.filter((row) => /^(client|person)/.test(row)).toSorted()).toEqual([
    'client client_a 2 0 0 0',
    'person user_dana 2 0 0 0',
    'person user_eli 1 0 0 0',
  ]);
});

test('a list that the server does not have is counted, but is no error', async () => {
  const absent = { tool: undefined, outcome: 'tool-error', errorType: '-32601' } as const;
  meter.note(call({ ...absent, method: 'prompts/list' }));
  meter.note(call({ ...absent, method: 'prompts/list', errorType: '-32603' }));
  meter.note(call({ ...absent, method: 'prompts/get' }));
  await vi.advanceTimersByTimeAsync(5000);

  expect(
    written()
      .filter((one) => /^(method|server)/.test(one))
      .toSorted(),
  ).toEqual([
    'method prompts/get 1 1 0 0',
    'method prompts/list 2 1 0 0',
    'server srv_sales 3 2 0 0',
  ]);
});

test('a call that Activity records is counted by its method although it always failed, other requests are not', async () => {
  const unanswered = { tool: undefined, outcome: 'upstream-error' } as const;
  for (const method of ['resources/read', 'tools/list', 'made-up'])
    meter.note(call({ ...unanswered, method }));
  await meter.flush();

  expect(
    written()
      .filter((one) => one.startsWith('method'))
      .toSorted(),
  ).toEqual(['method (other) 2 0 0 2', 'method resources/read 1 0 0 1']);
});

test('calls are counted for server, credential, method and tool, and written every five seconds', async () => {
  meter.note(call());
  meter.note(call());
  meter.note(call({ credential: { type: 'client', id: 'client_a' }, outcome: 'tool-error' }));
  await vi.advanceTimersByTimeAsync(4999);

  expect(record).not.toHaveBeenCalled();

  await vi.advanceTimersByTimeAsync(1);

  expect(written().toSorted()).toEqual([
    'caller client:client_a\nquery 1 1 0 0',
    'caller key:key_a\nquery 2 0 0 0',
    'client client_a 1 1 0 0',
    'key key_a 2 0 0 0',
    'method tools/call 3 1 0 0',
    'server srv_sales 3 1 0 0',
    'tool query 3 1 0 0',
  ]);
});

test('the calls of each caller are counted by tool, whatever application and credential a person uses', async () => {
  const dana = { userId: 'user_dana' };
  meter.note(call({ ...dana, credential: { type: 'client', id: 'client_a' }, ms: 2 }));
  meter.note(call({ ...dana, credential: { type: 'person', id: 'user_dana' }, ms: 2000 }));
  meter.note(call({ ...dana, tool: 'search it', outcome: 'tool-error' }));
  meter.note(call({ tool: undefined, method: 'tools/list' }));
  listing('search it');
  await meter.flush();

  expect(written().filter((row) => row.startsWith('caller'))).toEqual([
    'caller person:user_dana\nquery 2 0 0 0',
    'caller person:user_dana\nsearch it 1 1 0 0',
  ]);
});

test('a tool that is counted with the others is so for each caller, too', async () => {
  meter.note(call({ tool: 'made-up', outcome: 'tool-error' }));
  meter.note(call({ tool: 'made-up', outcome: 'refused', userId: 'user_dana' }));
  await meter.flush();

  expect(written().filter((row) => row.startsWith('caller'))).toEqual([
    'caller key:key_a\n(other) 1 1 0 0',
    'caller person:user_dana\n(other) 1 0 1 0',
  ]);
});

test('all versions of an application are counted together, also of one whose calls all fail', async () => {
  for (const application of ['Claude Code 1.0.4', 'Claude Code 2.1-beta', 'Claude Code', '']) {
    meter.note(call({ application, outcome: 'refused' }));
  }
  meter.note(call({ application: 'cli/v0.3 (linux; x64)' }));
  meter.note(call({ application: `secret_${'b'.repeat(36)}` }));
  await meter.flush();

  expect(written().filter((row) => row.startsWith('application'))).toEqual([
    'application Claude Code 3 0 3 0',
    'application cli 1 0 0 0',
    'application (other) 1 0 0 0',
  ]);
});

test('107: a hundred applications of a server have rows of their own, however many names callers send', async () => {
  for (let n = 0; n < 500; n += 1) meter.note(call({ application: `app-${n}` }));
  await meter.flush();

  expect(written().filter((row) => row.startsWith('application'))).toHaveLength(101);
});

test.each<[string, Partial<MeteredCall>, string]>([
  ['server', { serverId: 'srv_web' }, 'server srv_web 1 0 0 0'],
  ['credential', { credential: { type: 'key', id: 'key_b' } }, 'key key_b 1 0 0 0'],
  ['person', { userId: 'user_dana' }, 'person user_dana 1 0 0 0'],
  ['kind of credential', { credential: { type: 'client', id: 'key_a' } }, 'client key_a 1 0 0 0'],
  ['method', { method: 'prompts/get', tool: undefined }, 'method prompts/get 1 0 0 0'],
  ['tool', { tool: 'other' }, 'tool other 1 0 0 0'],
  ['application', { application: 'Claude 1' }, 'application Claude 1 0 0 0'],
  ['target', { targetId: 'target_web' }, 'server srv_sales 1 0 0 0'],
])('calls that differ only in their %s are counted separately', async (_, but, row) => {
  meter.note(call());
  meter.note(call());
  meter.note(call(but));
  meter.note(call());
  await meter.flush();

  expect(written()).toContain(row);
});

test('each method without a tool is counted by its own name', async () => {
  for (const method of ['tools/list', 'prompts/list', 'tools/list'])
    meter.note(call({ method, tool: undefined }));
  await meter.flush();

  expect(written()).toContain('method tools/list 2 0 0 0');
  expect(written()).toContain('method prompts/list 1 0 0 0');
});

test('calls that differ only in duration or minute are counted separately', async () => {
  meter.note(call());
  meter.note(call({ ms: 90_000 }));
  meter.note(call());
  clock.advance(60);
  meter.note(call());
  await meter.flush();
  const servers = record.mock.calls.flatMap(([batch]) =>
    batch.filter(({ kind }) => kind === 'server'),
  );

  expect(servers.map(({ calls }) => calls)).toEqual([2, 1, 1]);
  expect(new Set(servers.map(({ bucket, at }) => `${bucket} ${at}`)).size).toBe(3);
});

test('the cached counters of a call are found again after a write, so that nothing is counted into deleted ones', async () => {
  meter.note(call());
  await meter.flush();
  record.mockClear();
  meter.note(call());
  meter.note(call());
  await meter.flush();

  expect(written()).toContain('tool query 2 0 0 0');
});

test('a failed call is not the pattern for equal ones', async () => {
  meter.note(call({ outcome: 'tool-error' }));
  meter.note(call());
  meter.note(call({ outcome: 'refused' }));
  meter.note(call());
  await meter.flush();

  expect(written()).toContain('key key_a 4 1 1 0');
  expect(written().filter((row) => row.startsWith('tool'))).toEqual(['tool query 4 1 1 0']);
});

test('a minute has all of its calls, whenever they are written', async () => {
  meter.note(call());
  clock.advance(40);
  meter.note(call());
  await meter.flush();

  const minutes = record.mock.calls.flatMap(([batch]) => batch.map(({ at }) => at));
  expect([...new Set(minutes)]).toEqual([1_799_999_980 + 20, 1_800_000_060]);
});

test('a tool that its server has neither listed nor answered successfully is counted with the others', async () => {
  meter.note(call({ tool: 'made-up', outcome: 'tool-error' }));
  meter.note(call({ tool: 'hidden', outcome: 'refused' }));
  meter.note(call({ tool: 'x'.repeat(200) }));
  meter.note(call({ tool: 'query' }));
  meter.note(call({ tool: 'query', outcome: 'upstream-error' }));
  await meter.flush();

  expect(written().filter((row) => row.startsWith('tool'))).toEqual([
    'tool (other) 3 1 1 0',
    'tool query 2 0 0 1',
  ]);
});

test('a server has a hundred tool names, including those of an earlier start', async () => {
  await meter.close();
  const kept = Array.from({ length: 99 }, (_, index) => `tool-${index}`);
  start(kept.map((subject) => ({ targetId: 'target_sales', kind: 'tool', subject })));
  meter.note(call({ tool: 'tool-3' }));
  for (const tool of ['first', 'second', 'third']) meter.note(call({ tool }));
  await meter.flush();

  expect(written().filter((row) => row.startsWith('tool'))).toEqual([
    'tool tool-3 1 0 0 0',
    'tool first 1 0 0 0',
    'tool (other) 2 0 0 0',
  ]);
});

test('counts that cannot be written are reported, and written with later ones', async () => {
  meter.note(call());
  record.mockRejectedValueOnce(new Error('disk full'));
  await meter.flush();
  meter.note(call());
  record.mockClear();
  await meter.flush();

  expect(failed).toHaveBeenCalledExactlyOnceWith(new Error('disk full'));
  expect(written()).toContain('server srv_sales 2 0 0 0');
});

test('a backlog is written in several transactions, and no part of it twice', async () => {
  for (let key = 0; key < 1000; key += 1) {
    meter.note(call({ credential: { type: 'key', id: `key_${key}` } }));
  }
  record.mockResolvedValueOnce().mockRejectedValueOnce(new Error('busy'));
  await meter.flush();
  await meter.flush();

  const sizes = record.mock.calls.map(([batch]) => batch.length);
  expect(sizes).toEqual([500, 500, 500, 500, 500, 3]);
  const first = record.mock.calls[0]?.[0] ?? [];
  const second = record.mock.calls[2]?.[0] ?? [];
  expect(first.some((tally) => second.includes(tally))).toBe(false);
});

test('old rows are removed once a minute', async () => {
  await meter.flush();
  await meter.flush();
  clock.advance(60);
  await meter.flush();

  expect(deleteOld.mock.calls).toEqual([[1_800_000_030], [1_800_000_090]]);
});

test('closing writes the remaining counts, and nothing afterwards', async () => {
  meter.note(call());
  await meter.close();
  await vi.advanceTimersByTimeAsync(20_000);

  expect(written()).toHaveLength(5);
});

const toolRows = () => written().filter((row) => row.startsWith('tool'));

test('a tool that its server lists has its name, though each of its calls fails', async () => {
  listing('broken', 'hidden');
  meter.note(call({ tool: 'broken', outcome: 'tool-error' }));
  meter.note(call({ tool: 'broken', outcome: 'upstream-error' }));
  meter.note(call({ tool: 'hidden', outcome: 'refused' }));
  meter.note(call({ tool: 'made-up', outcome: 'tool-error' }));
  await meter.flush();
  meter.note(call({ tool: 'broken', outcome: 'tool-error' }));
  await meter.flush();

  expect(toolRows()).toEqual([
    'tool broken 2 1 0 1',
    'tool hidden 1 0 1 0',
    'tool (other) 1 1 0 0',
    'tool broken 1 1 0 0',
  ]);
  expect(listed).toHaveBeenCalledTimes(1);
});

test('failed calls are not lost if the list of tools cannot be read', async () => {
  listed.mockRejectedValueOnce(new Error('away'));
  meter.note(call({ tool: 'broken', outcome: 'tool-error' }));
  await meter.flush();
  listing('broken');
  meter.note(call({ tool: 'broken', outcome: 'tool-error' }));
  await meter.flush();

  expect(failed).toHaveBeenCalledExactlyOnceWith(new Error('away'));
  expect(toolRows()).toEqual(['tool broken 2 2 0 0']);
});

test('107: of the names that callers invent, a hundred for each server are looked up, and none is stored', async () => {
  const names = Array.from({ length: 5000 }, (_, n) => `made-up-${n}`);
  listing(...names);
  for (const tool of names) meter.note(call({ tool, outcome: 'tool-error' }));
  for (const tool of names) {
    meter.note(call({ serverId: 'srv_web', targetId: 'target_web', tool, outcome: 'refused' }));
  }
  const { pending } = meter;
  await meter.flush();
  meter.note(call({ tool: 'query' }));
  await meter.flush();

  expect(pending).toBeLessThan(420);
  expect(new Set(listed.mock.calls[0]?.[0].map(({ subject }) => subject)).size).toBe(100);
  expect(toolRows()).toHaveLength(203);
  expect(toolRows().at(-1)).toBe('tool (other) 1 0 0 0');
});

test('107: at most ten thousand counts of unproved calls are stored, of tools and their callers, of however many servers', async () => {
  for (let server = 0; server < 150; server += 1) {
    for (let n = 0; n < 100; n += 1) {
      const tool = `made-up-${n}`;
      const ids = { serverId: `srv_${server}`, targetId: `target_${server}` };
      meter.note(call({ ...ids, tool, outcome: 'refused' }));
    }
  }
  await meter.flush();

  expect(listed.mock.calls[0]?.[0]).toHaveLength(5000);
});

test('107: counted names: those of the least recently called server are forgotten first', () => {
  const names = new CountedNames();
  names.subjectFor('first', 'tool', 'query', true);
  for (let n = 0; n < 25_000; n += 1) names.subjectFor(`srv_${n}`, 'tool', 'query', true);

  expect(names.size).toBe(20_000);
  expect(names.subjectFor('first', 'tool', 'query', false)).toBe(otherNames);
  expect(names.subjectFor('srv_24999', 'tool', 'query', false)).toBe('query');
  expect(names.subjectFor('first', 'tool', 'query', true)).toBe('query');
});

test('counted names: a name has its own rows once its server has answered it successfully', () => {
  const names = new CountedNames();

  expect(names.subjectFor('srv', 'tool', 'query', false)).toBe(otherNames);
  expect(names.subjectFor('srv', 'tool', 'query', true)).toBe('query');
  expect(names.subjectFor('srv', 'tool', 'query', false)).toBe('query');
});

test.each([
  `mcp_${'a'.repeat(36)}`,
  `client_1:secret_${'b'.repeat(36)}`,
  'Bearer abcdefgh12345678',
  'eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJ4In0.c2ln',
])('counted names: a name that contains a secret never has its own rows', (name) => {
  expect(new CountedNames().subjectFor('srv', 'tool', name, true)).toBe(otherNames);
});

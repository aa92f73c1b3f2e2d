import { execFileSync } from 'node:child_process';
import { createReadStream, readFileSync } from 'node:fs';
import { mkdir, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';

import { CallLog } from '#server/activity/call-log';
import { CallOutput, OutputFile } from '#server/activity/call-output';
import type { EndedCall } from '#server/model/calls';
import { madeCall } from '#support/made-calls';
import { patient } from '#support/patient';
import { temporaryFolder } from '#support/temporary-folder';

/** A record of calls that is only written to `path`. */
async function recordedIn(path: string) {
  const told: string[] = [];
  let nowMs = 1_800_000_000_000;
  const output = new CallOutput({
    destination: new OutputFile(path),
    organizationNames: async () => new Map([['org_acme', 'acme']]),
    nowMs: () => nowMs,
    failed: (reason, dropped) => told.push(`${reason}: ${dropped}`),
    recovered: (dropped) => told.push(`recovered: ${dropped}`),
  });
  const log = new CallLog({
    write: (writes) => output.add(writes),
    namesOf: async (kind, ids) =>
      new Map(ids.map((id) => [id, kind === 'organization' ? 'org_acme' : `name of ${id}`])),
    node: 'node-1',
    nowMs: () => nowMs,
    failed: (error) => {
      throw error;
    },
  });
  onTestFinished(async () => {
    await log.close();
    await output.close();
  });
  return {
    log,
    output,
    told,
    minutePasses: () => (nowMs += 60_000),
    record: async (...calls: readonly Partial<EndedCall>[]) => {
      for (const call of calls) log.note(madeCall(call));
      await log.flush();
    },
  };
}

const linesIn = (path: string): Record<string, unknown>[] =>
  readFileSync(path, 'utf8')
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line));

const subjectsIn = (path: string) => linesIn(path).map(({ tool }) => tool);

async function folder(): Promise<string> {
  const { path, ...made } = await temporaryFolder('output');
  onTestFinished(() => made[Symbol.asyncDispose]());
  return path;
}

test('call output: a call is a line of JSON with the members of exports, in a file that only its owner can read', async () => {
  const path = join(await folder(), 'calls.jsonl');
  const { record, output } = await recordedIn(path);
  const startedAtMs = Date.parse('2026-11-24T14:02:03.004Z');
  const application = { text: 'Evil\u202e\u2028app', source: 'client_info' as const };
  await record(
    { startedAtMs, userId: 'usr_dana', application, subject: 'line\none' },
    { end: 'refused', error: 'insufficient_scope', status: 403 },
  );
  await output.close();

  const text = readFileSync(path, 'utf8');
  expect(text.split('\n')).toHaveLength(3);
  expect(text).toContain('Evil\\u202e\\u2028app');
  expect(linesIn(path)).toMatchObject([
    {
      at: '2026-11-24T14:02:03.004Z',
      duration_ms: 12,
      person: 'name of usr_dana',
      application: 'Evil\u202e\u2028app',
      credential: 'name of client_claude',
      organization: 'acme',
      endpoint: 'library',
      server: 'library',
      method: 'tools/call',
      tool: 'line\none',
      outcome: 'ok',
      error: null,
      request_id: 'r1',
    },
    { outcome: 'refused', error: 'insufficient_scope', status: 403 },
  ]);
  expect((await stat(path)).mode & 0o777).toBe(0o600);
});

test('call output: a call that is recorded when it begins is written once, at its end', async () => {
  const path = join(await folder(), 'calls.jsonl');
  const { log, output } = await recordedIn(path);
  const begun = await log.begin(madeCall({ subject: 'careful' }));
  log.note(madeCall({ subject: 'careful', end: 'tool_error' }), begun);
  await log.flush();
  await output.close();

  expect(linesIn(path)).toMatchObject([{ tool: 'careful', outcome: 'tool_error' }]);
});

test('call output: a file that was renamed, as logrotate does, is followed by a new one', async () => {
  const path = join(await folder(), 'calls.jsonl');
  const { record } = await recordedIn(path);
  await record({ subject: 'before' });
  await vi.waitFor(() => expect(subjectsIn(path)).toEqual(['before']), patient);
  await rename(path, `${path}.1`);
  await record({ subject: 'after' });

  await vi.waitFor(() => expect(subjectsIn(path)).toEqual(['after']), patient);
  expect(subjectsIn(`${path}.1`)).toEqual(['before']);
});

test('call output: calls wait for a folder that was removed, and appear once it is back', async () => {
  const parent = join(await folder(), 'mounted');
  const path = join(parent, 'calls.jsonl');
  const { record, told, output } = await recordedIn(path);
  await record({ subject: 'first' });
  await vi.waitFor(() => expect(told).toEqual([expect.stringContaining('ENOENT')]), patient);
  await record({ subject: 'second' });
  await mkdir(parent);

  await vi.waitFor(() => expect(subjectsIn(path)).toEqual(['first', 'second']), patient);
  expect(told.slice(1)).toEqual(['recovered: 0']);
  await rm(parent, { recursive: true });
  await record({ subject: 'third' });
  await output.close();
  expect(output.dropped).toBe(1);
  expect(told.at(-1)).toBe('the server stops: 1');
});

test('call output: a FIFO gets its lines once something reads it, and until then no call waits', async () => {
  const path = join(await folder(), 'calls.fifo');
  execFileSync('mkfifo', [path]);
  const { record, told } = await recordedIn(path);
  const calls = Array.from({ length: 600 }, (_, at) => ({ subject: `tool-${at}` }));
  await record(...calls);
  await vi.waitFor(() => expect(told).toEqual(['no program reads the FIFO: 0']), patient);
  let read = '';
  const reader = createReadStream(path, 'utf8').on('data', (text) => (read += String(text)));
  onTestFinished(() => void reader.destroy());

  await vi.waitFor(() => expect(read.split('\n')).toHaveLength(601), patient);
  expect(
    read
      .split('\n')
      .slice(0, -1)
      .map((line) => JSON.parse(line).tool),
  ).toEqual(calls.map(({ subject }) => subject));
});

test('call output: a full disk stops nothing; what waits is bounded, and what is dropped is counted and reported', async () => {
  const { log, record, told, output, minutePasses } = await recordedIn('/dev/full');
  await record({});
  await vi.waitFor(() => expect(told).toEqual([expect.stringMatching(/ENOSPC.*: 0$/)]), patient);
  const subject = `file:///${'x'.repeat(480)}`;
  const many = 20_000;
  for (let round = 0; round < 2; round += 1) {
    for (let at = 0; at < many / 2; at += 1) {
      log.note(madeCall({ subject, method: 'resources/read' }));
      if (at % 500 === 0) await log.flush();
    }
    await log.flush();
  }
  minutePasses();
  await record({});

  expect(output.dropped).toBeGreaterThan(many / 4);
  expect(output.dropped).toBeLessThan(many);
  expect(output.waitingBytes).toBeLessThanOrEqual(8 * 1024 * 1024);
  await vi.waitFor(() => expect(told.at(-1)).toMatch(/: \d{4,}$/), patient);
});

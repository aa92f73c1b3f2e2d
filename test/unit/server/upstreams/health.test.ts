import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import { insertAgent } from '#server/db/agents';
import { updateServer } from '#server/db/servers';
import { UpstreamError, UpstreamRefusal, type Upstream } from '#server/gateway/upstream';
import { type ServerHealth, UpstreamHealth } from '#server/upstreams/health';
import { type AgentPresence, offlineAgent } from '#server/upstreams/tunnel/connected-agent';
import { fakeUpstream } from '#support/fake-upstream';
import { makeServer, madeAt } from '#support/made-records';
import { legacyServer } from '#support/mcp-servers';
import { openDatabase } from '#support/open-database';
import { someServer } from '#support/some-admission';
import { type StillClock, stillClock } from '#support/still-clock';
import { patient } from '#support/patient';

let connection: Awaited<ReturnType<typeof openDatabase>>;
let clock: StillClock;
let health: UpstreamHealth;
let upstreams: Map<string, Upstream>;
let withoutToken: Upstream | undefined;
let forwardsCaller: boolean;
let presence: AgentPresence;
let asked: string[];

beforeEach(async () => {
  connection = await openDatabase();
  clock = stillClock();
  upstreams = new Map();
  withoutToken = undefined;
  forwardsCaller = false;
  presence = offlineAgent;
  asked = [];
  health = new UpstreamHealth({
    ...connection,
    clock,
    presenceOf: () => presence,
    reachesAgent: () => true,
    open({ name }) {
      asked.push(name);
      const upstream = upstreams.get(name) ?? legacyServer();
      return { upstream, withoutToken, forwardsCaller, name: `${name}.example` };
    },
    random: () => 0.5,
    onError(error) {
      throw error;
    },
  });
});

afterEach(async () => {
  await health.close();
  await connection.close();
});

const url = (name: string) => ({ kind: 'http', url: `https://${name}.example/` }) as const;
const down = fakeUpstream(() =>
  Promise.reject(
    new UpstreamError('unreachable', 'POST', {
      cause: Object.assign(new Error('no'), { code: 'ECONNREFUSED' }),
    }),
  ),
);
const refusing = fakeUpstream(() => ({ status: 401 }));

async function make(name: string, upstream = url(name)) {
  await makeServer(connection, name, { organization: name, upstream });
}

/** Looks until the probe that the first look begins has ended. */
async function looked(id: string): Promise<ServerHealth | undefined> {
  const before = health.revision();
  await health.of(id);
  await vi.waitFor(() => expect(health.revision()).toBeGreaterThan(before), patient);
  return health.of(id);
}

test('health: a server that was never checked is unknown, and checked when its status is read', async () => {
  await make('crm');

  expect((await health.of('srv_crm'))?.status).toBe('unknown');
  expect(await looked('srv_crm')).toEqual({
    status: 'connected',
    reason: undefined,
    checkedAt: clock.now(),
    protocol: '2025-06-18',
  });
  expect(asked).toEqual(['crm']);
});

test('health: a server that does not answer is offline, with the reason, and checked again ten seconds later', async () => {
  upstreams.set('crm', down);
  await make('crm');

  expect(await looked('srv_crm')).toMatchObject({
    status: 'offline',
    reason: 'Connection refused at crm.example.',
  });

  upstreams.set('crm', legacyServer());
  await health.of('srv_crm');
  expect(asked).toEqual(['crm']);

  clock.advance(11);
  expect((await looked('srv_crm'))?.status).toBe('connected');
});

test('health: the sample and a disabled server are not checked', async () => {
  await makeServer(connection, 'demo', { organization: 'demo' });
  await make('crm');
  await updateServer(connection.db, 'srv_crm', { disabledAt: madeAt });

  expect((await health.of('srv_demo'))?.status).toBe('connected');
  expect((await health.of('srv_crm'))?.status).toBe('disabled');
  expect(await health.of('srv_none')).toBeUndefined();
  expect(asked).toEqual([]);
});

test('health: a change is reported only to the organization of the server', async () => {
  await make('crm');
  await make('hr');
  await looked('srv_crm');

  expect(health.revision('crm')).toBe(1);
  expect(health.revision('hr')).toBe(0);
});

test('health: a server that moved is checked at its new address', async () => {
  upstreams.set('crm', down);
  await make('crm');
  await looked('srv_crm');
  upstreams.set('crm', legacyServer());
  await updateServer(connection.db, 'srv_crm', { upstream: url('crm2') });

  expect((await health.of('srv_crm'))?.status).toBe('unknown');
  expect((await looked('srv_crm'))?.status).toBe('connected');
});

test('health: refused configured credentials differ from a server that requires a person', async () => {
  upstreams.set('crm', refusing);
  await make('crm');
  expect((await looked('srv_crm'))?.status).toBe('sign-in-required');

  forwardsCaller = true;
  clock.advance(11);
  expect((await looked('srv_crm'))?.status).toBe('connected');
});

test('health: a server that answers only people is checked without a token', async () => {
  const forPeople = new UpstreamRefusal('no_person', 'https://latchkey.example/account');
  upstreams.set(
    'crm',
    fakeUpstream(() => Promise.reject(forPeople)),
  );
  withoutToken = refusing;
  await make('crm');
  expect((await looked('srv_crm'))?.status).toBe('connected');

  withoutToken = down;
  clock.advance(61);
  expect((await looked('srv_crm'))?.status).toBe('offline');
});

test('health: an answered call makes a server connected, and a failed one starts a check', async () => {
  upstreams.set('crm', down);
  await make('crm');
  await looked('srv_crm');
  health.noteCall('target_crm', 'ok');
  expect((await health.of('srv_crm'))?.status).toBe('connected');

  health.noteCall('target_crm', 'refused');
  await health.of('srv_crm');
  expect(asked).toHaveLength(1);

  clock.advance(20);
  health.noteCall('target_crm', 'upstream-error');
  expect((await looked('srv_crm'))?.status).toBe('offline');
});

test('health: a command is never started for a check; its calls decide', async () => {
  await makeServer(connection, 'files', { upstream: { kind: 'stdio' } });
  expect((await health.of('srv_files'))?.status).toBe('unknown');

  health.noteCall('target_files', 'ok');
  expect((await health.of('srv_files'))?.status).toBe('connected');

  health.noteCall('target_files', 'upstream-error');
  expect(await health.of('srv_files')).toMatchObject({
    status: 'error',
    reason: 'The last call failed.',
  });
  expect(asked).toEqual([]);
});

test('health: a server of an agent waits for it, is served by it, or is missing there', async () => {
  await makeServer(connection, 'crm');
  const agent = { id: 'agent_1', organizationId: 'org_acme', name: 'berlin', createdAt: madeAt };
  await insertAgent(connection.db, agent);
  await updateServer(connection.db, 'srv_crm', { upstream: { kind: 'agent', agentId: 'agent_1' } });
  expect(await health.of('srv_crm')).toMatchObject({
    status: 'waiting-for-agent',
    reason: 'The agent berlin has not connected yet.',
  });

  presence = { ...offlineAgent, isOnline: true };
  expect(await health.of('srv_crm')).toMatchObject({
    status: 'error',
    reason: 'The agent berlin is connected, but its configuration has no server crm.',
  });

  presence = { ...presence, servers: [{ name: 'crm', kind: 'stdio' }] };
  expect((await health.of('srv_crm'))?.status).toBe('connected');
  expect(asked).toEqual([]);

  const detail = 'connection refused at 127.0.0.1:3999';
  const ended = new UpstreamError('unreachable', 'the agent ended the call', { detail });
  upstreams.set(
    'crm',
    fakeUpstream(() => Promise.reject(ended)),
  );
  presence = { ...presence, servers: [{ name: 'crm', kind: 'http' }] };
  expect(await looked('srv_crm')).toMatchObject({
    status: 'error',
    reason: 'Connection refused at 127.0.0.1:3999.',
  });
});

test('health: a round begins after the start, and checks every server once a minute, unless it was just checked', async () => {
  for (const name of ['a', 'b', 'c']) await make(name);
  await health.tick();
  expect(asked).toEqual([]);

  clock.advance(20);
  await health.tick();
  await vi.waitFor(() => expect(health.revision()).toBe(3), patient);
  expect(asked).toEqual(['a', 'b', 'c']);

  clock.advance(59);
  await health.tick();
  expect(asked).toHaveLength(3);

  health.noteCall('target_a', 'ok');
  clock.advance(1);
  for (let tick = 0; tick < 4; tick += 1) await health.tick();
  await vi.waitFor(() => expect(asked).toEqual(['a', 'b', 'c', 'b', 'c']), patient);
});

test('health: a round checks eight servers at a time', async () => {
  const hanging: (() => void)[] = [];
  const slow = fakeUpstream(
    () => new Promise((resolve) => hanging.push(() => resolve({ status: 500 }))),
  );
  for (let i = 0; i < 12; i += 1) {
    upstreams.set(`s${i}`, slow);
    await make(`s${i}`);
  }
  clock.advance(20);
  for (let tick = 0; tick < 4; tick += 1) await health.tick();
  expect(asked).toHaveLength(8);

  hanging[0]?.();
  await vi.waitFor(() => expect(asked).toHaveLength(9), patient);
  while (asked.length < 12) {
    hanging.splice(0).forEach((answer) => answer());
    await new Promise((resolve) => void setImmediate(resolve));
  }
  hanging.forEach((answer) => answer());
  await vi.waitFor(() => expect(health.revision()).toBe(12), patient);
});

test('107: health: the status of at most twenty thousand servers is stored, and a forgotten one is checked again', async () => {
  await make('sales');
  const first = await looked('srv_sales');
  for (let n = 0; n < 20_100; n += 1) {
    await health.ofServer(someServer({ id: `srv_${n}`, target: { upstream: { kind: 'stdio' } } }));
  }
  const { size } = health;
  const forgotten = await health.of('srv_sales');

  expect([first?.status, size, forgotten?.status]).toEqual(['connected', 20_000, 'unknown']);
  expect((await looked('srv_sales'))?.status).toBe('connected');
});

import { afterAll, expect, vi } from 'vitest';
import type { AddInput } from '#proxy/connections/accounts-service';
import type { Launcher } from '#proxy/host';
import { bodyOf } from '../counted-server.ts';
import { signInFront, type SignInFront } from '../sign-in-front.ts';
import {
  crashRun,
  withoutCrash,
  type Crash,
  type CrashRun,
  type Told,
  type Victim,
} from './crash-run.ts';
import { personMachine, type PersonMachine, type StartedAccounts } from './person-machine.ts';

export type { Told, Victim } from './crash-run.ts';
export type { StartedAccounts } from './person-machine.ts';

export const victims: readonly Victim[] = ['program', 'keychain'];

/** Every case of a table with every victim; `what` is the name of the case. */
export function withEachVictim<Case>(cases: Readonly<Record<string, Case>>) {
  return Object.entries(cases).flatMap(([what, way]) =>
    victims.map((victim) => ({ what, way, victim })),
  );
}

/** A computer with one connection, `steady`, to a server that accepts two API keys and two secrets of each client. */
export interface CrashBench extends PersonMachine {
  readonly server: SignInFront;
  readonly url: string;
  /** The input that added `steady`, and the points that were passed then. */
  readonly steady: AddInput;
  readonly began: readonly string[];
  readonly keys: readonly [string, string];
  /** The secrets of a client that acts for itself, and of one with which people sign in. */
  readonly client: ClientSecrets;
  readonly personsClient: ClientSecrets;
  /** The input of `add` for each kind of credential. */
  readonly credentials: {
    readonly apiKey: Credential;
    readonly client: Credential;
    readonly consent: Credential;
  };
}

export type Credential =
  | { as: 'api_key'; apiKeySecret: string }
  | { as: 'client'; clientId: string; clientSecret: string }
  | { as: 'person' };

export type ClientSecrets = { readonly id: string; readonly secrets: readonly [string, string] };

const pair = (shape: (letter: string) => string) => [shape('x'), shape('z')] as const;

/** The entries of assistants start `launcher`. */
export async function crashBench(
  launcher: Launcher = { node: '/opt/node', script: '/opt/latchkey.js' },
): Promise<CrashBench> {
  await using stack = new AsyncDisposableStack();
  const keys = pair((letter) => `mcp_${letter.repeat(36)}`);
  const client = { id: 'client', secrets: pair((letter) => `secret_${letter.repeat(36)}`) };
  const personsClient = { id: 'person', secrets: pair((letter) => `secret_p${letter.repeat(35)}`) };
  const server = stack.use(
    await signInFront(answered, {
      apiKeys: keys,
      clientSecrets: { client: client.secrets, person: personsClient.secrets },
    }),
  );
  const { url } = server;
  const host = stack.use(await personMachine(launcher));
  const steady = { name: 'steady', url, as: 'api_key', apiKeySecret: keys[0] } as const;
  const began = await crashRun(host.keychain, undefined, async () =>
    host.start().service.add(steady),
  );
  expect(began.told).toEqual({ ok: true });
  const made = stack.move();
  return {
    ...host,
    server,
    url,
    steady,
    began: began.points,
    keys,
    client,
    personsClient,
    credentials: {
      apiKey: { as: 'api_key', apiKeySecret: keys[1] },
      client: { as: 'client', clientId: client.id, clientSecret: client.secrets[0] },
      consent: { as: 'person' },
    },
    [Symbol.asyncDispose]: async () => made.disposeAsync(),
  };
}

/** The bench of a test file, until all its tests have run. */
export async function benchOfFile(): Promise<CrashBench> {
  // Each test runs its work dozens of times, and the computer may be busy.
  vi.setConfig({ testTimeout: 120_000 });
  const bench = await crashBench();
  afterAll(() => bench[Symbol.asyncDispose]());
  return bench;
}

/** Adds the connection `work` to the server of the bench, and signs in if the credential is a person. */
export async function connect(
  { url }: CrashBench,
  { service }: StartedAccounts,
  credential: Credential,
  { replace = false } = {},
): Promise<void> {
  await service.add({ name: 'work', url, replace, ...credential });
  if (credential.as === 'person') await service.signIn('work', {});
}

export type EveryCrash = {
  victim: Victim;
  /** Makes the state before the work, which is removed afterwards. */
  prepare?: () => Promise<unknown>;
  /** Writes that the work makes, in this order; it may make others. */
  landmarks: readonly string[];
  work: (accounts: StartedAccounts) => Promise<unknown>;
  /** Checks what the crash left, with a new accounts service. */
  after: (found: { accounts: StartedAccounts; told: Told; point: string }) => Promise<void>;
};

/**
 * Does `work` once to learn the points that it passes, then once for each of them from the same beginning,
 * with the victim crashing there. Returns the number of those points.
 *
 * A crash after a write leaves the same state as a crash before the next write, unless the program sends a request in between.
 * Such a point is counted, but the work is done only for the later of the two.
 */
export async function everyCrash(
  bench: CrashBench,
  { victim, prepare, landmarks, work, after }: EveryCrash,
): Promise<number> {
  await using stack = new AsyncDisposableStack();
  stack.defer(await beginning(bench));
  await prepare?.();
  const begin = await beginning(bench);
  const whole = await crashRun(bench.keychain, undefined, async () => work(bench.start()));
  expect(whole.told).toEqual({ ok: true });
  expectPassed(whole.points, landmarks);

  let crashes = 0;
  for (const [before, point] of whole.points.entries()) {
    // Only a program can leave a file half written.
    if (victim === 'keychain' && point.startsWith('half')) continue;
    crashes += 1;
    if (victim === 'program' && leavesTheSame(whole, before)) continue;
    const at = before + 1;
    await begin();
    const { points: passed, told } = await crashRun(bench.keychain, { victim, at }, async () =>
      work(bench.start()),
    );
    expect(passed.slice(0, at)).toEqual(whole.points.slice(0, at));
    if (victim === 'program') expect(told).toBeUndefined();
    else expect(bench.keychain.isGone).toBe(true);
    bench.keychain.isGone = false;
    await withoutCrash(bench.keychain, async () =>
      after({ accounts: bench.start(), told, point }),
    ).catch((error: unknown) => {
      throw new Error(`crashed ${point}: ${String(error)}`, { cause: error });
    });
  }
  return crashes;
}

/** Whether a crash of the program at this point leaves the same state as a crash before the next write. */
function leavesTheSame({ points, requests }: CrashRun, at: number): boolean {
  if (points[at]?.startsWith('after') !== true) return false;
  const next = points.findIndex((point, index) => index > at && !point.startsWith('half'));
  return points[next]?.startsWith('before') === true && requests[at] === requests[next];
}

/** A new accounts service; `earlier` is the number of writes of that name before the work. */
export type CrashedBefore = { accounts: StartedAccounts; earlier: number } & AsyncDisposable;

/**
 * Leaves the machine as a program that crashes right before its first write `what` leaves it, until the
 * result is disposed of.
 */
export async function crashBefore(
  bench: CrashBench,
  what: string,
  { prepare, work }: Record<'prepare' | 'work', (accounts: StartedAccounts) => Promise<unknown>>,
): Promise<CrashedBefore> {
  await using stack = new AsyncDisposableStack();
  stack.defer(await beginning(bench));
  const prepared = await crashRun(bench.keychain, undefined, async () => prepare(bench.start()));
  expect(prepared.told).toEqual({ ok: true });
  const begin = await beginning(bench);
  const run = async (crash?: Crash) =>
    crashRun(bench.keychain, crash, async () => work(bench.start()));
  const whole = await run();
  expect(whole.points).toContain(`before ${what}`);
  await begin();
  await run({ victim: 'program', at: whole.points.indexOf(`before ${what}`) + 1 });
  const begun = stack.move();
  return {
    accounts: bench.start(),
    earlier: [...bench.began, ...prepared.points].filter((point) => point === `before ${what}`)
      .length,
    [Symbol.asyncDispose]: async () => begun.disposeAsync(),
  };
}

/** Remembers the current state; the function that it returns restores it. */
async function beginning(bench: CrashBench): Promise<() => Promise<void>> {
  const [putBack, forgive] = [await bench.remember(), bench.server.remember()];
  return async () => {
    await putBack();
    forgive();
  };
}

/** Expects a point before and after each landmark, in this order, so that nothing is enumerated by accident. */
function expectPassed(points: readonly string[], landmarks: readonly string[]): void {
  const around = landmarks.flatMap((what) => [`before ${what}`, `after ${what}`]);
  const passed = points.filter((point) => around.includes(point));
  expect(passed).toEqual(around);
}

async function answered(...[request, response]: Parameters<Parameters<typeof signInFront>[0]>) {
  const { id, method } = JSON.parse((await bodyOf(request)) || '{}');
  if (id === undefined) return response.writeHead(202).end();
  const result = {
    protocolVersion: '2025-11-25',
    capabilities: {},
    serverInfo: { name: 'steady', version: '1' },
  };
  const error = { code: -32601, message: 'Method not found' };
  response.writeHead(200, { 'content-type': 'application/json' });
  const told = method === 'initialize' ? { result } : { error };
  return response.end(JSON.stringify({ jsonrpc: '2.0', id, ...told }));
}

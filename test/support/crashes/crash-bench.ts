import { expect } from 'vitest';
import { bodyOf } from '../counted-server.ts';
import { signInFront, type SignInFront } from '../sign-in-front.ts';
import { crashRun, withoutCrash, type Told, type Victim } from './crash-run.ts';
import { personMachine, type PersonMachine, type StartedAccounts } from './person-machine.ts';

export type { Told, Victim } from './crash-run.ts';
export type { StartedAccounts } from './person-machine.ts';

export const victims: readonly Victim[] = ['program', 'keychain'];

/** A machine with one connection, `steady`, to a server at which keys and clients each have two secrets. */
export interface CrashBench extends PersonMachine {
  readonly server: SignInFront;
  readonly url: string;
  readonly keys: readonly [string, string];
  /** The secrets of the client that works by itself, and of the one that people sign in by. */
  readonly client: ClientSecrets;
  readonly personsClient: ClientSecrets;
}

export type ClientSecrets = { readonly id: string; readonly secrets: readonly [string, string] };

const pair = (shape: (letter: string) => string) => [shape('a'), shape('b')] as const;

export async function crashBench(): Promise<CrashBench> {
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
  const machine = stack.use(await personMachine());
  await machine.start().door.add({ name: 'steady', url, as: 'api_key', apiKeySecret: keys[0] });
  const made = stack.move();
  return {
    ...machine,
    server,
    url,
    keys,
    client,
    personsClient,
    [Symbol.asyncDispose]: async () => made.disposeAsync(),
  };
}

export type EveryCrash = {
  victim: Victim;
  /** What is there before; gone afterwards. */
  prepare?: () => Promise<unknown>;
  /** Writes that the work makes, in this order; it may make others. */
  landmarks: readonly string[];
  work: (accounts: StartedAccounts) => Promise<unknown>;
  /** Looks at what is left, with the accounts service started anew. */
  after: (found: { accounts: StartedAccounts; told: Told; point: string }) => Promise<void>;
};

/**
 * Does `work` once to learn the points that it passes, then once for each of them from the same beginning,
 * with the victim crashing there. How many points those were.
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
    crashes += 1;
  }
  return crashes;
}

/** Remembers all that is there now; what it returns puts it back. */
async function beginning(bench: CrashBench): Promise<() => Promise<void>> {
  const [putBack, forgive] = [await bench.remember(), bench.server.remember()];
  return async () => {
    await putBack();
    forgive();
  };
}

/** Each write is one before and after which the victim crashes, so that nothing is enumerated by accident. */
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

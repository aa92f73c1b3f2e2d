import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import {
  crashBench,
  everyCrash,
  victims,
  type CrashBench,
  type StartedAccounts,
} from '#support/crashes/crash-bench';

// Dozens of runs each, on a machine that may be busy.
vi.setConfig({ testTimeout: 120_000 });

let bench: CrashBench;
beforeAll(async () => {
  bench = await crashBench();
});
afterAll(async () => bench[Symbol.asyncDispose]());

/** What the connection is to its server, and writes that are made on every such way. */
const ways = {
  'an API key': {
    credential: () => ({ as: 'api_key', apiKeySecret: bench.keys[1] }) as const,
    landmarks: ['keep api key', 'rename to connections.json'],
  },
  'a client secret': {
    credential: () =>
      ({ as: 'client', clientId: 'client', clientSecret: bench.client.secrets[0] }) as const,
    landmarks: ['keep client secret', 'keep access token', 'rename to connections.json'],
  },
  'a consent': {
    credential: () => ({ as: 'person' }) as const,
    landmarks: [
      'rename to connections.json',
      'keep oauth client',
      'keep access token',
      'keep refresh token',
    ],
  },
};
type Way = (typeof ways)[keyof typeof ways];

async function add({ door }: StartedAccounts, { credential }: Way, replace = false) {
  await door.add({ name: 'work', url: bench.url, replace, ...credential() });
  if (credential().as === 'person') await door.signIn('work', {});
}

const cases = Object.entries(ways).flatMap(([what, way]) =>
  victims.map((victim) => ({ what, way, victim })),
);

test.each(cases)(
  'add a connection by $what: wherever the $victim crashes, it is complete or absent',
  async ({ way, victim }) => {
    const crashes = await everyCrash(bench, {
      victim,
      landmarks: way.landmarks,
      work: async (accounts) => add(accounts, way),
      async after({ accounts, told }) {
        const views = await accounts.look();
        const shown = views.find(({ name }) => name === 'work');

        expect(await bench.orphans()).toEqual([]);
        if (told?.ok) expect(shown?.state).toBe('ready');
        if (!shown) await add(accounts, way);
        // Who is to sign in can do so later.
        else if (way !== ways['a consent']) expect(shown.state).toBe('ready');
        else if (shown.state !== 'ready') await accounts.door.signIn('work', {});
        expect(await accounts.works('work')).toBe(true);
        await expectSteady(accounts);
      },
    });

    expect(crashes).toBeGreaterThan(2 * way.landmarks.length);
  },
);

test.each([
  ['a client secret', 'an API key', 'program'],
  ['a client secret', 'an API key', 'keychain'],
  ['an API key', 'a client secret', 'program'],
  ['a consent', 'an API key', 'program'],
] as const)(
  'replace a connection by %s with one by %s: wherever the %s crashes, one of the two works',
  async (before, next, victim) => {
    const way = ways[next];
    const crashes = await everyCrash(bench, {
      victim,
      prepare: async () => add(bench.start(), ways[before]),
      landmarks: way.landmarks,
      work: async (accounts) => add(accounts, way, true),
      async after({ accounts, told }) {
        const views = await accounts.look();
        const shown = views.find(({ name }) => name === 'work');
        const kinds = [ways[before], way].map(({ credential }) => credential().as);

        expect(await bench.orphans()).toEqual([]);
        expect(told?.ok ? kinds.slice(1) : kinds).toContain(shown?.as);
        expect(await accounts.works('work')).toBe(true);
        await add(accounts, way, true);
        await expectSteady(accounts);
      },
    });

    expect(crashes).toBeGreaterThan(2 * way.landmarks.length);
  },
);

/** What happens to one connection is nothing to another, and nothing of it stays once it is removed. */
async function expectSteady(accounts: StartedAccounts): Promise<void> {
  expect(await accounts.works('steady')).toBe(true);
  await accounts.door.remove('work');
  expect(await bench.orphans()).toEqual([]);
  expect(await bench.names()).toEqual(['steady']);
}

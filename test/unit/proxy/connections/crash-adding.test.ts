import { expect, test } from 'vitest';
import {
  benchOfFile,
  connect,
  everyCrash,
  withEachVictim,
  type StartedAccounts,
} from '#support/crashes/crash-bench';

const bench = await benchOfFile();

/** The credentials of a connection, and writes that adding it makes. */
const ways = {
  'an API key': {
    credential: bench.credentials.apiKey,
    landmarks: ['keep api key', 'rename to connections.json'],
  },
  'a client secret': {
    credential: bench.credentials.client,
    landmarks: ['keep client secret', 'keep access token', 'rename to connections.json'],
  },
  'a consent': {
    credential: bench.credentials.consent,
    landmarks: [
      'rename to connections.json',
      'keep oauth client',
      'keep access token',
      'keep refresh token',
    ],
  },
};

test.each(withEachVictim(ways))(
  'adding a connection with $what: wherever the $victim crashes, it is complete or absent',
  async ({ way, victim }) => {
    const add = async (accounts: StartedAccounts) => connect(bench, accounts, way.credential);
    const crashes = await everyCrash(bench, {
      victim,
      landmarks: way.landmarks,
      work: add,
      async after({ accounts, told }) {
        const views = await accounts.look();
        const shown = views.find(({ name }) => name === 'work');

        expect(await bench.orphans()).toEqual([]);
        if (told?.ok) expect(shown?.state).toBe('ready');
        if (!shown) await add(accounts);
        // A person can sign in later.
        else if (way !== ways['a consent']) expect(shown.state).toBe('ready');
        else if (shown.state !== 'ready') await accounts.service.signIn('work', {});
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
  'replacing a connection with %s by one with %s: wherever the %s crashes, one of the two works',
  async (before, next, victim) => {
    const way = ways[next];
    const replace = async (accounts: StartedAccounts) =>
      connect(bench, accounts, way.credential, { replace: true });
    const crashes = await everyCrash(bench, {
      victim,
      prepare: async () => connect(bench, bench.start(), ways[before].credential),
      landmarks: way.landmarks,
      work: replace,
      async after({ accounts, told }) {
        const views = await accounts.look();
        const shown = views.find(({ name }) => name === 'work');
        const kinds = [ways[before], way].map(({ credential }) => credential.as);

        expect(await bench.orphans()).toEqual([]);
        expect(told?.ok ? kinds.slice(1) : kinds).toContain(shown?.as);
        expect(await accounts.works('work')).toBe(true);
        await replace(accounts);
        await expectSteady(accounts);
      },
    });

    expect(crashes).toBeGreaterThan(2 * way.landmarks.length);
  },
);

/** Expects that the connection `steady` is not affected, and that nothing of `work` remains once `work` is removed. */
async function expectSteady(accounts: StartedAccounts): Promise<void> {
  expect(await accounts.works('steady')).toBe(true);
  await accounts.service.remove('work');
  expect(await bench.orphans()).toEqual([]);
  expect(await bench.names()).toEqual(['steady']);
}

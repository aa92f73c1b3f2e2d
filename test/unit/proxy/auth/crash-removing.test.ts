import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { crashBench, everyCrash, victims, type CrashBench } from '#support/crashes/crash-bench';

// Dozens of runs each, on a machine that may be busy.
vi.setConfig({ testTimeout: 120_000 });

let bench: CrashBench;
beforeAll(async () => {
  bench = await crashBench();
});
afterAll(async () => bench[Symbol.asyncDispose]());

const gone = 'rename to connections.json';
const ways = {
  'an API key': {
    credential: () => ({ as: 'api_key', apiKeySecret: bench.keys[1] }) as const,
    landmarks: [gone, 'forget api key', 'forget prior api key'],
    signsIn: false,
  },
  'a client secret': {
    credential: () =>
      ({ as: 'client', clientId: 'client', clientSecret: bench.client.secrets[0] }) as const,
    landmarks: [gone, 'forget client secret', 'forget prior client secret'],
    signsIn: false,
  },
  'a consent': {
    credential: () => ({ as: 'person' }) as const,
    landmarks: ['forget refresh token', gone],
    signsIn: true,
  },
};

test.each(
  Object.entries(ways).flatMap(([what, way]) => victims.map((victim) => ({ what, way, victim }))),
)(
  'remove a connection by $what: wherever the $victim crashes, it works or is gone without leftovers',
  async ({ way: { credential, landmarks, signsIn }, victim }) => {
    const crashes = await everyCrash(bench, {
      victim,
      async prepare() {
        const { door } = bench.start();
        await door.add({ name: 'work', url: bench.url, ...credential() });
        if (signsIn) await door.signIn('work', {});
      },
      landmarks,
      work: async (accounts) => accounts.door.remove('work'),
      async after({ accounts, told }) {
        const views = await accounts.look();
        const shown = views.find(({ name }) => name === 'work');

        expect(await bench.orphans()).toEqual([]);
        if (told?.ok) expect(shown).toBeUndefined();
        if (shown && signsIn) await accounts.door.signIn('work', {});
        if (shown) {
          expect(await accounts.works('work')).toBe(true);
          await accounts.door.remove('work');
        }
        expect(await bench.names()).toEqual(['steady']);
        expect(await bench.orphans()).toEqual([]);
        expect(await accounts.works('steady')).toBe(true);
      },
    });

    expect(crashes).toBeGreaterThan(2 * landmarks.length);
  },
);

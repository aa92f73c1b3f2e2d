import { expect, test } from 'vitest';
import { benchOfFile, connect, everyCrash, withEachVictim } from '#support/crashes/crash-bench';

const bench = await benchOfFile();

const gone = 'rename to connections.json';
const ways = {
  'an API key': {
    credential: bench.credentials.apiKey,
    landmarks: [gone, 'forget api key', 'forget prior api key'],
  },
  'a client secret': {
    credential: bench.credentials.client,
    landmarks: [gone, 'forget client secret', 'forget prior client secret'],
  },
  'a consent': {
    credential: bench.credentials.consent,
    landmarks: ['forget refresh token', gone],
  },
};

test.each(withEachVictim(ways))(
  'removing a connection with $what: wherever the $victim crashes, it works or is removed without leftovers',
  async ({ way: { credential, landmarks }, victim }) => {
    const crashes = await everyCrash(bench, {
      victim,
      prepare: async () => connect(bench, bench.start(), credential),
      landmarks,
      work: async (accounts) => accounts.service.remove('work'),
      async after({ accounts, told }) {
        const views = await accounts.look();
        const shown = views.find(({ name }) => name === 'work');

        expect(await bench.orphans()).toEqual([]);
        if (told?.ok) expect(shown).toBeUndefined();
        if (shown && credential.as === 'person') await accounts.service.signIn('work', {});
        if (shown) {
          expect(await accounts.works('work')).toBe(true);
          await accounts.service.remove('work');
        }
        expect(await bench.names()).toEqual(['steady']);
        expect(await bench.orphans()).toEqual([]);
        expect(await accounts.works('steady')).toBe(true);
      },
    });

    expect(crashes).toBeGreaterThan(2 * landmarks.length);
  },
);

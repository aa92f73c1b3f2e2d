import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { crashBench, everyCrash, victims, type CrashBench } from '#support/crashes/crash-bench';

// Dozens of runs each, on a machine that may be busy.
vi.setConfig({ testTimeout: 120_000 });

const cursor = '.cursor/mcp.json';

let bench: CrashBench;
beforeAll(async () => {
  bench = await crashBench();
});
afterAll(async () => bench[Symbol.asyncDispose]());

const renamed = 'rename to connections.json';
const ways = {
  'an API key': {
    credential: () => ({ as: 'api_key', apiKeySecret: bench.keys[1] }) as const,
    landmarks: [renamed, 'forget api key', 'rename to mcp.json'],
    signsIn: false,
  },
  'a consent': {
    credential: () => ({ as: 'person' }) as const,
    landmarks: [renamed, 'forget refresh token', 'rename to mcp.json'],
    signsIn: true,
  },
};

test.each(
  Object.entries(ways).flatMap(([what, way]) => victims.map((victim) => ({ what, way, victim }))),
)(
  'rename a connection by $what: wherever the $victim crashes, it works by one name without leftovers',
  async ({ way: { credential, landmarks, signsIn }, victim }) => {
    const crashes = await everyCrash(bench, {
      victim,
      async prepare() {
        const { door } = bench.start();
        await door.add({ name: 'work', url: bench.url, ...credential() });
        if (signsIn) await door.signIn('work', {});
        await door.install('cursor', 'work');
      },
      landmarks,
      work: async (accounts) => accounts.rename('work', 'play'),
      async after({ accounts, told }) {
        await accounts.look();
        const names = await bench.names();
        const name = names.includes('play') ? 'play' : 'work';

        expect(names).toHaveLength(2);
        expect(await bench.orphans()).toEqual([]);
        if (told?.ok) expect(name).toBe('play');
        expect(await accounts.works(name)).toBe(true);
        // Once more, as a person does whose command was interrupted.
        const once = await bench.read(cursor);
        if (name === 'work' || once?.includes('"work"')) await accounts.rename('work', 'play');
        expect(Object.keys(JSON.parse((await bench.read(cursor)) ?? '{}').mcpServers)).toEqual([
          'play',
        ]);
        expect(await accounts.works('play')).toBe(true);
        expect(await bench.orphans()).toEqual([]);
        expect(await accounts.door.uninstall('cursor', 'play')).toMatchObject({ did: 'restored' });
        await accounts.door.remove('play');
        expect(await bench.orphans()).toEqual([]);
      },
    });

    expect(crashes).toBeGreaterThan(2 * landmarks.length);
  },
);

test('rename: a rotation on trial can still be undone under the new name', async () => {
  const accounts = bench.start();
  const { door } = accounts;
  await door.add({ name: 'work', url: bench.url, as: 'api_key', apiKeySecret: bench.keys[0] });
  await door.rotateKey('work', bench.keys[1]);
  await accounts.rename('work', 'play');

  expect(await door.undoRotation('play')).toBe(true);
  expect(await accounts.works('play')).toBe(true);
  await door.remove('play');
  expect(await bench.orphans()).toEqual([]);
});

test('rename: a taken name and a connection that does not exist are refused', async () => {
  const accounts = bench.start();
  await accounts.door.add({
    name: 'work',
    url: bench.url,
    as: 'api_key',
    apiKeySecret: bench.keys[0],
  });

  await expect(accounts.rename('work', 'steady')).rejects.toThrow('steady already exists');
  await expect(accounts.rename('work', 'work')).rejects.toThrow('work already exists');
  await expect(accounts.rename('work', 'a b')).rejects.toThrow(
    'a connection name has up to 64 letters',
  );
  await expect(accounts.rename('nothing', 'other')).rejects.toThrow('no connection named nothing');
  await accounts.door.remove('work');
});

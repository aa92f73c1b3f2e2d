import { expect, test } from 'vitest';
import { benchOfFile, connect, everyCrash, withEachVictim } from '#support/crashes/crash-bench';

const bench = await benchOfFile();
const cursor = '.cursor/mcp.json';
const renamed = 'rename to connections.json';
const ways = {
  'an API key': {
    credential: bench.credentials.apiKey,
    landmarks: [renamed, 'forget api key', 'rename to mcp.json'],
  },
  'a consent': {
    credential: bench.credentials.consent,
    landmarks: [renamed, 'forget refresh token', 'rename to mcp.json'],
  },
};

test.each(withEachVictim(ways))(
  'renaming a connection with $what: wherever the $victim crashes, it works under one name without leftovers',
  async ({ way: { credential, landmarks }, victim }) => {
    const crashes = await everyCrash(bench, {
      victim,
      async prepare() {
        const accounts = bench.start();
        await connect(bench, accounts, credential);
        await accounts.service.install('cursor', 'work');
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
        // A person repeats an interrupted command.
        const once = await bench.read(cursor);
        if (name === 'work' || once?.includes('"work"')) await accounts.rename('work', 'play');
        expect(Object.keys(JSON.parse((await bench.read(cursor)) ?? '{}').mcpServers)).toEqual([
          'play',
        ]);
        expect(await accounts.works('play')).toBe(true);
        expect(await bench.orphans()).toEqual([]);
        expect(await accounts.service.uninstall('cursor', 'play')).toMatchObject({
          did: 'restored',
        });
        await accounts.service.remove('play');
        expect(await bench.orphans()).toEqual([]);
      },
    });

    expect(crashes).toBeGreaterThan(2 * landmarks.length);
  },
);

test('rename: afterwards, a rotation on trial can still be undone', async () => {
  const accounts = bench.start();
  const { service } = accounts;
  await service.add({ name: 'work', url: bench.url, as: 'api_key', apiKeySecret: bench.keys[0] });
  await service.rotateKey('work', bench.keys[1]);
  await accounts.rename('work', 'play');

  expect(await service.undoRotation('play')).toBe(true);
  expect(await accounts.works('play')).toBe(true);
  await service.remove('play');
  expect(await bench.orphans()).toEqual([]);
});

test('rename: a taken name and a connection that does not exist are refused', async () => {
  const accounts = bench.start();
  await accounts.service.add({
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
  await accounts.service.remove('work');
});

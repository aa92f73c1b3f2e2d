import { afterAll, beforeAll, expect, test } from 'vitest';
import { suite } from '#support/suite';
import { everyPoint } from '#support/tray/every-point';
import { killBench, type KillBench, type Victim } from '#support/tray/kill-bench';
import { remoteEntry, takenEntry, type TakenFrom } from '#support/tray/taken-entry';

const victims: Victim[] = ['app', 'keyring'];

/** What an assistant has, where its secret goes, and what is written on the way. */
type Way = {
  assistant: TakenFrom;
  entry: (bench: KillBench) => object;
  account: (url: string) => string;
  passes: string[];
};

const ways: Record<string, Way> = {
  'the header of an entry that starts mcp-remote': {
    assistant: 'cursor',
    entry: ({ url, keys }) => ({
      ...remoteEntry(url, '--header', 'X-API-Key:${KEY}'),
      env: { KEY: keys[0] },
    }),
    account: (url) => `header ${JSON.stringify([url, 'taken', 'x-api-key'])}`,
    passes: ['keep header', 'rename to connections.json', 'rename to mcp.json'],
  },
  'a key that stands in a file': {
    assistant: 'claude-desktop',
    entry: ({ url, keys }) => ({ url, apiKey: keys[0] }),
    account: (url) => `api key ${JSON.stringify([url, ''])}`,
    passes: ['keep api key', 'rename to claude_desktop_config.json'],
  },
};

await suite(['keychain', 'browser'], 'tray app imports a secret', () => {
  let bench: KillBench;
  beforeAll(async () => {
    bench = await killBench();
  }, 120_000);
  afterAll(async () => bench?.[Symbol.asyncDispose]());

  test.each(
    Object.entries(ways).flatMap(([what, way]) => victims.map((victim) => ({ what, victim, way }))),
  )(
    '$what, with the $victim killed before each write: it is in the file or in the keychain',
    async ({ victim, way: { assistant, entry, account, passes } }) => {
      const taken = takenEntry(bench, assistant, entry(bench));
      const [secret] = bench.keys;
      const place = account(bench.url);
      const kept = async () => (await bench.kept()).get(place) === secret;
      const clear = async () => {
        await taken.clear();
        // Our programs never delete a secret to which an assistant's own file referred.
        if (await kept()) await bench.forget(place);
      };
      const points = await everyPoint(bench, {
        victim,
        start: () => bench.connect('steady'),
        async work() {
          await taken.put();
          return taken.take();
        },
        async after(told, point) {
          const where = `${point}: ${JSON.stringify(told)}`;
          const { untouched } = await taken.read();
          const there = await kept();
          expect([where, untouched || there]).toEqual([where, true]);
          if (told?.ok) expect([where, untouched, there]).toEqual([where, false, true]);
          const orphans = async () => bench.orphans([taken.file]);
          if (victim === 'app') expect([where, await orphans()]).toEqual([where, []]);
          if (untouched) expect([where, await taken.take()]).toMatchObject([where, { ok: true }]);
          await taken.shown(/^Connected$/);
          const { text } = await taken.read();
          expect([where, text.includes(secret), await kept()]).toEqual([where, false, true]);
          expect([where, await bench.works('taken')]).toEqual([where, true]);
          expect([where, await orphans()]).toEqual([where, []]);
          await clear();
        },
      });
      await clear();

      expect(points).toEqual(expect.arrayContaining(passes));
      expect(points.length).toBeGreaterThan(6);
      expect(await bench.works('steady')).toBe(true);
      expect(await bench.orphans()).toEqual([]);
    },
    300_000,
  );
});

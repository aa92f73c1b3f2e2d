import { afterAll, beforeAll, expect, test } from 'vitest';
import { suite } from '#support/suite';
import { everyPoint } from '#support/tray/every-point';
import { killBench, type KillBench, type Victim } from '#support/tray/kill-bench';

const kinds = ['api_key', 'client'] as const;
type Kind = (typeof kinds)[number];
const victims: Victim[] = ['app', 'keyring', 'proxy'];
const patience = { timeout: 20_000, interval: 20 };

await suite(['keychain', 'browser'], 'the tray app while it rotates a secret', () => {
  let bench: KillBench;
  beforeAll(async () => {
    bench = await killBench();
    for (const kind of kinds) {
      const [secret] = secretsOf(kind);
      const credential =
        kind === 'api_key'
          ? { as: kind, apiKeySecret: secret }
          : { as: kind, clientId: bench.client.id, clientSecret: secret, scopes: [] };
      const added = await bench.ask('add', { name: kind, url: bench.url, credential });
      if (!added.ok) throw new Error(JSON.stringify(added));
    }
  }, 120_000);
  afterAll(async () => bench?.[Symbol.asyncDispose]());

  const secretsOf = (kind: Kind) => (kind === 'api_key' ? bench.keys : bench.client.secrets);
  /** What stands in the keychain for the connection, and for the one before it. */
  const standing = async (kind: Kind, prefix = '') => {
    const account = kind === 'api_key' ? `api key ["${bench.url}","api_key"]` : `client secret `;
    const found = [...(await bench.kept())].find(([name]) => name.startsWith(prefix + account));
    return secretsOf(kind).find((secret) => found?.[1].includes(secret));
  };
  const shownReady = async (kind: Kind) => {
    await expect.poll(async () => bench.stateOf(kind), patience).toBe('ready');
  };

  test.each(kinds.flatMap((kind) => victims.map((victim) => ({ kind, victim }))))(
    'of $kind, with the $victim killed before anything is written: the old one or the new one',
    async ({ kind, victim }) => {
      let next = '';
      const points = await everyPoint(bench, {
        victim,
        proxyOf: kind,
        async work() {
          const [first, second] = secretsOf(kind);
          next = (await standing(kind)) === first ? second : first;
          return bench.ask('rotate', { name: kind, secret: next });
        },
        async after(told, point) {
          const where = `${point}: ${JSON.stringify(told)}`;
          const used = await standing(kind);
          await shownReady(kind);
          expect([where, used !== undefined]).toEqual([where, true]);
          if (told?.ok) expect([where, used]).toEqual([where, next]);
          if (victim === 'proxy') expect([where, told]).toMatchObject([where, { ok: true }]);
          expect([where, await bench.orphans()]).toEqual([where, []]);
          const repeated = await bench.ask('rotate', { name: kind, secret: next });
          expect([where, repeated]).toMatchObject([where, { ok: true }]);
          expect([where, await standing(kind)]).toEqual([where, next]);
          await using proxy = bench.connect(kind);
          await proxy.handshake();
          expect([where, (await proxy.request('tools/list')).result !== undefined]).toEqual([
            where,
            true,
          ]);
          // A call has worked with the new one, and its proxy forgets the old one.
          await expect.poll(async () => standing(kind, 'prior '), patience).toBeUndefined();
        },
      });

      const what = kind === 'api_key' ? 'api key' : 'client secret';
      const passed = ['half of write *.trial', `keep prior ${what}`, `keep ${what}`];
      expect(points).toEqual(expect.arrayContaining(passed));
      expect(points.length).toBeGreaterThan(4);
      expect(await bench.works('steady')).toBe(true);
      expect(await bench.works(kind)).toBe(true);
    },
    300_000,
  );
});

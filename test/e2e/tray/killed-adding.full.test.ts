import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { suite } from '#support/suite';
import { everyPoint } from '#support/tray/every-point';
import { killBench, type KillBench, type Victim } from '#support/tray/kill-bench';
import { patient } from '#support/patient';

const ways = ['api_key', 'client', 'consent'] as const;
type Way = (typeof ways)[number];
const victims: Victim[] = ['app', 'keyring', 'proxy'];
/** An assistant's file that knows the connection before we do. */
const early = '.early.json';
/** The writes through which each way of adding passes, whatever else it writes. */
const landmarks: Record<Way, string[]> = {
  api_key: ['write *', 'keep api key', 'rename to connections.json'],
  client: ['write *', 'keep client secret', 'keep access token', 'rename to connections.json'],
  consent: ['write *', 'rename to connections.json', 'keep access token'],
};

await suite(['keychain', 'browser'], 'tray app adds a connection', () => {
  let bench: KillBench;
  beforeAll(async () => {
    bench = await killBench();
    const mcpServers = { work: { url: bench.url, account: 'work' } };
    await bench.write(early, JSON.stringify({ mcpServers }));
  }, 120_000);
  afterAll(async () => bench?.[Symbol.asyncDispose]());

  /** A proxy of the very connection that is added, which waits for somebody to sign in. */
  const waiting = () =>
    bench.connect('work', '--config', join(bench.home, early), '--sign-in', 'never');

  const credential = (way: Way) =>
    ({
      api_key: { as: 'api_key', apiKeySecret: bench.keys[0] },
      client: {
        as: 'client',
        clientId: bench.client.id,
        clientSecret: bench.client.secrets[0],
        scopes: [],
      },
      consent: { as: 'person' },
    })[way];

  const add = async (way: Way) => {
    const { url } = bench;
    const asked = async () => bench.ask('add', { name: 'work', url, credential: credential(way) });
    return way === 'consent' ? bench.allowed(asked) : asked();
  };
  const signIn = async () => bench.allowed(async () => bench.ask('signIn', { name: 'work' }));

  test.each([
    ...ways.flatMap((way) => victims.map((victim) => ({ way, victim, of: 'another' }))),
    { way: 'consent' as const, victim: 'proxy' as const, of: 'the same' },
  ])(
    'by $way, with the $victim killed before each write, beside a proxy of $of connection: all or nothing',
    async ({ way, victim, of }) => {
      const points = await everyPoint(bench, {
        victim,
        start: () => (of === 'the same' ? waiting() : bench.connect('steady')),
        work: async () => add(way),
        async after(told, point) {
          const there = (await bench.names()).includes('work');
          const state = there ? await whenShown() : undefined;
          const where = `${point}: ${JSON.stringify(told)}`;
          expect([where, (await bench.names()).includes('steady')]).toEqual([where, true]);
          if (victim === 'app') expect([where, await bench.orphans()]).toEqual([where, []]);
          if (victim === 'proxy') expect([where, told]).toMatchObject([where, { ok: true }]);
          if (told?.ok) expect([where, there]).toEqual([where, true]);
          if (way !== 'consent' && there) expect([where, state]).toEqual([where, 'Connected']);
          if (state === 'Connected')
            expect([where, await bench.works('work')]).toEqual([where, true]);
          else if (there) expect([where, await signIn()]).toMatchObject([where, { ok: true }]);
          else expect([where, await add(way)]).toMatchObject([where, { ok: true }]);
          expect([where, await bench.ask('remove', { name: 'work' })]).toMatchObject([
            where,
            { ok: true },
          ]);
          expect([where, await bench.orphans()]).toEqual([where, []]);
        },
      });
      await bench.ask('remove', { name: 'work' });

      expect(points).toEqual(expect.arrayContaining(landmarks[way]));
      expect(points.length).toBeGreaterThan(6);
      expect(await bench.works('steady')).toBe(true);
      expect(await bench.orphans()).toEqual([]);
    },
    300_000,
  );

  async function whenShown(): Promise<string | undefined> {
    await expect
      .poll(async () => bench.stateOf('work'), patient)
      .toMatch(/^(Connected|Sign-in required)$/);
    return bench.stateOf('work');
  }
});

import { afterAll, beforeAll, expect, test } from 'vitest';
import { serverHash } from '#proxy/config/mcp-remote';
import { suite } from '#support/suite';
import { everyPoint } from '#support/tray/every-point';
import { killBench, type KillBench, type Victim } from '#support/tray/kill-bench';
import { remoteEntry, takenEntry } from '#support/tray/taken-entry';

const victims: Victim[] = ['app', 'keyring'];

await suite(['keychain', 'browser'], 'tray app imports a sign-in', () => {
  let bench: KillBench;
  beforeAll(async () => {
    bench = await killBench();
  }, 120_000);
  afterAll(async () => bench?.[Symbol.asyncDispose]());

  test.each(victims)(
    'of mcp-remote, with the %s killed before each write: it is in its file or in the keychain',
    async (victim) => {
      const info = JSON.stringify({ client_id: bench.personsClient.id });
      const entry = remoteEntry(bench.url, '--static-oauth-client-info', info);
      const taken = takenEntry(bench, 'cursor', entry);
      const file = `.mcp-auth/mcp-remote-v1/${serverHash({ url: bench.url })}_tokens.json`;
      const tokens = JSON.stringify({
        access_token: 'at_of_before',
        refresh_token: 'rt_of_before',
        issuer: new URL(bench.url).origin,
      });
      const keeps = async (token: string) => {
        const all = [...(await bench.kept()).values()];
        return all.some((one) => one.includes(token));
      };
      const points = await everyPoint(bench, {
        victim,
        start: () => bench.connect('steady'),
        async work() {
          await bench.write(file, tokens);
          await taken.put();
          return taken.take();
        },
        async after(told, point) {
          const where = `${point}: ${JSON.stringify(told)}`;
          const { untouched } = await taken.read();
          const there = (await bench.read(file)) === tokens;
          expect([where, there || (await keeps('rt_of_before'))]).toEqual([where, true]);
          if (untouched) {
            expect([where, there]).toEqual([where, true]);
            expect([where, await taken.take()]).toMatchObject([where, { ok: true }]);
            expect([where, await keeps('rt_of_before')]).toEqual([where, true]);
          }
          await taken.shown((await keeps('at_of_before')) ? /^ready$/ : /^needs sign-in$/);
          expect([where, await bench.orphans()]).toEqual([where, []]);
          await taken.clear();
          expect([where, await bench.orphans()]).toEqual([where, []]);
        },
      });
      await taken.clear();

      const passed = ['rename to mcp.json', 'keep refresh token', 'keep access token'];
      expect(points).toEqual(expect.arrayContaining(passed));
      expect(points.length).toBeGreaterThan(6);
      expect(await bench.works('steady')).toBe(true);
      expect(await bench.orphans()).toEqual([]);
    },
    300_000,
  );
});

import { afterAll, beforeAll, expect, test } from 'vitest';
import { suite } from '../suite.ts';
import { everyPoint } from './every-point.ts';
import { killBench, type KillBench, type Victim } from './kill-bench.ts';
import { patient } from '../patient.ts';

/** The kind of secret; `person` is the secret of the client through which a person signs in. */
export type RotatedKind = 'api_key' | 'client' | 'person';

const victims: Victim[] = ['app', 'keyring', 'proxy'];
/** Defines the tests of the rotation of a secret, with each victim killed before every write of the rotation. */
export async function killedRotations(kinds: readonly RotatedKind[]): Promise<void> {
  await suite(['keychain', 'browser'], 'the tray app while it rotates a secret', () => {
    let bench: KillBench;
    beforeAll(async () => {
      bench = await killBench();
      for (const kind of kinds) {
        const added = await add(kind);
        if (!added.ok) throw new Error(JSON.stringify(added));
        const ready = `${kind} — Connected`;
        await bench.app().trayWhere(({ menu }) => menu.some(({ label }) => label.includes(ready)));
      }
    }, 120_000);
    afterAll(async () => bench?.[Symbol.asyncDispose]());

    const clientOf = (kind: RotatedKind) => bench[kind === 'person' ? 'personsClient' : 'client'];
    const secretsOf = (kind: RotatedKind) =>
      kind === 'api_key' ? bench.keys : clientOf(kind).secrets;
    async function add(kind: RotatedKind) {
      const [clientSecret] = secretsOf(kind);
      const { id: clientId } = clientOf(kind);
      const scopes = ['mcp:tools:read', 'mcp:tools:execute'];
      const oauth = { clientId, clientSecret, scopes, grant: 'authorization_code' };
      const credential = {
        api_key: { as: kind, apiKeySecret: clientSecret },
        client: { as: kind, clientId, clientSecret, scopes: [] },
        person: { as: 'pasted', pastedText: JSON.stringify({ oauth }) },
      }[kind];
      const asked = async () => bench.ask('add', { name: kind, url: bench.url, credential });
      return kind === 'person' ? bench.allowed(asked) : asked();
    }
    /** The secret in the keychain for the connection; with the prefix `prior `, the secret before it. */
    const standing = async (kind: RotatedKind, prefix = '') => {
      const account =
        kind === 'api_key'
          ? `api key ["${bench.url}","api_key"]`
          : `client secret ["${bench.url}","${clientOf(kind).id}"]`;
      const found = (await bench.kept()).get(prefix + account);
      return secretsOf(kind).find((secret) => found?.includes(secret));
    };
    const shownReady = async (kind: RotatedKind) => {
      await expect.poll(async () => bench.stateOf(kind), patient).toBe('Connected');
    };

    test.each(kinds.flatMap((kind) => victims.map((victim) => ({ kind, victim }))))(
      'of $kind, with the $victim killed before each write: the old one or the new one',
      async ({ kind, victim }) => {
        let next = '';
        const points = await everyPoint(bench, {
          victim,
          start: () => bench.connect(kind),
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
            // After a call with the new secret, its proxy forgets the old one.
            await expect.poll(async () => standing(kind, 'prior '), patient).toBeUndefined();
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
}

import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import {
  crashBench,
  everyCrash,
  victims,
  type CrashBench,
  type StartedAccounts,
  type Victim,
} from '#support/crashes/crash-bench';

// Dozens of runs each, on a machine that may be busy.
vi.setConfig({ testTimeout: 120_000 });

let bench: CrashBench;
beforeAll(async () => {
  bench = await crashBench();
});
afterAll(async () => bench[Symbol.asyncDispose]());

const oauthText = () => {
  const { id: clientId, secrets } = bench.personsClient;
  return JSON.stringify({ clientId, clientSecret: secrets[0], grant: 'authorization_code' });
};

/** Whose secret it is, where it stands, and writes that are made while it is rotated. */
const kinds = {
  'an API key': {
    credential: () => ({ as: 'api_key', apiKeySecret: bench.keys[0] }) as const,
    secrets: () => bench.keys,
    account: () => `api key ${JSON.stringify([bench.url, 'work'])}`,
    landmarks: ['keep prior api key', 'keep api key'],
    rotate: 'rotateKey',
    // The server is asked for a token with none of them.
    signsIn: false,
  },
  'a client secret': {
    credential: () =>
      ({ as: 'client', clientId: 'client', clientSecret: bench.client.secrets[0] }) as const,
    secrets: () => bench.client.secrets,
    account: () => `client secret ${JSON.stringify([bench.url, 'client'])}`,
    landmarks: ['keep prior client secret', 'keep client secret', 'keep access token'],
    rotate: 'rotateSecret',
    signsIn: false,
  },
  'the secret of a client that people sign in by': {
    credential: () => ({ as: 'pasted', oauthText: oauthText() }) as const,
    secrets: () => bench.personsClient.secrets,
    account: () => `client secret ${JSON.stringify([bench.url, 'person'])}`,
    landmarks: [
      'keep refresh token',
      'keep access token',
      'keep prior client secret',
      'keep client secret',
    ],
    rotate: 'rotateSecret',
    signsIn: true,
  },
} as const;
type Kind = (typeof kinds)[keyof typeof kinds];

/** Which of its secrets is in use. */
const inUse = ({ account, secrets }: Kind) => {
  const found = bench.keychain.kept.get(account());
  return secrets().find((secret) => found?.includes(secret));
};
const rotated = async ({ door }: StartedAccounts, kind: Kind) =>
  door[kind.rotate]('work', kind.secrets()[1]);

async function added(kind: Kind): Promise<void> {
  const { door } = bench.start();
  await door.add({ name: 'work', url: bench.url, ...kind.credential() });
  if (kind.signsIn) await door.signIn('work', {});
}

test.each(
  Object.entries(kinds).flatMap(([what, kind]) =>
    victims.map((victim) => ({ what, kind, victim })),
  ),
)(
  'rotate $what: wherever the $victim crashes, the old or the new secret works, and rotation can be repeated',
  async ({ kind, victim }) => {
    bench.server.options.refreshesTwice = true;
    const crashes = await everyRotation(kind, victim, async (accounts) => rotated(accounts, kind));

    expect(crashes).toBeGreaterThan(2 * kind.landmarks.length);
  },
);

test('rotate the client secret of a personal sign-in: a lost refresh token costs one sign-in', async () => {
  bench.server.options.refreshesTwice = false;
  const kind = kinds['the secret of a client that people sign in by'];
  const lost: string[] = [];
  await everyRotation(kind, 'program', async (accounts, point) => {
    const done = await rotated(accounts, kind).catch(() => undefined);
    if (done) return;
    lost.push(point);
    await accounts.door.signIn('work', {});
    await rotated(accounts, kind);
  });

  expect(lost).toEqual(['before keep refresh token']);
});

test.each(victims)(
  'undo the rotation of an API key: wherever the %s crashes, one key works, and the old one can be restored',
  async (victim) => {
    const kind = kinds['an API key'];
    const [first, second] = kind.secrets();

    const crashes = await everyCrash(bench, {
      victim,
      async prepare() {
        await added(kind);
        await rotated(bench.start(), kind);
      },
      landmarks: ['keep api key', 'forget prior api key'],
      work: async ({ door }) => door.undoRotation('work'),
      async after({ accounts, told }) {
        await accounts.look();
        const used = inUse(kind);
        await accounts.door.undoRotation('work');

        expect(told?.ok ? [first] : [first, second]).toContain(used);
        expect(inUse(kind)).toBe(first);
        expect(bench.keychain.kept.has(`prior ${kind.account()}`)).toBe(false);
        expect(await accounts.works('work')).toBe(true);
      },
    });

    expect(crashes).toBeGreaterThan(4);
  },
);

async function everyRotation(
  kind: Kind,
  victim: Victim,
  repeat: (accounts: StartedAccounts, point: string) => Promise<unknown>,
): Promise<number> {
  const [first, second] = kind.secrets();
  const prior = `prior ${kind.account()}`;

  return everyCrash(bench, {
    victim,
    prepare: async () => added(kind),
    landmarks: kind.landmarks,
    work: async (accounts) => rotated(accounts, kind),
    async after({ accounts, told, point }) {
      const views = await accounts.look();
      const used = inUse(kind);

      expect(views.find(({ name }) => name === 'work')?.state).toBe('ready');
      expect(told?.ok ? [second] : [first, second]).toContain(used);
      expect(await bench.orphans()).toEqual([]);
      expect(await accounts.works('work')).toBe(true);
      await repeat(accounts, point);
      expect(inUse(kind)).toBe(second);
      // A call works with the new one, and its proxy forgets the old one.
      expect(await bench.start().works('work')).toBe(true);
      expect(bench.keychain.kept.has(prior)).toBe(false);
      expect(await accounts.works('steady')).toBe(true);
    },
  });
}

import { expect, test } from 'vitest';
import {
  benchOfFile,
  everyCrash,
  victims,
  withEachVictim,
  type StartedAccounts,
  type Victim,
} from '#support/crashes/crash-bench';

const bench = await benchOfFile();

const oauthText = () => {
  const { id: clientId, secrets } = bench.personsClient;
  return JSON.stringify({ clientId, clientSecret: secrets[0], grant: 'authorization_code' });
};

/** The kind of secret, its account in the keychain, and writes that rotating it makes. */
const kinds = {
  'an API key': {
    credential: { as: 'api_key', apiKeySecret: bench.keys[0] },
    secrets: () => bench.keys,
    account: () => `api key ${JSON.stringify([bench.url, 'work'])}`,
    landmarks: ['keep prior api key', 'keep api key'],
    rotate: 'rotateKey',
    signsIn: false,
  },
  'a client secret': {
    credential: bench.credentials.client,
    secrets: () => bench.client.secrets,
    account: () => `client secret ${JSON.stringify([bench.url, 'client'])}`,
    landmarks: ['keep prior client secret', 'keep client secret', 'keep access token'],
    rotate: 'rotateSecret',
    signsIn: false,
  },
  'the secret of a client with which people sign in': {
    credential: { as: 'pasted', oauthText: oauthText() },
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

/** The secret of this kind that the keychain holds. */
const inUse = ({ account, secrets }: Kind) => {
  const found = bench.keychain.kept.get(account());
  return secrets().find((secret) => found?.includes(secret));
};
const rotated = async ({ service }: StartedAccounts, kind: Kind) =>
  service[kind.rotate]('work', kind.secrets()[1]);

async function added(kind: Kind): Promise<void> {
  const { service } = bench.start();
  await service.add({ name: 'work', url: bench.url, ...kind.credential });
  if (kind.signsIn) await service.signIn('work', {});
}

test.each(withEachVictim(kinds))(
  'rotating $what: wherever the $victim crashes, the old or the new secret works, and rotation can be repeated',
  async ({ way: kind, victim }) => {
    bench.server.options.refreshesTwice = true;
    const crashes = await everyRotation(kind, victim, async (accounts) => rotated(accounts, kind));

    expect(crashes).toBeGreaterThan(2 * kind.landmarks.length);
  },
);

test('rotating the client secret of a personal sign-in: a lost refresh token requires one sign-in', async () => {
  bench.server.options.refreshesTwice = false;
  const kind = kinds['the secret of a client with which people sign in'];
  const lost: string[] = [];
  await everyRotation(kind, 'program', async (accounts, point) => {
    const done = await rotated(accounts, kind).catch(() => undefined);
    if (done) return;
    lost.push(point);
    await accounts.service.signIn('work', {});
    await rotated(accounts, kind);
  });

  expect(lost).toEqual(['before keep refresh token']);
});

test.each(victims)(
  'undoing the rotation of an API key: wherever the %s crashes, one key works, and the old one can be restored',
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
      work: async ({ service }) => service.undoRotation('work'),
      async after({ accounts, told }) {
        await accounts.look();
        const used = inUse(kind);
        await accounts.service.undoRotation('work');

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
      // A call with the new secret works, and then its proxy forgets the old secret.
      expect(await bench.start().works('work')).toBe(true);
      expect(bench.keychain.kept.has(prior)).toBe(false);
      expect(await accounts.works('steady')).toBe(true);
    },
  });
}

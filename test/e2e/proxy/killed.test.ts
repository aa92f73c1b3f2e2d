import { readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { crashBefore, crashBench, type CrashBench } from '#support/crashes/crash-bench';
import { accountsClient, type DiesBefore } from '#support/accounts-client';
import { keychainSession } from '#support/keychain-session';
import { latchkeyHome, type LatchkeyHome } from '#support/latchkey-home';
import { filesBelow } from '#support/leaks';
import { launcher } from '#support/proxy-process';
import { suite } from '#support/suite';
import { remoteEntry } from '#support/tray/taken-entry';

/*
 * The unit tests named `crash-*` crash the accounts service in process at every write. Here a real one, with a real
 * keychain, dies by a real SIGKILL once in each of their scenarios, and has to leave exactly what the model of it leaves.
 */

/** A call of the accounts service. */
type Call = readonly [name: string, ...input: unknown[]];

/** What is there before, what is done, and the write before which the process dies. */
type Scenario = {
  files?: (bench: CrashBench) => Record<string, object>;
  before?: (bench: CrashBench) => Call[];
  work: (bench: CrashBench, home: string) => Call[];
  killBefore: string;
};

const cursor = '.cursor/mcp.json';
const entryOf = (taken: object) => ({ mcpServers: { other: { command: 'other' }, taken } });
const taking = (_: CrashBench, home: string): Call[] => [['import', join(home, cursor), 'taken']];
const add =
  (credential: (bench: CrashBench) => object) =>
  (bench: CrashBench): Call[] => [['add', { name: 'work', url: bench.url, ...credential(bench) }]];
const byKey = add(({ keys }) => ({ as: 'api_key', apiKeySecret: keys[1] }));
const byClient = add(({ client: { id, secrets } }) => ({
  as: 'client',
  clientId: id,
  clientSecret: secrets[0],
}));
const byPerson = add(() => ({ as: 'person' }));
const byPersonsClient = add(({ personsClient: { id, secrets } }) => ({
  as: 'pasted',
  oauthText: JSON.stringify({
    clientId: id,
    clientSecret: secrets[0],
    grant: 'authorization_code',
  }),
}));
const signIn: Call = ['signIn', 'work'];

const scenarios: Record<string, Scenario> = {
  'add a connection by an API key: killed before the file has its name': {
    work: byKey,
    killBefore: 'rename to connections.json',
  },
  'add a connection by a client secret: killed before its token is stored': {
    work: byClient,
    killBefore: 'keep access token',
  },
  'add a connection by consent: killed before the refresh token is stored': {
    work: (bench) => [...byPerson(bench), signIn],
    killBefore: 'keep refresh token',
  },
  'import an entry with a header: killed before the assistant’s file is replaced': {
    files: ({ url, keys }) => ({
      [cursor]: entryOf({
        ...remoteEntry(url, '--header', 'X-API-Key:${KEY}'),
        env: { KEY: keys[1] },
      }),
    }),
    work: taking,
    killBefore: 'rename to mcp.json',
  },
  'rotate an API key: killed before the new one is stored': {
    before: byKey,
    work: ({ keys }) => [['rotateKey', 'work', keys[0]]],
    killBefore: 'keep api key',
  },
  'rotate a client secret: killed before the old one is put aside': {
    before: byClient,
    work: ({ client }) => [['rotateSecret', 'work', client.secrets[1]]],
    killBefore: 'keep prior client secret',
  },
  'rotate the secret of a client that people sign in by: killed before the new access token is stored':
    {
      before: (bench) => [...byPersonsClient(bench), signIn],
      work: ({ personsClient }) => [['rotateSecret', 'work', personsClient.secrets[1]]],
      killBefore: 'keep access token',
    },
  'undo the rotation of an API key: killed before the new one is forgotten': {
    before: (bench) => [...byKey(bench), ['rotateKey', 'work', bench.keys[0]]],
    work: () => [['undoRotation', 'work']],
    killBefore: 'forget prior api key',
  },
  'remove a connection: killed before its key is forgotten': {
    before: byKey,
    work: () => [['remove', 'work']],
    killBefore: 'forget api key',
  },
};

await suite('keychain', 'accounts service, killed', () => {
  let bench: CrashBench;
  beforeAll(async () => {
    bench = await crashBench({ node: process.execPath, script: launcher });
  });
  afterAll(async () => bench[Symbol.asyncDispose]());

  test.each(Object.entries(scenarios))(
    '%s, the state is what the model predicts, and the next start recovers like the model',
    async (_, { files = () => ({}), before = () => [], work, killBefore }) => {
      await using keychain = await keychainSession();
      await using home = await latchkeyHome(keychain.env);
      const real = realMachine(home);
      const texts = Object.entries(files(bench)).map(
        ([file, value]) => [file, JSON.stringify(value)] as const,
      );
      await using crashed = await crashBefore(bench, killBefore, {
        async prepare(accounts) {
          for (const [file, text] of texts) await bench.write(file, text);
          for (const [name, ...input] of before(bench)) await accounts.call(name, ...input);
        },
        async work(accounts) {
          for (const [name, ...input] of work(bench, bench.home))
            await accounts.call(name, ...input);
        },
      });
      const expected = left(bench.home, bench.keychain.kept);
      const expectedViews = await crashed.accounts.look();
      const expectedAfter = left(bench.home, bench.keychain.kept);

      for (const [file, text] of texts) await home.write(file, text);
      await using mortal = real({ write: killBefore, after: crashed.earlier });
      await mortal.call('add', bench.steady);
      for (const [name, ...input] of before(bench)) await mortal.call(name, ...input);
      const working = (async () => {
        for (const [name, ...input] of work(bench, home.path)) await mortal.call(name, ...input);
      })();
      await expect(working).rejects.toThrow('SIGKILL');
      const found = left(home.path, await keychain.contents());
      await using again = real();
      const views = await again.call<object[]>('look');

      expect(found).toEqual(expected);
      expect(views.map(shown)).toEqual(expectedViews.map(shown));
      expect(left(home.path, await keychain.contents())).toEqual(expectedAfter);
    },
  );
});

/** Starts a process that dies before the given write, or never without one. */
function realMachine(home: LatchkeyHome) {
  const browser = new URL('../../support/fake-browser.mjs', import.meta.url).pathname;
  const bare = { XDG_CONFIG_HOME: undefined, XDG_STATE_HOME: undefined, XDG_DATA_HOME: undefined };
  return (dies?: DiesBefore) => accountsClient({ ...bare, ...home.env, BROWSER: browser }, dies);
}

const shown = (view: object) => {
  const { name, as, state } = { name: '', as: '', state: '', ...view };
  return { name, as, state };
};

/** All that is on disk and in the keychain, without what differs from one run to the next. */
function left(home: string, kept: ReadonlyMap<string, string>) {
  const plain = (text: string) =>
    text
      .replaceAll(home, 'HOME')
      // A random name may consist of digits only.
      .replaceAll(/\.[0-9a-f]{12}\.tmp/g, '.*.tmp')
      .replaceAll(/\d{4}-\d\d-\d\dT\d\d-\d\d-\d\dZ/g, 'TIME')
      .replaceAll(/\b\d{10,}(\.\d+)?\b/g, 'TIME')
      .replaceAll(/127\.0\.0\.1:\d+\/callback/g, 'REDIRECT')
      .replaceAll(/\b(access|refresh)-[0-9a-f]+/g, '$1-TOKEN')
      .replaceAll(/\bregistered-\d+/g, 'registered-ID')
      .replaceAll(/[0-9a-f]{12,}/g, '*');
  const isOurs = (file: string) => !/\/(locks|run|presence)\//.test(file);
  const entries = [...kept].filter(([account]) => !account.startsWith('probe '));
  const sorted = (pairs: string[][]) =>
    pairs.map(([name = '', text = '']) => `${plain(name)}: ${plain(text)}`).toSorted();
  return {
    files: sorted(
      filesBelow(home)
        .filter(isOurs)
        .map((file) => [relative(home, file), readFileSync(file, 'utf8')]),
    ),
    keychain: sorted(entries),
  };
}

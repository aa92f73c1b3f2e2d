import { expect, test } from 'vitest';
import { AccountsError, type ConnectionView } from '#proxy/connections/accounts-service';
import { fakeClock } from '#support/fake-clock';
import { overview as overviewSchema, type Overview } from '#tray/model/contract';
import { menu } from '#tray/model/menu';
import { liveOverview, toConnectionView, type LiveOverviewPorts } from '#tray/model/overview';
import { trayStatus } from '#tray/model/state';
import { patient } from '#support/patient';

const unreadable = () => new AccountsError('io', 'the file cannot be read', 'look at the file');

/** Follows an accounts service that fails as often as given. */
function following(
  fails: { assistants?: number; watch?: number },
  failure: () => Error = unreadable,
  connections: ConnectionView[] = [],
) {
  const reported: unknown[] = [];
  const left = { assistants: 0, watch: 0, ...fails };
  const clock = fakeClock();
  const seen: Overview[] = [];
  const stop = new AbortController();
  const ended = Promise.withResolvers<void>();
  stop.signal.addEventListener('abort', () => ended.resolve());
  const accounts: LiveOverviewPorts['accounts'] = {
    async assistants() {
      if (left.assistants-- > 0) throw failure();
      return [];
    },
    async *watch() {
      yield connections;
      if (left.watch-- > 0) throw failure();
      await ended.promise;
    },
    claimNotice: async () => false,
  };
  const live = liveOverview({
    accounts,
    signIns: { views: () => [] },
    startsAtLogin: () => false,
    menuFailure: () => undefined,
    changed: (overview) => seen.push(overview),
    notify: () => undefined,
    report: (error) => reported.push(error),
    sleep: async (ms, signal) => clock.sleep(ms, signal),
  });
  const before = live.now();
  const done = live.follow(stop.signal);
  const troubles = () => seen.map(({ trouble }) => trouble?.problem);
  return { clock, before, seen, stop, done, troubles, reported };
}

const problem = 'The file cannot be read.';

test.each([
  ['cannot be asked at the start', { assistants: 2 }, [problem, problem, undefined]],
  ['fails later', { watch: 1 }, [undefined, problem, undefined]],
])(
  'live overview: an accounts service that %s is shown as an error, and retried until it works',
  async (_, fails, shown) => {
    const { clock, stop, done, troubles } = following(fails);
    for (let round = 0; round < 2; round += 1) {
      await clock.settled();
      await clock.advance(5);
    }
    await clock.settled();
    stop.abort();
    await done;

    expect(troubles()).toEqual(shown);
  },
);

test('live overview: an unexpected error is shown and reported, and the overview is updated again', async () => {
  const bug = new TypeError('undefined is not a function');
  const { clock, stop, done, troubles, reported } = following({ watch: 1 }, () => bug);
  await clock.settled();
  await clock.advance(5);
  await clock.settled();
  stop.abort();
  await done;

  expect(troubles()).toEqual([undefined, 'An unexpected error occurred (TypeError).', undefined]);
  expect(reported).toEqual([bug]);
});

test('live overview: an error is shown by the icon, its tooltip and the first line of the menu', async () => {
  const { clock, seen, stop, done } = following({ assistants: 1 });
  await clock.asleep();
  const [overview] = seen;
  stop.abort();
  await done;

  expect(overview && trayStatus(overview)).toEqual({
    icon: 'trouble',
    tooltip: `Latchkey: ${problem}`,
  });
  expect(overview && menu(overview)[0]).toMatchObject({ label: `▲ ${problem}` });
});

const sales: ConnectionView = {
  name: 'sales',
  url: 'https://acme.example/mcp',
  source: { file: '', own: true },
  as: 'person',
  state: 'ready',
  renewable: true,
  proxies: [],
  startedBy: [],
};

test.each([
  ['expiresAt', { expiresAt: 0.5 }, 'its tokenExpiresAt is invalid'],
  ['url', { url: 'acme' }, 'its url is invalid'],
])(
  'live overview: a connection whose %s is invalid is shown with that problem, and the others as usual',
  async (_, fault, detail) => {
    const faulty = { ...sales, ...fault, name: 'faulty' };
    const { clock, seen, stop, done } = following({}, unreadable, [faulty, sales]);
    await clock.settled();
    stop.abort();
    await done;

    const shown = overviewSchema.parse(seen.at(-1));
    expect(shown.connections).toMatchObject([
      { name: 'faulty', url: '', state: 'trouble', detail },
      { name: 'sales', state: 'ready', detail: '' },
    ]);
    expect(menu(shown)[0]).toMatchObject({ label: '▲ faulty — Error' });
  },
);

test('live overview: a connection that cannot be read is shown with the reason and nothing else', () => {
  const facts = toConnectionView(
    {
      name: 'bad',
      url: '',
      source: { file: '', own: false },
      as: 'person',
      state: 'trouble',
      reason: 'its url is missing',
      renewable: false,
      proxies: [],
      startedBy: [],
    },
    (assistant) => assistant,
  );

  expect(facts).toMatchObject({ state: 'trouble', detail: 'its url is missing', url: '' });
  expect(facts.dashboard).toBeUndefined();
});

test('live overview: until the accounts service has answered, no one sees that there are no connections', async () => {
  const { before, seen, stop, done } = following({});
  await expect.poll(() => seen.length, patient).toBeGreaterThan(0);
  stop.abort();
  await done;

  expect(menu(before)[0]).toMatchObject({ label: 'Loading connections…' });
  expect(trayStatus(before).tooltip).toBe('Latchkey: loading connections');
  expect(menu(seen[0]!)[0]).toMatchObject({ label: 'No connections yet' });
  expect(trayStatus(seen[0]!).tooltip).toBe('Latchkey: no connections yet');
});

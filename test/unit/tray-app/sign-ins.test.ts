import { expect, test } from 'vitest';
import type { Outcome } from '#tray/model/contract';
import { autostartEntry } from '#tray/main/login-start';
import { openSignIns, type SignInProgress } from '#tray/model/sign-ins';

const page = 'https://cloud.example.com/oauth/consent';

function waiting() {
  const seen: string[] = [];
  const reported: unknown[] = [];
  const signIns = openSignIns({
    now: () => 1,
    report: (error) => reported.push(error),
    changed: () =>
      seen.push(
        signIns
          .views()
          .map(({ phase }) => phase)
          .join(),
      ),
  });
  const ending = Promise.withResolvers<Outcome>();
  const work = async ({ signal, waiting: wait }: SignInProgress) => {
    wait(page, true);
    const no: Outcome = { ok: false, problem: 'given up', remedy: '' };
    signal.addEventListener('abort', () => ending.resolve(no));
    return ending.promise;
  };
  return { signIns, seen, reported, ending, work };
}

test('sign-in: its progress is reported from start to end, with its page while it waits', async () => {
  const { signIns, seen, ending, work } = waiting();
  const begun = signIns.begin('sales', work);
  const address = signIns.address('sales');
  ending.resolve({ ok: true, message: 'done' });
  await begun;

  expect(address).toBe(page);
  expect(seen).toEqual(['opening', 'waiting', 'done']);
  expect(signIns.address('sales')).toBeUndefined();
});

test('sign-in: a second one for the same connection joins the first', async () => {
  const { signIns, ending, work } = waiting();
  const first = signIns.begin('sales', work);
  const second = signIns.begin('sales', async () => Promise.reject(new Error('begun twice')));
  ending.resolve({ ok: true, message: 'done' });

  expect(await second).toBe(await first);
});

test('sign-in: a cancelled one is not a failure, and a failed one says why', async () => {
  const { signIns, seen, work } = waiting();
  const begun = signIns.begin('sales', work);
  const cancelled = signIns.cancel('sales');
  await begun;
  await signIns.begin('sales', async () => ({ ok: false, problem: 'denied', remedy: 'ask again' }));

  expect(cancelled).toBe(true);
  expect(signIns.cancel('sales')).toBe(false);
  expect(seen).toContain('cancelled');
  expect(signIns.views()).toMatchObject([
    { phase: 'failed', problem: 'denied', remedy: 'ask again' },
  ]);
});

test('sign-in: an unexpected error ends it as failed, reports the error, and allows another one', async () => {
  const { signIns, seen, reported, work } = waiting();
  const bug = new TypeError('undefined is not a function');
  const outcome = await signIns.begin('sales', async ({ waiting: wait }) => {
    wait(page, true);
    throw bug;
  });
  const failed = signIns.views();
  const address = signIns.address('sales');
  void signIns.begin('sales', work);

  expect(outcome).toMatchObject({
    ok: false,
    problem: 'An unexpected error occurred (TypeError).',
  });
  expect(failed).toMatchObject([
    { phase: 'failed', problem: expect.stringContaining('TypeError') },
  ]);
  expect(address).toBeUndefined();
  expect(reported).toEqual([bug]);
  expect(seen.at(-1)).toBe('waiting');
});

test('autostart on Linux: the desktop entry quotes the whole path of the app', () => {
  let text: string | undefined;
  const start = autostartEntry(
    {
      exists: () => text !== undefined,
      write: (to) => void (text = to),
      remove: () => void (text = undefined),
    },
    '/home/dana/My Apps/Latchkey 100%.AppImage',
  );
  start.set(true);
  const written = text;
  const on = start.isOn();
  start.set(false);

  expect(written).toContain('Exec="/home/dana/My Apps/Latchkey 100%%.AppImage" --hidden');
  expect(on).toBe(true);
  expect(start.isOn()).toBe(false);
});

import { expect, test } from 'vitest';
import { signInPolicy } from '#proxy/auth/sign-in-service';
import type { TokenRecord } from '#proxy/auth/token-vault';
import { fakeClock } from '#support/fake-clock';

const record: TokenRecord = { accessToken: 'a', obtainedAt: 0, issuer: 'i', published: true };

function policy(
  mode: 'auto' | 'always' | 'never',
  { before = false, claimed = false, timely = true } = {},
) {
  const clock = fakeClock();
  const asked: PromiseWithResolvers<TokenRecord>[] = [];
  const noted: unknown[] = [];
  let day = claimed;
  const signIn = signInPolicy({
    mode,
    marks: {
      signedInBefore: () => before,
      forgetListed: () => Promise.resolve(),
      rememberSignedIn: () => Promise.resolve(),
      claimNotice: () => Promise.resolve(true),
      claimToday: () => {
        const mine = !day;
        day = true;
        return Promise.resolve(mine);
      },
      wantScopes: () => Promise.resolve(),
      wantedScopes: () => Promise.resolve([]),
      noteMissingAccount: () => Promise.resolve(),
      missingAccount: () => Promise.resolve(undefined),
    },
    isTimely: () => timely,
    isUnderWay: () => asked.length > 0,
    open: async () => {
      const page = asked[0] ?? Promise.withResolvers<TokenRecord>();
      if (asked.length === 0) asked.push(page);
      return page.promise;
    },
    noteScopes: (known) => Promise.resolve(void noted.push(known)),
    clock,
  });
  const want = async (wider = false) => signIn({ wider }, (found) => found !== undefined);
  return { clock, asked, noted, want };
}

test("sign-in policy: 'never' opens no browser; 'auto' opens none twice a day or after a first sign-in", async () => {
  for (const { want, asked } of [
    policy('never'),
    policy('auto', { before: true }),
    policy('auto', { claimed: true }),
    policy('auto', { timely: false }),
    policy('always', { timely: false }),
  ]) {
    await expect(want()).rejects.toMatchObject({ code: 'signed_out' });
    expect(asked).toHaveLength(0);
  }
});

test("sign-in policy: 'always' opens one browser for all requests, which wait for it", async () => {
  const { clock, asked, want } = policy('always', { before: true });
  const waiting = [want(), want()];
  await clock.advance(600);
  asked[0]?.resolve(record);

  expect(await Promise.all(waiting)).toEqual([record, record]);
  expect(asked).toHaveLength(1);
});

test("sign-in policy: 'auto' fails a request before the assistant’s timeout, while the page stays open", async () => {
  const { clock, asked, want } = policy('auto');
  const early = want();
  early.catch(() => undefined);
  await clock.settled();
  await clock.advance(46);
  await expect(early).rejects.toMatchObject({ code: 'signing_in' });
  const late = want();
  await clock.settled();
  asked[0]?.resolve(record);

  expect(await late).toEqual(record);
  expect(asked).toHaveLength(1);
});

test('sign-in policy: scopes that could not be requested are kept for the next sign-in', async () => {
  const { noted, want } = policy('never');

  await expect(want(true)).rejects.toThrow('does not include');
  expect(noted).toHaveLength(1);
});

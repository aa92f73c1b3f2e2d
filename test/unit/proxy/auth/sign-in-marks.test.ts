import { expect, test } from 'vitest';
import { fileMarks, signedInUrls } from '#proxy/auth/sign-in-marks';
import { fakeClock } from '#support/fake-clock';
import { temporaryFolder } from '#support/temporary-folder';

const url = 'https://cloud.example.com/mcp/acme/sales?x=1';

test('browser mark: only the first of simultaneous sign-ins may open the browser, and no other for a day', async () => {
  await using folder = await temporaryFolder();
  const clock = fakeClock(1_800_000_000);
  const marks = () => fileMarks(folder.path, url, clock);

  const claims = await Promise.all(Array.from({ length: 20 }, async () => marks().claimToday()));
  await clock.advance(86_399);
  const soon = await marks().claimToday();
  await clock.advance(2);
  const later = await marks().claimToday();

  expect(claims.filter(Boolean)).toHaveLength(1);
  expect(soon).toBe(false);
  expect(later).toBe(true);
});

test('notice mark: a notice is shown once a day across all processes, whether or not the browser opened', async () => {
  await using folder = await temporaryFolder();
  const clock = fakeClock();
  const marks = () => fileMarks(folder.path, url, clock);
  await marks().claimToday();

  const claims = await Promise.all(Array.from({ length: 20 }, async () => marks().claimNotice()));
  await clock.advance(86_401);

  expect(claims.filter(Boolean)).toHaveLength(1);
  expect(await marks().claimNotice()).toBe(true);
});

test('browser mark: each connection has its own', async () => {
  await using folder = await temporaryFolder();
  const clock = fakeClock();

  expect(await fileMarks(folder.path, url, clock).claimToday()).toBe(true);
  expect(await fileMarks(folder.path, `${url}2`, clock).claimToday()).toBe(true);
});

test('sign-in mark: every later process sees it, and it replaces the mark of missing scopes', async () => {
  await using folder = await temporaryFolder();
  const clock = fakeClock();
  const marks = fileMarks(folder.path, url, clock);
  await marks.wantScopes(['a', 'b']);
  const wanted = await fileMarks(folder.path, url, clock).wantedScopes();
  await marks.rememberSignedIn();
  const next = fileMarks(folder.path, url, clock);

  expect(wanted).toEqual(['a', 'b']);
  expect(next.signedInBefore()).toBe(true);
  expect(await next.wantedScopes()).toEqual([]);
});

test('mark of a missing account: every process sees it for an hour, or until a check finds the account', async () => {
  await using folder = await temporaryFolder();
  const clock = fakeClock();
  const marks = () => fileMarks(folder.path, url, clock);
  const before = await marks().missingAccount();
  await marks().noteMissingAccount('connect your account: open https://a.example/x');
  const noted = await marks().missingAccount();
  await marks().noteMissingAccount(undefined);
  const found = await marks().missingAccount();
  await marks().noteMissingAccount('again');
  await clock.advance(3600);

  expect([before, noted, found]).toEqual([
    undefined,
    { message: 'connect your account: open https://a.example/x', at: clock.now() - 3600 },
    undefined,
  ]);
  expect(await marks().missingAccount()).toBeUndefined();
});

test('sign-in mark: a process that stores no secrets leaves none', async () => {
  await using folder = await temporaryFolder();
  const clock = fakeClock();
  const forgetful = fileMarks(folder.path, url, clock, true);
  await forgetful.rememberSignedIn();

  expect(forgetful.signedInBefore()).toBe(true);
  expect(fileMarks(folder.path, url, clock, true).signedInBefore()).toBe(false);
});

test('sign-in mark: a bare URL is listed from sign-in to sign-out, a configured connection never', async () => {
  await using folder = await temporaryFolder();
  const clock = fakeClock();
  const bare = fileMarks(folder.path, url, clock, false, url);
  await bare.rememberSignedIn();
  await fileMarks(folder.path, `${url} work`, clock).rememberSignedIn();
  const listed = await signedInUrls(folder.path);
  await bare.forgetListed();

  expect(listed).toEqual([url]);
  expect(await signedInUrls(folder.path)).toEqual([]);
  expect(fileMarks(folder.path, url, clock).signedInBefore()).toBe(true);
});

test('sign-in mark: nothing is listed if nobody has ever signed in', async () => {
  expect(await signedInUrls('/nonexistent')).toEqual([]);
});

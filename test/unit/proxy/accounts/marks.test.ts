import { expect, test } from 'vitest';
import { fileMarks } from '#proxy/accounts/marks';
import { signedInUrls } from '#proxy/accounts/signed-in-urls';
import { fakeClock } from '#support/fake-clock';
import { temporaryFolder } from '#support/temporary-folder';

const url = 'https://cloud.example.com/mcp/acme/sales?x=1';

test('of many who ask at once one may open the browser, and nobody else for a day', async () => {
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

test('a notice is shown once a day by all processes, whether or not the browser was opened', async () => {
  await using folder = await temporaryFolder();
  const clock = fakeClock();
  const marks = () => fileMarks(folder.path, url, clock);
  await marks().claimToday();

  const claims = await Promise.all(Array.from({ length: 20 }, async () => marks().claimNotice()));
  await clock.advance(86_401);

  expect(claims.filter(Boolean)).toHaveLength(1);
  expect(await marks().claimNotice()).toBe(true);
});

test('another connection has a day of its own', async () => {
  await using folder = await temporaryFolder();
  const clock = fakeClock();

  expect(await fileMarks(folder.path, url, clock).claimToday()).toBe(true);
  expect(await fileMarks(folder.path, `${url}2`, clock).claimToday()).toBe(true);
});

test('a sign-in is remembered by every later process, and takes the wanted scopes along', async () => {
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

test('a process that keeps no secrets leaves no mark of a sign-in', async () => {
  await using folder = await temporaryFolder();
  const clock = fakeClock();
  const forgetful = fileMarks(folder.path, url, clock, true);
  await forgetful.rememberSignedIn();

  expect(forgetful.signedInBefore()).toBe(true);
  expect(fileMarks(folder.path, url, clock, true).signedInBefore()).toBe(false);
});

test('a bare URL is listed from its sign-in to its sign-out, a configured connection never', async () => {
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

test('where nobody ever signed in nothing is listed', async () => {
  expect(await signedInUrls('/nonexistent')).toEqual([]);
});

import { afterAll, beforeAll, expect, test, vi } from 'vitest';

import { type StoryPlace, storyPlace } from '#support/activity-story/story-place';
import { rowsOf, tenCalls, tenRows as tenRowsOf } from '#support/activity-story/ten-calls';
import { chromium } from '#support/chromium';
import { dashboardVisitor, signInAs } from '#support/dashboard-visitor';
import { patient } from '#support/patient';
import { suite } from '#support/suite';

const tenRows = tenRowsOf('http');
let place: StoryPlace;
beforeAll(async () => {
  place = await storyPlace('SQLite', 'http');
  await tenCalls(place);
});
afterAll(() => place[Symbol.asyncDispose]());

test('activity: each of ten calls with programs of others is one row that says who called what, and how it ended', async () => {
  await vi.waitFor(async () => expect(await rowsOf(place.stores)).toEqual(tenRows), patient);
});

await suite('browser', 'activity in a browser', () => {
  test('an administrator sees the calls, filters them by clicking, and opens one', async () => {
    await using browser = await chromium();
    const visitor = await dashboardVisitor(browser, place.server);
    const { page } = visitor;
    await signInAs(visitor, place.server, place.dana.email);
    const sentences = page.locator('main .sentence');
    await vi.waitFor(async () => {
      await visitor.open('/activity');
      expect(await sentences.count()).toBe(tenRows.length);
    }, patient);
    const shown = await sentences.allInnerTexts();

    await visitor.follow('Elder 1.0');
    await page.waitForURL('**/activity?application=Elder+1.0');
    expect(await sentences.count()).toBe(2);
    await visitor.follow('failing');
    await page.waitForURL('**tool=failing**');
    expect(await sentences.allInnerTexts()).toEqual([
      expect.stringContaining('dana@example.com used failing of'),
    ]);
    await visitor.follow(/^View/);
    await page.getByRole('heading', { name: 'failing' }).first().waitFor();
    const details = await page.locator('main').innerText();
    await page.getByRole('link', { name: 'Your other calls' }).click();
    await page.waitForURL('**person=**');
    const ofDana = await sentences.count();
    await visitor.open('/activity');
    await page.getByLabel('Outcome', { exact: true }).selectOption('failed');
    await visitor.press('Apply');
    await page.waitForURL('**outcome=failed**');

    expect(shown.at(-1)).toContain('dana@example.com used echo of');
    expect(shown.at(0)).toMatch(/API key laptop tried to use crashing .*Server error/s);
    expect(details).toMatch(/Your call failed because the tool reported an error/);
    for (const fact of ['Story app', 'Elder 1.0', 'tools/call', 'MCP up to 2025-11-25']) {
      expect(details).toContain(fact);
    }
    expect(ofDana).toBe(3);
    const failed = tenRows.filter(([, , , , , end]) => end !== 'ok' && end !== 'cancelled');
    expect(await sentences.count()).toBe(failed.length);
  });
});

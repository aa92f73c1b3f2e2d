import { afterAll, beforeAll, expect, test } from 'vitest';

import { accessibilityProblems } from '#support/chromium';
import {
  dashboardVisitor,
  ownersDashboard,
  signInAs,
  email,
  type OwnersDashboard,
} from '#support/dashboard-visitor';

import { suite } from '#support/suite';

await suite('browser', 'the search', () => {
  let at: OwnersDashboard;
  beforeAll(async () => {
    at = await ownersDashboard();
  });
  afterAll(() => at[Symbol.asyncDispose]());

  test('Ctrl-K opens a dialog, arrows choose, Enter opens, Escape gives the focus back', async () => {
    const { page, open } = at.dana;
    await open('/people');
    await page.getByRole('link', { name: 'Settings' }).focus();
    await page.keyboard.press('Control+k');
    const dialog = page.getByRole('dialog', { name: 'Search' });
    await page.keyboard.type('libr');
    await dialog.getByRole('link', { name: 'library' }).first().waitFor();
    const problems = await accessibilityProblems(page);
    await page.keyboard.press('ArrowDown');
    const chosen = (await page.locator(':focus').textContent())?.trim();
    await page.keyboard.press('Escape');
    const after = (await page.locator(':focus').textContent())?.trim();
    await page.keyboard.press('Control+k');
    await page.keyboard.type('webho');
    await dialog.getByRole('link', { name: 'Webhooks' }).waitFor();
    await page.keyboard.press('Enter');
    await page.waitForURL('**/settings/webhooks');

    expect(problems).toEqual([]);
    expect(chosen).toBe('library');
    expect(after).toBe('Settings');
  });

  test('opens again at once after Escape', async () => {
    const { page, open } = at.dana;
    await open('/people');
    await page.keyboard.press('Control+k');
    const dialog = page.getByRole('dialog', { name: 'Search' });
    await dialog.waitFor();
    // Opens the dialog again before the browser has reported that it is closed.
    await page.evaluate(`for (const [key, ctrlKey] of [['Escape', false], ['k', true]])
      document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { key, ctrlKey, bubbles: true }));`);
    await page.keyboard.type('webho');
    await dialog.getByRole('link', { name: 'Webhooks' }).waitFor();
    await page.keyboard.press('Enter');
    await page.waitForURL('**/settings/webhooks');

    expect(await page.getByRole('heading', { level: 1 }).textContent()).toContain('Webhooks');
  });

  test('works as a page without scripts', async () => {
    const { server } = at;
    const browser = at.dana.context.browser();
    if (!browser) throw new Error('no browser');
    const plain = await dashboardVisitor(browser, server, { scripts: false });
    await signInAs(plain, server, email);
    await plain.page.getByRole('link', { name: 'Search', exact: true }).click();
    await plain.page.getByLabel('Search for').fill('library');
    await plain.press('Search');
    await plain.page.getByRole('main').getByRole('link', { name: 'library' }).first().click();
    await plain.page.waitForURL('**/servers/library');
    const heading = await plain.page.getByRole('heading', { level: 1 }).textContent();
    await plain.context.close();

    expect(heading).toBe('library');
  });
});

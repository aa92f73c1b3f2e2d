import { afterAll, beforeAll, expect, test } from 'vitest';

import { accessibilityProblems } from '#support/chromium';
import {
  dashboardVisitor,
  email,
  libraryKey,
  ownersDashboard,
  signInAs,
  type OwnersDashboard,
} from '#support/dashboard-visitor';
import { mcpCall } from '#support/mcp-call';
import { suite } from '#support/suite';

await suite('browser', 'choosing the tools of a collection', () => {
  let at: OwnersDashboard;
  beforeAll(async () => {
    at = await ownersDashboard();
    const { key } = await libraryKey(at.server, 'k');
    await mcpCall(`${at.server.base}/mcp/acme/library`, { key });
    await at.server.command(['collection', 'create', 'acme/desk', '--member', 'library']);
  });
  afterAll(() => at[Symbol.asyncDispose]());

  test('tools are counted as boxes are ticked, and nothing is saved by that', async () => {
    const { page, open } = at.dana;
    const told = page.getByText('With this choice, the collection has');
    await open('/new-collection');
    const before = await told.textContent();
    await page.getByRole('checkbox', { name: 'library' }).check();
    await page.getByText(/has [1-9]\d* tools?, about [1-9]/).waitFor();
    const problems = await accessibilityProblems(page);
    await open('/servers/desk/members/library/tools');
    const all = await told.textContent();
    await page.getByLabel('Chosen tools').check();
    await page.getByText('has 0 tools.').waitFor();
    await page.getByRole('checkbox', { name: 'query' }).check();
    await page.getByText(/has 1 tool, about [1-9]/).waitFor();
    const hasButton = await page.getByRole('button', { name: 'Count again' }).isVisible();
    await open('/servers/desk/members/library/tools');

    expect(before).toContain('has 0 tools. Cursor shows 40, Windsurf shows 100,');
    expect(problems).toEqual([]);
    expect(all).toMatch(/has [2-9]\d* tools, about/);
    expect(hasButton).toBe(false);
    expect(await told.textContent()).toBe(all);
  });

  test('without scripts, a button counts', async () => {
    const browser = at.dana.context.browser();
    if (!browser) throw new Error('no browser');
    const plain = await dashboardVisitor(browser, at.server, { scripts: false });
    await signInAs(plain, at.server, email);
    await plain.open('/new-collection');
    await plain.page.getByLabel('Name', { exact: true }).fill('other');
    await plain.page.getByRole('checkbox', { name: 'library' }).check();
    await plain.press('Count again');
    const words = await plain.page.getByRole('status').textContent();
    const typed = await plain.page.getByLabel('Name', { exact: true }).inputValue();
    await plain.context.close();

    expect(words).toMatch(/has [1-9]\d* tools?, about [1-9]/);
    expect(typed).toBe('other');
  });
});

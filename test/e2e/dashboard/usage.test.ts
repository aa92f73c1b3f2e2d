import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { chromium, pageProblems } from '#support/chromium';
import { serverProcess, type ServerProcess } from '#support/server-process';
import { suite } from '#support/suite';
import { patient } from '#support/patient';

const email = 'dana@example.com';
const password = 'correct horse battery';

await suite('browser', 'usage and tool page in a browser', () => {
  let server: ServerProcess;
  let browser: Browser;
  let key: string;

  beforeAll(async () => {
    server = await serverProcess({ host: 'localhost' });
    browser = await chromium();
    const command = (words: string) => server.command(words.split(' '));
    await command('organization create acme');
    await command('server create acme/library --demo');
    const made = await command('key create acme/library --name nightly --json');
    key = String(JSON.parse(made).key);
    const person = ['user', 'create', email, '--organization', 'acme', '--role', 'owner'];
    await server.command(person, `${password}\n`);
  });
  afterAll(async () => {
    await browser.close();
    await server[Symbol.asyncDispose]();
  });

  const call = async (params: object, method = 'tools/call') => {
    const answer = await fetch(`${server.base}/mcp/acme/library`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', 'X-API-Key': key },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
    });
    return answer.text();
  };
  const signedIn = async (
    options: { javaScriptEnabled?: boolean; timezoneId?: string } = {},
  ): Promise<Page> => {
    const context = await browser.newContext(options);
    context.setDefaultTimeout(60_000);
    const page = await context.newPage();
    await page.goto(`${server.base}/sign-in?next=/dashboard/acme`);
    await page.getByLabel('E-mail', { exact: true }).fill(email);
    await page.getByLabel('Password', { exact: true }).fill(password);
    await page.getByRole('button', { name: 'Sign in', exact: true }).click();
    await page.waitForURL('**/dashboard/acme');
    return page;
  };
  /** Checks a page with axe in both colour schemes, and that it fits a phone. */
  const inspect = async (page: Page) => {
    expect(await pageProblems(page)).toEqual([]);
  };
  /** The numbers of a row of the table, once the server has written all calls down. */
  const row = async (page: Page, url: string, name: string, calls: string): Promise<string[]> => {
    const cells = page.getByRole('row', { name }).first().getByRole('cell');
    await expect
      .poll(async () => {
        await page.goto(url);
        return (await cells.allInnerTexts())[0];
      }, patient)
      .toBe(calls);
    return (await cells.allInnerTexts()).map((text) => text.trim());
  };

  test('an organization without calls shows an empty page that says so', async () => {
    const page = await signedIn();

    expect(await page.getByText('No calls').count()).toBe(1);
    await inspect(page);
  });

  test('a choice in a filter takes effect at once with the pointer, with the keyboard by Apply', async () => {
    const page = await signedIn();
    await page.goto(`${server.base}/dashboard/acme/activity`);
    const outcome = page.getByLabel('Outcome', { exact: true });

    await outcome.dispatchEvent('pointerdown');
    await outcome.selectOption('refused');
    await page.waitForURL(/outcome=refused/);
    await outcome.focus();
    await page.keyboard.press('ArrowUp');
    const [typed, urlBefore] = [await outcome.inputValue(), page.url()];
    await page.getByRole('button', { name: 'Apply' }).click();
    await page.waitForURL(new RegExp(`outcome=${typed}`));

    expect(typed).not.toBe('refused');
    expect(urlBefore).toContain('outcome=refused');
    expect(await outcome.inputValue()).toBe(typed);
  });

  test('calls are shown by server, key and tool, without scripts', async () => {
    const page = await signedIn({ javaScriptEnabled: false });
    const sql = { sql: 'select 1' };
    for (let turn = 0; turn < 3; turn += 1) await call({ name: 'query', arguments: sql });
    await call({ name: 'query', arguments: { sql: 'drop table book' } });
    await call({ name: 'made-up', arguments: {} });
    await call({}, 'tools/list');
    const usage = `${server.base}/dashboard/acme/usage`;

    expect((await row(page, `${usage}?by=server`, 'library', '6')).slice(0, 3)).toEqual([
      '6',
      '2 (33.3%)',
      '0',
    ]);
    expect(await row(page, `${usage}?by=key&range=1h`, 'nightly', '6')).toHaveLength(6);
    expect((await row(page, `${usage}?by=tool`, 'query', '4'))[1]).toBe('1 (25%)');
    expect(await row(page, `${usage}?by=tool`, '(other)', '1')).toHaveLength(6);
    expect(await page.locator('figure.plot').count()).toBe(2);
    const seen = await signedIn();
    await seen.goto(`${usage}?by=tool`);
    await inspect(seen);

    await page.getByRole('link', { name: 'query', exact: true }).click();

    expect(await page.getByRole('heading', { level: 1 }).innerText()).toContain('query');
  });

  test('bars are moved through by the arrow keys, and times are the viewer’s', async () => {
    const page = await signedIn({ timezoneId: 'Asia/Tehran' });
    await page.goto(`${server.base}/dashboard/acme/usage`);
    const bars = page.locator('figure').first().locator('.bar');
    await bars.last().focus();

    await page.keyboard.press('ArrowLeft');

    expect(await bars.last().getAttribute('aria-label')).toMatch(
      /^\d\d:30–\d\d:30, until now: \d+ calls, \d+ errors$/,
    );
    expect(
      await page.evaluate('document.activeElement.querySelector(".readout").textContent'),
    ).toBe(await bars.nth(22).getAttribute('aria-label'));
    expect(await bars.nth(22).locator('.readout').isVisible()).toBe(true);
    expect(await page.getByText('Times are in your time zone, Asia/Tehran.').count()).toBe(1);
  });

  test('the CSV has the same numbers', async () => {
    const page = await signedIn();
    const answer = await page.request.get(`${server.base}/dashboard/acme/usage.csv?by=tool`);
    const [head, ...rows] = (await answer.text()).trim().split('\r\n');

    expect(answer.headers()['content-type']).toContain('text/csv');
    expect(head).toContain('series,from,calls');
    expect(rows.some((line) => line.startsWith('"query"'))).toBe(true);
  });

  test('a member tries a tool as themselves, without scripts', async () => {
    const page = await signedIn({ javaScriptEnabled: false });
    await page.goto(`${server.base}/dashboard/acme/servers/library/try`);
    await page.getByRole('link', { name: 'query', exact: true }).click();
    await page.getByLabel('sql').fill("select '<b>' || 42 as answer");
    await page.getByLabel('limit').fill('many');
    await page.getByRole('button', { name: 'Call query' }).click();

    expect(await page.getByRole('alert').innerText()).toContain('limit is not a whole number');
    expect(await page.getByLabel('sql').inputValue()).toContain('|| 42');

    await page.getByLabel('limit').fill('5');
    await page.getByRole('button', { name: 'Call query' }).click();

    expect(await page.locator('.result pre').first().innerText()).toContain('<b>42');

    const usage = `${server.base}/dashboard/acme/usage?by=person`;
    // The list that the page read to show the tools does not count as a call of the person.
    expect(await row(page, usage, email, '1')).toHaveLength(6);

    const seen = await signedIn();
    await seen.goto(`${server.base}/dashboard/acme/servers/library/try?tool=query`);
    await seen.getByLabel('sql').fill('select 42');
    await seen.getByRole('button', { name: 'Call query' }).click();
    await seen.locator('.result').waitFor();
    await inspect(seen);
  });
});

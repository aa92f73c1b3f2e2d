import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { chromium, pageProblems } from '#support/chromium';
import { becomeOwner, dashboardVisitor, password, signInAs } from '#support/dashboard-visitor';
import { serverProcess, type ServerProcess } from '#support/server-process';
import { suite } from '#support/suite';
import { tokenUpstream, type TokenUpstream } from '#support/token-upstream';

const place = '/servers/sales/account';

await suite('browser', 'upstream access per person, in a browser', () => {
  let server: ServerProcess;
  let upstream: TokenUpstream;
  let browser: Browser;

  beforeAll(async () => {
    server = await serverProcess({
      args: ['--outbound-host', '127.0.0.1', '--log-level', 'debug'],
    });
    const callback = `${server.base}/dashboard/acme${place}/callback`;
    upstream = await tokenUpstream({ redirectUris: [callback] });
    browser = await chromium();
  });
  afterAll(async () => {
    await browser.close();
    await upstream[Symbol.asyncDispose]();
    await server[Symbol.asyncDispose]();
  });

  /** The authorization server's own pages: any name and password will do there. */
  const consentAs = async (page: Page, login: string) => {
    await page.locator('input[name=login]').fill(login);
    await page.locator('input[name=password]').fill('x');
    await page.locator('button[type=submit]').click();
    await page.getByRole('button', { name: 'Continue' }).click();
  };
  test('an administrator sets it up, two people consent, and each uses their own account', async () => {
    const owner = await dashboardVisitor(browser, server);
    const { fill } = owner;
    await becomeOwner(owner, server);
    await owner.open('/new-server');
    await fill({ Name: 'sales', 'URL of the HTTP server': upstream.url });
    await owner.press('Create server');
    await owner.page.waitForURL('**/servers/sales/upstream?done=created');
    await owner.page.getByLabel('Each person’s own account').check();
    const problems = await pageProblems(owner.page);
    await fill({ 'Client ID': '' });
    await owner.press('Save');
    const refusal = await owner.page.getByRole('alert').textContent();
    problems.push(...(await pageProblems(owner.page)));
    await fill({
      'Client ID': upstream.clientId,
      'Client secret (optional)': upstream.clientSecret,
    });
    await owner.press('Save');
    await owner.page.waitForURL('**/upstream?done=saved');
    const saved = await owner.page.content();
    await owner.open('/servers/sales');
    const next = await owner.page.locator('main').textContent();

    await owner.open(place);
    problems.push(...(await pageProblems(owner.page)));
    await owner.press('Connect your account');
    await consentAs(owner.page, 'dana-there');
    await owner.page.waitForURL('**/account?done=connected');
    problems.push(...(await pageProblems(owner.page)));

    const words = ['user', 'create', 'eve@example.com', '--organization', 'acme'];
    await server.command([...words, '--role', 'member'], password);
    const eve = await dashboardVisitor(browser, server, { scripts: false });
    await signInAs(eve, server, 'eve@example.com');
    await eve.open('/servers/sales');
    await eve.follow('Connect your account');
    await eve.press('Connect your account');
    await consentAs(eve.page, 'eve-there');
    await eve.page.waitForURL('**/account?done=connected');

    await owner.open('/servers/sales/upstream');
    const connected = await owner.page.locator('ul.rows').textContent();
    problems.push(...(await pageProblems(owner.page)));
    await owner.open('/servers/sales/try?tool=whoami');

    expect(problems).toEqual([]);
    expect(refusal).toMatch(
      /The client ID is empty, and .* does not support automatic registration/,
    );
    expect(saved).not.toContain(upstream.clientSecret);
    expect(saved).toContain(upstream.issuer);
    expect(saved).toContain('Each person connects their own account');
    expect(next).toContain('Available');
    expect(next).not.toContain('Check upstream authentication');
    expect(connected).toContain('dana@example.com');
    expect(connected).toContain('eve@example.com');
    const subjects = upstream.seen.flatMap(({ subject }) =>
      subject === undefined ? [] : [subject],
    );
    expect(new Set(subjects)).toEqual(new Set(['dana-there']));
    const log = server.program.stderr;
    const secrets = [...upstream.issued, upstream.clientSecret];
    expect(secrets.length).toBeGreaterThan(4);
    expect(secrets.filter((secret) => log.includes(secret))).toEqual([]);

    await eve.open(place);
    await eve.follow('Disconnect');
    await eve.press('Disconnect account');
    await eve.page.waitForURL('**/account?done=disconnected');
    expect(await eve.page.getByRole('button', { name: 'Connect your account' }).count()).toBe(1);
  });
});

import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { chromium, pageProblems } from '#support/chromium';
import { becomeOwner, dashboardVisitor, password, signInAs } from '#support/dashboard-visitor';
import { serverProcess, type ServerProcess } from '#support/server-process';
import { suite } from '#support/suite';
import { keyedUpstream, type KeyedUpstream } from '#support/upstreams/keyed-upstream';

const account = '/servers/crm/account';
const danas = 'Uq91-the-key-of-dana-at-the-upstream';
const eves = 'Uq92-the-key-of-eve-at-the-upstream';
const next = 'Uq93-the-next-key-of-dana-at-the-upstream';
const label = 'CRM token';

await suite('browser', 'each person’s own key, in a browser', () => {
  let server: ServerProcess;
  let upstream: KeyedUpstream;
  let browser: Browser;

  beforeAll(async () => {
    server = await serverProcess({
      args: ['--outbound-host', '127.0.0.1', '--log-level', 'debug'],
    });
    upstream = await keyedUpstream();
    upstream.keys.set(danas, 'dana').set(eves, 'eve');
    browser = await chromium();
  });
  afterAll(async () => {
    await browser.close();
    await upstream[Symbol.asyncDispose]();
    await server[Symbol.asyncDispose]();
  });

  test('an administrator requires keys, and two people enter, lose and replace theirs', async () => {
    const owner = await dashboardVisitor(browser, server);
    const { page, fill, press } = owner;
    const problems: string[] = [];
    const look = async () => {
      problems.push(...(await pageProblems(page)));
      return (await page.locator('main').textContent()) ?? '';
    };
    const enter = async (key: string) => {
      await fill({ [label]: key });
      await press('Try and save');
    };
    await becomeOwner(owner, server);
    await server.command(['server', 'create', 'acme/crm', '--http-url', upstream.url]);
    await owner.open('/servers/crm/upstream');
    await page.getByLabel('Each person’s own key').check();
    await fill({
      'Name of the key': label,
      'Where people get it (optional)': 'https://crm.example.com/tokens',
      'Header of the key': 'Mcp-Name',
    });
    await press('Save');
    const refusal = await page.getByRole('alert').textContent();
    problems.push(...(await pageProblems(page)));
    await fill({ 'Header of the key': 'X-Their-Key' });
    await press('Save');
    await page.waitForURL('**/upstream?done=saved');
    const saved = await look();

    // A wrong key, then the right one, which is not proved, because the list of tools needs no key here.
    await owner.follow('Enter your key');
    const first = await look();
    await enter('short');
    const short = await look();
    await enter(danas);
    await page.waitForURL('**/account?done=listed');
    const unproved = await look();

    // With a tool to try, the right key is proved, and a wrong one is not saved.
    await owner.open('/servers/crm/upstream');
    await fill({ 'Tool to try a key with (optional)': 'whoami' });
    await press('Save');
    await page.waitForURL('**/upstream?done=saved');
    await owner.open(account);
    await press('Try it again');
    await page.waitForURL('**/account?done=works');
    const proved = await look();
    await enter('Uq94-nobody-knows-this-key-there');
    const wrong = await look();

    // Eve has no scripts, and a key of her own.
    const words = ['user', 'create', 'eve@example.com', '--organization', 'acme'];
    await server.command([...words, '--role', 'member'], password);
    const eve = await dashboardVisitor(browser, server, { scripts: false });
    await signInAs(eve, server, 'eve@example.com');
    await eve.open('/servers/crm');
    await eve.follow('Enter your key');
    await eve.page.getByLabel(label, { exact: true }).fill(eves);
    await eve.press('Try and save');
    await eve.page.waitForURL('**/account?done=proved');

    // Dana's key expires: the page says so, and a new key replaces it. Eve's key stays.
    upstream.keys.delete(danas);
    await owner.open('/servers/crm/try?tool=whoami');
    await press('Call whoami');
    await page.getByText('refused your key').waitFor();
    await owner.open(account);
    const refused = await look();
    upstream.keys.set(next, 'dana');
    await enter(next);
    await page.waitForURL('**/account?done=proved');
    await owner.open('/servers/crm/try?tool=whoami');
    await press('Call whoami');
    await page.getByText('you are dana').waitFor();
    await owner.open('/servers/crm/upstream');
    const people = await look();
    await owner.open('/activity?account=person_key&outcome=upstream_error');
    // A call appears in Activity a moment after it ends.
    await page.locator('main').getByText('whoami').first().waitFor();
    const recorded = await look();

    await eve.open(account);
    await eve.follow('Remove key');
    await eve.press('Remove key');
    await eve.page.waitForURL('**/account?done=disconnected');

    expect(problems).toEqual([]);
    expect(refusal).toContain('The header is a header that Latchkey or HTTP itself sets');
    expect(saved).toContain('Each person enters their own key');
    expect(first).toContain(`It is sent to ${new URL(upstream.url).origin} only`);
    expect(first).toContain('Where to get it (crm.example.com)');
    expect(short).toContain(`${label} must have at least 8 characters`);
    expect(unproved).toContain('Not checked yet: the MCP server listed its tools');
    expect(proved).toMatch(/Works[^]*The MCP server has accepted it\./);
    expect(wrong).toContain('The MCP server refuses this key. Your key before it is kept.');
    expect(refused).toContain('Enter a new one below.');
    expect(people).toContain('Key works');
    expect(people).toContain('dana@example.com');
    expect(people).toContain('eve@example.com');
    expect(recorded).toContain('whoami');
    const shown = [saved, first, short, unproved, proved, wrong, refused, people, recorded];
    for (const secret of [danas, eves, next]) {
      expect(shown.filter((text) => text.includes(secret))).toEqual([]);
      expect(server.program.stderr.includes(secret)).toBe(false);
    }
  });
});

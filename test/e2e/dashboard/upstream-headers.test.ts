import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { chromium, pageProblems } from '#support/chromium';
import { becomeOwner, dashboardVisitor, email, signInAs } from '#support/dashboard-visitor';
import { serverProcess, type ServerProcess } from '#support/server-process';
import { suite } from '#support/suite';
import {
  legacyAnswer,
  recordingUpstream,
  type RecordingUpstream,
} from '#support/upstreams/recording-upstream';

const value = 'Bq91-first-value-of-a-key-of-the-upstream';
const next = 'Bq92-second-value-of-a-key-of-the-upstream';

await suite('browser', 'fixed headers of an upstream, in a browser', () => {
  let server: ServerProcess;
  let upstream: RecordingUpstream;
  let browser: Browser;

  beforeAll(async () => {
    server = await serverProcess({
      args: ['--outbound-host', '127.0.0.1', '--log-level', 'debug'],
    });
    upstream = await recordingUpstream();
    browser = await chromium();
  });
  afterAll(async () => {
    await browser.close();
    await upstream[Symbol.asyncDispose]();
    await server[Symbol.asyncDispose]();
  });

  test.each([true, false])(
    'an owner sets, replaces, restores and removes one, with scripts: %s',
    async (scripts) => {
      const owner = await dashboardVisitor(browser, server, { scripts });
      const { page, fill, press, open, follow } = owner;
      const name = scripts ? 'scripted' : 'plain';
      const home = `/servers/${name}/upstream`;
      const seen: string[] = [];
      const problems: string[] = [];
      const look = async () => {
        if (scripts) problems.push(...(await pageProblems(page)));
      };
      const done = async (what: string) => {
        await page.waitForURL(`**/upstream?done=${what}`);
        seen.push(await page.content());
      };
      const tools = async () => {
        upstream.requests.length = 0;
        await open(`/servers/${name}/try`);
        seen.push(await page.content());
        return new Set(upstream.requests.map(({ headers }) => headers['x-api-key']));
      };
      if (scripts) await becomeOwner(owner, server);
      else await signInAs(owner, server, email);
      await open('/new-server');
      await fill({ Name: name, 'URL of the HTTP server': upstream.url });
      await press('Create server');
      await page.waitForURL(`**/servers/${name}?done=created`);

      await open(home);
      await look();
      await fill({ Header: 'Mcp-Session-Id', Value: value });
      await press('Save header');
      const refusal = await page.getByRole('alert').textContent();
      const typedAgain = await page.getByLabel('Value', { exact: true }).inputValue();
      seen.push(await page.content());
      await look();
      await fill({ Header: 'X-Api-Key', Value: value });
      await press('Save header');
      await done('header');
      const first = await tools();

      const other = await page.context().newPage();
      await open(home, other);
      await open(home);
      await follow('Replace x-api-key');
      // A page gives a field the focus once it has loaded.
      await page.locator('#headerValue:focus').waitFor();
      await fill({ Value: next });
      await press('Replace value');
      await done('header');
      await look();
      await other.getByLabel('Header', { exact: true }).fill('X-Late');
      await other.getByLabel('Value', { exact: true }).fill(value);
      await other.getByRole('button', { name: 'Save header' }).click();
      const stale = await other.getByRole('alert').textContent();
      await other.close();
      const second = await tools();

      upstream.answer = (request, response) =>
        request.headers['x-api-key'] === value
          ? legacyAnswer(request, response)
          : void response.writeHead(401).end();
      await tools();
      upstream.answer = legacyAnswer;
      await open(home);
      const needed = await page.locator('#headers').textContent();
      await look();
      await press('Use again the previous value of x-api-key');
      await done('restored');
      const third = await tools();

      await open(home);
      await follow('Delete the previous value of x-api-key');
      await press('Delete previous value');
      await done('forgotten');
      await follow('Remove x-api-key');
      await press('Remove header');
      await done('removed');
      const fourth = await tools();

      expect(problems).toEqual([]);
      expect(refusal).toContain('The name is a header that Latchkey or HTTP itself sets');
      expect(typedAgain).toBe('');
      expect(stale).toContain('Another person changed this server while you edited it');
      expect(needed).toContain('still needed');
      expect([first, second, third, fourth]).toEqual(
        [value, next, value, undefined].map((one) => new Set([one])),
      );
      expect(seen.join('')).toContain('…ream');
      for (const secret of [value, next]) {
        expect(seen.filter((html) => html.includes(secret))).toEqual([]);
        expect(server.program.stderr.includes(secret)).toBe(false);
      }
    },
    180_000,
  );

  test('changing a server’s origin announces that its headers are removed', async () => {
    const owner = await dashboardVisitor(browser, server);
    const { page, fill, press, open } = owner;
    await signInAs(owner, server, email);
    const words = ['server', 'update', 'acme/plain', '--http-url', upstream.url];
    await server.command(words);
    await open('/servers/plain/upstream');
    await fill({ Header: 'X-Api-Key', Value: value });
    await press('Save header');
    await page.waitForURL('**/upstream?done=header');
    await open('/servers/plain/settings');
    await fill({ 'URL of the HTTP server': `${upstream.url}/other` });
    await press('Save');
    await page.waitForURL('**/settings?done=saved');
    await fill({ 'URL of the HTTP server': upstream.url.replace('127.0.0.1', 'mcp.example') });
    await press('Save');
    await page.waitForURL('**/settings?done=without-headers');
    const notice = await page.getByRole('status').first().textContent();
    await open('/servers/plain/upstream');

    expect(notice).toContain('The fixed headers of the previous upstream were removed');
    expect(await page.locator('#headers li').count()).toBe(0);
  });
});

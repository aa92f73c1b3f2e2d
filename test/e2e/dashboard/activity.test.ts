import { afterAll, beforeAll, expect, test } from 'vitest';

import { pageProblems } from '#support/chromium';
import { libraryKey, ownersDashboard, type OwnersDashboard } from '#support/dashboard-visitor';
import { mcpCall, rpc } from '#support/mcp-call';
import { suite } from '#support/suite';

await suite('browser', 'activity in a browser', () => {
  let acme: OwnersDashboard;
  let server: OwnersDashboard['server'];
  let dana: OwnersDashboard['dana'];
  let key: string;

  beforeAll(async () => {
    acme = await ownersDashboard();
    ({ server, dana } = acme);
    key = await keyNamed('nightly');
  });
  afterAll(() => acme[Symbol.asyncDispose]());

  const keyNamed = async (name: string, ...options: string[]) =>
    (await libraryKey(server, name, ...options)).key;
  const call = (name: string, as = key, args: object = {}) =>
    mcpCall(`${server.base}/mcp/acme/library`, {
      key: as,
      headers: { 'user-agent': 'Claude Code/2.1' },
      body: rpc('tools/call', { name, arguments: args }),
    });
  const { rows, status } = {
    rows: (tool: string) => dana.page.getByRole('row', { name: tool }),
    status: (text: string) => dana.page.locator('[data-live-state]', { hasText: text }),
  };

  test('a new call appears without a reload, on the newest page and where its filter selects it', async () => {
    const { page, open, context } = dana;
    const other = await context.newPage();
    await open('/activity?tool=elsewhere', other);
    await open('/activity');
    await status('New calls appear here automatically.').waitFor();

    await call('first');

    await rows('first').waitFor();
    expect(await pageProblems(page)).toEqual([]);
    expect(await other.getByRole('row').count()).toBe(0);
    await other.close();
  });

  test('rows stay while text is selected, and the page says that new ones wait', async () => {
    const { page } = dana;
    await page.getByRole('link', { name: 'first' }).selectText();

    await call('second');

    await status('New calls wait while you select text.').waitFor();
    expect(await rows('second').count()).toBe(0);

    await page.evaluate('getSelection().removeAllRanges()');

    await rows('second').waitFor();
    expect((await page.getByRole('row').nth(1).innerText()).includes('second')).toBe(true);
  });

  test('a long search continues without a click, and can be stopped', async () => {
    const { page, open } = dana;
    await open('/activity?tool=first');
    const whole = await page.content();
    const to = (tool: string) => `/dashboard/acme/activity?tool=${tool}`;
    const notice = (tool: string, until: string) =>
      `<p class="notice" role="status" data-search="50">Searched back to ${until}. <a href="${to(tool)}">Search further back</a> <button type="button" data-stop hidden>Stop</button></p>`;
    const partial = (tool: string, until: string) =>
      whole
        .replace(/<div class="scroll"[\s\S]*?<\/table>\s*<\/div>/, '<div class="empty">None</div>')
        .replace('<nav class="pager"', `${notice(tool, until)}<nav class="pager"`);
    const held = Promise.withResolvers<void>();
    await page.route(`**${to('slow')}`, (route) =>
      route.fulfill({ contentType: 'text/html', body: partial('slower', 'Monday') }),
    );
    await page.route(`**${to('slower')}`, async (route) => {
      await held.promise;
      await route.fulfill({ contentType: 'text/html', body: partial('first', 'Sunday') });
    });

    await open('/activity?tool=slow');
    await page.getByText('Searched back to Monday.').waitFor();
    await page.getByRole('button', { name: 'Stop' }).click();
    expect(await page.getByText('Searched back to Monday.').isVisible()).toBe(true);
    expect(await page.getByRole('button', { name: 'Stop' }).isVisible()).toBe(false);
    held.resolve();

    await open('/activity?tool=slow');
    await rows('first').waitFor();
    expect(await page.getByText('Searched back').count()).toBe(0);
  });

  test('the page says when the connection is lost, and shows what happened meanwhile', async () => {
    const { page, open } = dana;
    const streams = '**/activity/live*';
    await page.route(streams, (route) => route.abort('connectionfailed'));
    await open('/activity');
    await status('Connection lost.').waitFor();
    await call('third');

    await page.unroute(streams);

    await rows('third').waitFor();
    await status('New calls appear here automatically.').waitFor();
    expect(await rows('third').count()).toBe(1);
  });
});

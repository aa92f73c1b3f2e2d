import { dashboardVisitor, email, signInAs } from '#support/dashboard-visitor';
import { mcpCall, rpc } from '#support/mcp-call';

import type { Scene } from './scene.ts';

/** Activity: all calls, some, none, one of each kind, and what a member sees. */
export const activityScenes: Scene = async ({ browser, dana, furnished, album }) => {
  const { page, open } = dana;
  const between = [560, 700, 1000, 1100];
  await open('/activity');
  await album.take(page, 'activity', { isTable: true, between });
  await page.getByRole('link', { name: 'Older' }).click();
  await album.take(page, 'activity-older');
  for (const kind of ['caller', 'application', 'person']) {
    await open(`/usage?by=${kind}&range=7d`);
    await album.take(page, `usage-${kind}`);
  }
  await open('/usage?by=person&range=7d');
  await page.getByRole('region').getByRole('link').first().click();
  await album.take(page, 'usage-callers-of-person');
  await open('/servers/library/tools');
  await album.take(page, 'tools-last-calls');
  await open('/activity?outcome=failed&application=Claude%20Desktop%201.2.3');
  await album.take(page, 'activity-filter', { between });
  await page.getByRole('link', { name: 'View the call' }).first().click();
  await album.take(page, 'call-refused');
  await open('/activity?outcome=upstream_error');
  await page.getByRole('link', { name: 'View the call' }).first().click();
  await album.take(page, 'call-failed');
  await open('/activity?tool=nothing_like_this');
  await album.take(page, 'activity-filter-none');
  await open('/activity?person=violla@example.com');
  await album.take(page, 'activity-unknown-person');
  await longSearch(dana, album);
  await open('');
  await album.take(page, 'overview-failed');
  await storedContents(dana, furnished, album);
  const mark = await dashboardVisitor(browser, furnished.server);
  await signInAs(mark, furnished.server, 'mark@example.com');
  await mark.open('/activity');
  await album.take(mark.page, 'activity-own');
  await mark.open('');
  await album.take(mark.page, 'your-servers-stored');
};

/** A search that continues automatically. Only one through millions of calls takes that long, so the answers are faked here. */
async function longSearch(
  { page, open }: Parameters<Scene>[0]['dana'],
  album: Parameters<Scene>[0]['album'],
) {
  await open('/activity?outcome=refused&from=2020-01-01&until=2100-01-01');
  const whole = await page.content();
  const to = (tool: string) => `/dashboard/acme/activity?tool=${tool}`;
  const notice = `<p class="notice" role="status" data-search="50">Searched back to 17 November, 09:12. <a href="${to('rarest')}">Search further back</a> <button type="button" class="quiet" data-stop hidden>Stop</button></p>`;
  const body = whole.replace('<nav class="pager"', `${notice}<nav class="pager"`);
  await page.route(`**${to('rare')}`, (route) => route.fulfill({ contentType: 'text/html', body }));
  // This search is never answered.
  await page.route(`**${to('rarest')}`, () => undefined);
  await open('/activity?tool=rare');
  await page.getByRole('button', { name: 'Stop' }).waitFor();
  await album.take(page, 'activity-searching');
  await page.unrouteAll({ behavior: 'ignoreErrors' });
}

/** A server that stores arguments and results, a call that has some, and who may read them. */
async function storedContents(
  { page, open }: Parameters<Scene>[0]['dana'],
  { server }: Parameters<Scene>[0]['furnished'],
  album: Parameters<Scene>[0]['album'],
) {
  const command = (words: string) => server.command(words.split(' '));
  await command('server set-contents acme/library --arguments --results --limit 1KB');
  await command(`user grant-auditor ${email} --organization acme`);
  const made = await command('key create acme/library --name stored --json');
  const query = 'select name from employees where office = 7 -- '.repeat(30);
  const called = {
    sql: query,
    token: 'hidden',
    tags: ['a', 1, null],
    note: 'ghp_0123456789abcdefghij',
  };
  await mcpCall(`${server.base}/mcp/acme/library`, {
    key: String(JSON.parse(made).key),
    body: rpc('tools/call', { name: 'stored_call', arguments: called }),
  });
  for (;;) {
    await open('/activity?tool=stored_call');
    if ((await page.getByRole('link', { name: 'View the call' }).count()) > 0) break;
  }
  await page.getByRole('link', { name: 'View the call' }).first().click();
  await album.take(page, 'call-contents-asked');
  await page.getByRole('button', { name: 'Show arguments and result' }).click();
  await album.take(page, 'call-contents');
  await open('/servers/library/settings');
  await album.take(page, 'server-settings-contents');
  await open('/servers/library/contents');
  await album.take(page, 'server-contents');
  await open('/people');
  await page.getByRole('region', { name: 'People' }).getByRole('link', { name: email }).click();
  await album.take(page, 'person-auditor');
  await open('');
  await album.take(page, 'overview-auditors');
}

import { dashboardVisitor, signInAs } from '#support/dashboard-visitor';
import type { Scene } from './scene.ts';

/** Activity: all calls, some, none, one of each kind, and what a member sees. */
export const activityScenes: Scene = async ({ browser, dana, furnished, album }) => {
  const { page, open } = dana;
  const between = [560, 700, 1000, 1100];
  await open('/activity');
  await album.take(page, 'activity', { isTable: true, between });
  await page.getByRole('link', { name: 'Older' }).click();
  await album.take(page, 'activity-older');
  await open('/activity?outcome=failed&application=Claude%20Desktop%201.2.3');
  await album.take(page, 'activity-filter', { between });
  await page.getByRole('link', { name: 'View the call' }).first().click();
  await album.take(page, 'call-refused');
  await open('/activity?outcome=upstream_error');
  await page.getByRole('link', { name: 'View the call' }).first().click();
  await album.take(page, 'call-failed');
  await open('/activity?tool=nothing_like_this');
  await album.take(page, 'activity-filter-none');
  await open('');
  await album.take(page, 'overview-failed');
  const mark = await dashboardVisitor(browser, furnished.server);
  await signInAs(mark, furnished.server, 'mark@example.com');
  await mark.open('/activity');
  await album.take(mark.page, 'activity-own');
};

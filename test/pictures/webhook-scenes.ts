import { webhookReceiver } from '#support/webhook-receiver';
import type { Scene } from './scene.ts';

/** Webhooks: none, a wrong one, a secret that is shown once, deliveries that go well or not, and the questions. */
export const webhookScenes: Scene = async ({ dana, album }) => {
  await using receiver = await webhookReceiver();
  const { page, open, press, fill } = dana;
  const list = '/settings/webhooks';
  await open(list);
  await album.take(page, 'webhooks-none');
  await fill({ URL: 'https://10.0.0.7/siem', 'Events (optional)': 'key.* sign in' });
  await press('Create webhook');
  await album.take(page, 'webhooks-wrong');
  await fill({
    URL: `${receiver.origin}/services/latchkey`,
    'Events (optional)': 'webhook. key.create',
  });
  await press('Create webhook');
  await dana.shownSecret();
  await album.take(page, 'webhook-once');
  await dana.store();
  await page.waitForURL('**/settings/webhooks/whk_*');
  const path = new URL(page.url()).pathname.replace(/^\/dashboard\/acme/, '');
  await receiver.has(1);
  await open(path);
  await press('Send test event');
  await album.take(page, 'webhook-test-taken');
  // The creation, the test event, and the audit event of the test.
  await receiver.has(3);
  receiver.answer({ status: 503 }, { status: 500 }, { status: 500 });
  await press('Send test event');
  await album.take(page, 'webhook-test-refused');
  await receiver.has(5);
  do await open(path);
  while ((await page.getByText('retrying').count()) === 0);
  await album.take(page, 'webhook-retrying');
  await press('Rotate secret');
  await dana.shownSecret();
  await album.take(page, 'webhook-rotated');
  await dana.store();
  await open(path);
  await page.locator('main a[data-question][href$="/disable"]').click();
  await page.getByRole('dialog').waitFor();
  await album.take(page, 'question-webhook-disable');
  await press('Disable webhook');
  await page.waitForURL('**?done=disabled');
  await album.take(page, 'webhook-disabled');
  await open(list);
  await album.take(page, 'webhooks', { isTable: true });
  await open(`${path}/remove`);
  await album.take(page, 'question-webhook-remove');
};

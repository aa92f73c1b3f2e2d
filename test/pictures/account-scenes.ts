import { Secret, TOTP } from 'otpauth';

import { dashboardVisitor, email, password, signInAs } from '#support/dashboard-visitor';
import type { Scene } from './scene.ts';

/** A person's own account and second factor, in a separate browser, because this person needs codes from then on. */
export const accountScenes: Scene = async ({ browser, furnished, album }) => {
  const { server } = furnished;
  const viola = await dashboardVisitor(browser, server);
  const { page, press, fill } = viola;
  await signInAs(viola, server, 'viola@example.com');
  await album.take(page, 'viewer-overview');
  await viola.open('/servers/library/keys');
  await album.take(page, 'viewer-keys');
  await viola.open('/servers/library/new-key');
  await album.take(page, 'error-role');
  await page.goto(`${server.base}/account`);
  await album.take(page, 'account');
  await press('Set up an authenticator app');
  await album.take(page, 'second-factor-enrol');
  await fill({ 'Code from the app': '000000' });
  await press('Turn on');
  await album.take(page, 'second-factor-enrol-wrong');
  const secret = (await page.locator('main .field code').first().textContent()) ?? '';
  await page
    .getByLabel('Code from the app')
    .fill(TOTP.generate({ secret: Secret.fromBase32(secret.replaceAll(' ', '')) }));
  await press('Turn on');
  await page.locator('.codes').waitFor();
  await album.take(page, 'second-factor-recovery-codes');
  await press('I have stored them');
  await album.take(page, 'account-second-factor');
  await viola.context.close();

  const mark = await dashboardVisitor(browser, server);
  await signInAs(mark, server, 'mark@example.com');
  await album.take(mark.page, 'member-home');
  await mark.open('/servers/warehouse');
  await album.take(mark.page, 'member-server');
  await mark.context.close();

  const again = await dashboardVisitor(browser, server);
  const { fill: type } = again;
  await again.page.goto(`${server.base}/sign-in`);
  await album.take(again.page, 'sign-in');
  await type({ 'E-mail': email, Password: 'wrong horse' });
  await again.press('Sign in');
  await album.take(again.page, 'sign-in-wrong');
  await type({ 'E-mail': 'viola@example.com', Password: password });
  await again.press('Sign in');
  await again.page.getByLabel('Code from your authenticator app').waitFor();
  await album.take(again.page, 'sign-in-code');
  await again.context.close();
};

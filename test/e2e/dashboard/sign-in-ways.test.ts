import { createHash, createHmac, randomBytes } from 'node:crypto';

import { Secret, TOTP } from 'otpauth';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { addPasskeyDevice, chromium, pageProblems } from '#support/chromium';
import { singleSignOn, type SingleSignOn } from '#support/single-sign-on';
import { suite } from '#support/suite';

const password = 'correct horse battery';

/** Each test uses several browsers, on a machine that may be busy. */
const timeout = 120_000;

await suite('browser', 'every way to sign in, in a browser', () => {
  let sso: SingleSignOn;
  let browser: Browser;

  beforeAll(async () => {
    sso = await singleSignOn();
    await sso.server.command(['organization', 'create', 'acme']);
    browser = await chromium();
  });
  afterAll(async () => {
    await browser.close();
    await sso[Symbol.asyncDispose]();
  });

  const newPage = async (): Promise<Page> => {
    const context = await browser.newContext();
    context.setDefaultTimeout(60_000);
    return context.newPage();
  };
  const openSignIn = async (): Promise<Page> => {
    const page = await newPage();
    await page.goto(`${sso.server.base}/sign-in?next=/account`);
    return page;
  };
  const press = (page: Page, name: string) =>
    page.getByRole('button', { name, exact: true }).click();
  const isSignedIn = async (page: Page) => {
    await page.goto(`${sso.server.base}/account`);
    return new URL(page.url()).pathname === '/account';
  };

  const withPassword = async (email: string) => {
    const words = ['user', 'create', email, '--organization', 'acme', '--role', 'owner'];
    await sso.server.command(words, password);
    return signInByPassword(email);
  };
  const signInByPassword = async (email: string) => {
    const page = await openSignIn();
    await page.getByLabel('E-mail', { exact: true }).fill(email);
    await page.getByLabel('Password', { exact: true }).fill(password);
    await press(page, 'Sign in');
    return page;
  };
  /** Somebody who joins by the provider, and so has no password here. */
  const joined = async (name: string) => {
    const words = ['invitation', 'create', 'acme', '--role', 'admin', '--json'];
    const made = await sso.server.command([...words, '--base-url', sso.server.base]);
    const { link }: { link: string } = JSON.parse(made);
    const page = await newPage();
    await page.goto(link);
    await page.getByRole('button', { name: 'Acme ID' }).click();
    await sso.vouch(page, name);
    await page.waitForURL(/\/dashboard/);
    return page;
  };
  const signInByProvider = async (name: string) => {
    const page = await openSignIn();
    await press(page, 'Sign in with Acme ID');
    await sso.vouch(page, name);
    await page.waitForURL('**/account');
    return page;
  };
  /** Sets up an authenticator app. Returns its next code, and the recovery codes. */
  const setUpApp = async (page: Page) => {
    await page.goto(`${sso.server.base}/account`);
    await press(page, 'Set up an authenticator app');
    const shown = (await page.locator('main .field code').first().textContent()) ?? '';
    const secret = Secret.fromBase32(shown.replaceAll(' ', ''));
    const enrolledAt = Date.now();
    const code = (step: number) => TOTP.generate({ secret, timestamp: enrolledAt + step * 30_000 });
    await page.getByLabel('Code from the app').fill(code(0));
    await press(page, 'Turn on');
    const recoveryCodes = await page.locator('.codes code').allTextContents();
    return { nextCode: code(1), recoveryCodes };
  };
  const typeCode = async (page: Page, code: string) => {
    await page.getByLabel('Code from your authenticator app').fill(code);
    await press(page, 'Sign in');
  };
  const auditOf = async (email: string) => {
    const words = ['audit', 'list', 'acme', '--actor', email, '--action', 'sign-in', '--json'];
    const rows: { target: string; outcome: string }[] = JSON.parse(await sso.server.command(words));
    return rows.map(({ target, outcome }) => `${target} ${outcome}`);
  };

  test(
    'password and authenticator app, then password and recovery code, each accepted once',
    { timeout },
    async () => {
      const { nextCode, recoveryCodes } = await setUpApp(await withPassword('app@example.com'));
      const [recoveryCode = ''] = recoveryCodes;
      const byCode = await signInByPassword('app@example.com');
      await typeCode(byCode, nextCode);
      await byCode.waitForURL('**/account');
      const byRecovery = await signInByPassword('app@example.com');
      await typeCode(byRecovery, recoveryCode);
      await byRecovery.waitForURL('**/account');
      const again = await signInByPassword('app@example.com');
      await typeCode(again, recoveryCode);
      await again.getByText('The code is incorrect').first().waitFor();

      expect(await isSignedIn(byCode)).toBe(true);
      expect(await isSignedIn(byRecovery)).toBe(true);
      expect(await isSignedIn(again)).toBe(false);
    },
  );

  test('a passkey signs in', { timeout }, async () => {
    const page = await withPassword('passkey@example.com');
    await addPasskeyDevice(page);
    await page.getByLabel('Passkey name').fill('Laptop');
    await press(page, 'Add passkey');
    await page.waitForURL('**/account?done=passkey');
    await press(page, 'Sign out');
    await press(page, 'Sign in with a passkey');
    await page.waitForURL('**/dashboard/**');

    expect(await isSignedIn(page)).toBe(true);
  });

  test(
    'a person who joined by single sign-on signs in by it, before and after adding an app',
    { timeout },
    async () => {
      await joined('nora');
      const before = await signInByProvider('nora');
      await setUpApp(before);
      const after = await signInByProvider('nora');

      expect(await isSignedIn(before)).toBe(true);
      expect(await isSignedIn(after)).toBe(true);
      expect(await auditOf('nora@example.com')).toEqual([
        expect.stringMatching(/^http:.* done$/),
        expect.stringMatching(/^http:.* done$/),
        expect.stringMatching(/^http:.* done$/),
      ]);
    },
  );

  test(
    'an administrator tests single sign-on, sees what the provider answers, and stays signed in',
    { timeout },
    async () => {
      const page = await joined('tess');
      await page.getByRole('link', { name: 'Sign-in' }).click();
      await page.getByRole('link', { name: 'The provider of this whole server' }).click();
      const before = await pageProblems(page);
      // Without its cookies, the provider asks again who signs in.
      await page.context().clearCookies({ domain: '127.0.0.1' });
      await press(page, 'Test sign-in');
      await sso.vouch(page, 'somebody');
      await page.waitForURL('**/dashboard/acme/single-sign-on/result**');
      const after = await pageProblems(page);
      const answer = await page.locator('main .notice').innerText();
      await page.reload();
      const again = await page.locator('main .notice').innerText();
      await page.goto(`${sso.server.base}/account`);

      expect([before, after]).toEqual([[], []]);
      expect(answer).toContain('no account is linked');
      expect(answer).toContain('somebody@example.com');
      expect(answer).toMatch(/E-mail verified\s+Yes/);
      expect(again).toContain('The test was not completed');
      expect(await page.locator('main').innerText()).toContain('tess@example.com');
    },
  );

  test.each(['code', 'recovery code'] as const)(
    '92: a forged proof of a password gets nothing for a right %s, and is audited',
    { timeout },
    async (which) => {
      const name = which === 'code' ? 'olga' : 'pia';
      const { nextCode, recoveryCodes } = await setUpApp(await joined(name));
      const users = JSON.parse(await sso.server.command(['user', 'list', '--json']));
      const victim: { id: string } = users.find(
        ({ email }: { email: string }) => email === `${name}@example.com`,
      );
      const page = await openSignIn();
      const cookies = await page.context().cookies();
      const key = cookies.find((cookie) => cookie.name === 'latchkey-browser')?.value ?? '';
      const head = Buffer.alloc(22);
      head.writeUIntBE(Math.floor(Date.now() / 1000) + 200, 0, 6);
      randomBytes(16).copy(head, 6);
      const noPassword = createHash('sha256').update('').digest('hex');
      const mac = createHmac('sha256', key)
        .update(`challenge code ${victim.id} ${noPassword}\0`)
        .update(head);
      const fields = {
        csrf_token: await page.locator('input[name=csrf_token]').first().inputValue(),
        user: victim.id,
        challenge: Buffer.concat([head, mac.digest().subarray(0, 16)]).toString('base64url'),
        code: which === 'code' ? nextCode : (recoveryCodes[0] ?? ''),
        next: '/account',
      };
      const answered = page.waitForResponse('**/sign-in/code');
      const loaded = page.waitForEvent('load');
      await page.evaluate(`(() => {
        const form = document.createElement('form');
        form.method = 'post';
        form.action = '/sign-in/code';
        for (const [name, value] of Object.entries(${JSON.stringify(fields)})) {
          form.append(Object.assign(document.createElement('input'), { name, value }));
        }
        document.body.append(form);
        form.submit();
      })()`);
      const answer = await answered;
      await loaded;

      expect(key).toHaveLength(32);
      expect(answer.status()).toBe(403);
      expect(await isSignedIn(page)).toBe(false);
      expect(await auditOf(`${name}@example.com`)).toContain('challenge refused');
      expect(await isSignedIn(await signInByProvider(name))).toBe(true);
    },
  );
});

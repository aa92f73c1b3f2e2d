import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Browser, Locator, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { accessibilityProblems, chromium, scrollsSideways } from '#support/chromium';
import { inherited } from '#support/programs';
import { suite } from '#support/suite';
import { menuPicture } from '#support/tray/menu-picture';
import { companyConnections, everyState, seenConnection } from '#support/tray/seen-connections';
import { trayDesktop, type TrayDesktop, type TrayState } from '#support/tray/tray-desktop';
import { windowNames, windows } from '#tray/model/windows';

const out = join(import.meta.dirname, '../../out');
const showsEveryState = ({ menu }: TrayState) => menu.some(({ label }) => label.includes('wiki'));

await suite('browser', 'tray app windows', () => {
  let browser: Browser;
  let desktop: TrayDesktop;

  beforeAll(async () => {
    browser = await chromium();
    desktop = await trayDesktop({
      browser,
      env: { ...inherited, HOME: '/home/dana' },
      scripted: true,
    });
  });
  afterAll(async () => {
    await desktop[Symbol.asyncDispose]();
    await browser.close();
  });

  /** For people to look at; taken by `npm run pictures -- tray`. */
  const picture = async (
    of: Page | Locator,
    name: string,
    options: { fullPage?: boolean } = {},
  ) => {
    if (process.env['TEST_PICTURES'] !== '1') return;
    const path = join(out, `tray-${name}.png`);
    await of.screenshot({ path, animations: 'disabled', ...options });
  };
  /** Checks what a program can check of a window, and takes pictures of the window. */
  const lookAt = async (page: Page, name: string) => {
    for (const [colorScheme, rules] of [
      ['light', 'all'],
      ['dark', 'colours'],
    ] as const) {
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
      expect(await accessibilityProblems(page, rules)).toEqual([]);
      await picture(page, `${name}-${colorScheme}`, { fullPage: true });
    }
    const size = page.viewportSize() ?? { width: 720, height: 560 };
    await page.setViewportSize({ ...size, width: 420 });
    expect(await scrollsSideways(page)).toBe(false);
    await page.emulateMedia({ colorScheme: 'light', reducedMotion: 'reduce' });
    await picture(page, `${name}-narrow`, { fullPage: true });
    await page.setViewportSize(size);
    expect(await scrollsSideways(page)).toBe(false);
  };
  /** Takes a picture while a request to the server is open, and only then lets the server answer. */
  const lookWhile = async (page: Page, words: string, name: string) => {
    await page.getByText(words).first().waitFor();
    await picture(page, `${name}-light`);
    desktop.letScriptGoOn();
  };
  const button = (page: Page, name: string) => page.getByRole('button', { name, exact: true });

  test('the first start shows what to do first', async () => {
    const page = await desktop.window('connections');
    const complaints = desktop.stderr();
    await lookAt(page, 'connections-empty');

    expect(complaints).toBe('');
    expect(await page.locator('main').textContent()).toContain('No connections yet');
    expect(desktop.tray()).toMatchObject({ tooltip: 'Latchkey: no connections yet' });
  });

  test('every state has an icon, a word and a shape, in the tray and in the window', async () => {
    desktop.script(everyState());
    const { icon, tooltip, menu } = await desktop.trayWhere(showsEveryState);
    const page = await desktop.window('connections');
    await page.getByRole('heading', { name: 'nightly' }).waitFor();
    await lookAt(page, 'connections');
    const closed = await page.locator('dl').first().isVisible();
    await page.locator('summary').first().click();
    await page.locator('dl').first().waitFor();
    await lookAt(page, 'connections-open');

    expect(closed).toBe(false);
    expect(icon).toContain('trouble-dark.png');
    expect(tooltip).toBe('Latchkey: error in warehouse');
    expect(menu.map(({ label }) => label)).toEqual([
      '● library — Connected',
      '◇ sales — Sign-in required',
      '● nightly — Connected',
      '▲ warehouse — Error',
      '○ wiki — Offline',
      '',
      ...windowNames.flatMap((name) => windows[name].menuLabel ?? []),
      '',
      'Start at login',
      'Quit Latchkey',
    ]);
  });

  test('the tray menu shows each connection with its actions, in light and dark mode', async () => {
    const { icon, menu } = await desktop.trayWhere(showsEveryState);
    const faces = {
      well: 'all is well',
      attention: 'needs you',
      trouble: 'trouble',
      offline: 'offline',
    };
    const icons = (panel: string) =>
      Object.entries(faces).map(([face, words]) => ({
        path: join(dirname(icon), `${face}-${panel}.png`),
        words,
      }));
    const open = menu.findIndex(({ label }) => label.includes('library'));
    const page = await menuPicture(browser, menu, {
      open,
      light: icons('dark'),
      dark: icons('light'),
    });
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme });
      await picture(page.locator('main'), `menu-${colorScheme}`);
    }
    const words = await page.locator('main').innerText();
    await page.close();

    for (const { label } of [...menu, ...(menu[open]?.items ?? [])]) expect(words).toContain(label);
    expect(menu[open]?.items.map(({ label }) => label)).toEqual([
      'Personal sign-in',
      'cloud.example.com/mcp/acme/library',
      '',
      'Sign out',
      'Reconnect',
      'Rename…',
      'Open dashboard',
    ]);
  });

  test('an action of the menu that fails says why in the window, until the next action', async () => {
    await desktop.trayWhere(showsEveryState);
    const page = await desktop.window('connections');
    await desktop.click('library', 'Reconnect');
    const notice = page.getByText('The status folder cannot be read.');
    await notice.waitFor();
    const remedy = await page.getByText('Check its permissions.').isVisible();
    await desktop.click('library', 'Open dashboard');
    await notice.waitFor({ state: 'hidden' });

    expect(remedy).toBe(true);
    expect(await desktop.nextOpened()).toBe('https://cloud.example.com/');
  });

  test('a sign-in is announced once, and a click on the notification starts one that can be cancelled', async () => {
    const notice = await desktop.nextNotice();
    const page = await desktop.window('connections');
    desktop.clickNotice(notice);
    await page.getByText('Finish in your browser.').waitFor();
    const waiting = await desktop.trayWhere(({ tooltip }) => tooltip.includes('waiting'));
    await lookAt(page, 'connections-waiting');
    await button(page, 'Copy the address').click();
    await page.getByText('The clipboard is cleared in a minute.').first().waitFor();
    const copied = await desktop.clipboard();
    await button(page, 'Cancel').click();
    await button(page, 'Sign in sales').waitFor();

    expect(notice).toMatchObject({ title: 'Sign in to sales' });
    expect(desktop.notices.filter(({ title }) => title.endsWith('sales'))).toHaveLength(1);
    expect(waiting).toMatchObject({
      tooltip: 'Latchkey: waiting for the browser, to sign in to sales',
    });
    expect(copied).toContain('https://cloud.example.com/oauth/consent');
  });

  test('connections that share the sign-in of a company are signed in to once, and signed out of together', async () => {
    desktop.script(companyConnections());
    await desktop.trayWhere(({ menu }) => menu[0]?.label.includes('id.acme.example') === true);
    const page = await desktop.window('connections');
    const card = page.getByRole('listitem').filter({ hasText: 'Company sign-in for' });
    await card.getByText('Sign-in required').waitFor();
    await lookAt(page, 'company-signed-out');
    const offered = await page.getByRole('button', { name: /^Sign in/ }).all();
    await button(page, 'Sign in at id.acme.example').click();
    await card.getByText('Finish in your browser.').waitFor();
    await lookAt(page, 'company-waiting');
    desktop.letScriptGoOn();
    const opened = card.getByText('and to crm, support and finance.');
    await opened.waitFor();
    await card.locator('summary').click();
    await lookAt(page, 'company-signed-in');
    const ends = await page.getByRole('button', { name: /^Sign out/ }).all();
    await button(page, 'Sign out at id.acme.example').click();
    await card.getByText('Signed out at id.acme.example').waitFor();

    expect(offered).toHaveLength(1);
    // That of the company, and that of the connection with a sign-in of its own.
    expect(ends).toHaveLength(2);
    const announced = desktop.notices.filter(({ title }) => title.includes('id.acme.example'));
    expect(announced).toMatchObject([{ title: 'Sign in at id.acme.example' }]);
    desktop.script(everyState());
    await desktop.trayWhere(showsEveryState);
  });

  test('adding a connection asks first, refuses a wrong key with the reason, and keeps what was entered', async () => {
    await desktop.click('Add connection');
    const page = await desktop.window('add');
    await lookAt(page, 'add');
    await page.getByLabel('Server URL').fill('cloud');
    await button(page, 'Continue').click();
    await page.getByRole('alert').waitFor();
    await lookAt(page, 'add-refused');
    await page.getByLabel('Server URL').fill('https://cloud.example.com/mcp/acme/slow');
    await button(page, 'Continue').click();
    await lookWhile(page, 'Connecting…', 'add-asking');
    await page.getByLabel('Name').waitFor();
    await lookAt(page, 'add-who');
    await page.getByLabel('API key').check();
    await page.getByLabel('Name').fill('mine');
    await page.locator('#secret').fill('mcp_wrong');
    await button(page, 'Check and add').click();
    await lookWhile(page, 'Checking…', 'add-trying');
    const alert = page.getByRole('alert');
    await alert.waitFor();
    await lookAt(page, 'add-wrong-key');

    expect(await alert.textContent()).toContain('did not accept the API key');
    expect(await page.getByLabel('Name').inputValue()).toBe('mine');
    expect(await page.locator('#secret').inputValue()).toBe('mcp_wrong');
  });

  test('a pasted desktop configuration is read back without its secret', async () => {
    const page = await desktop.window('add');
    await button(page, 'Back').click();
    await page.getByLabel('Server URL').fill('');
    const details = page.getByText('Paste a configuration instead');
    await details.click();
    await page.getByLabel('Configuration').fill('{"oauth": {"clientSecret": "secret_typed"}}');
    await button(page, 'Continue').click();
    await page.getByText('OAuth client, from the pasted configuration').waitFor();
    await lookAt(page, 'add-pasted');
    await button(page, 'Check and add').click();
    await page.getByText('acme is connected.').waitFor();
    await lookAt(page, 'add-done');

    expect(await page.content()).not.toContain('secret_typed');
    expect(desktop.told()).not.toContain('secret_typed');
  });

  test('a key is rotated in three steps, the last one in the dashboard', async () => {
    await desktop.click('nightly', 'Rotate API key');
    const page = await desktop.window('key');
    await lookAt(page, 'key');
    await page.getByLabel('New API key').fill('mcp_slow_and_wrong');
    await button(page, 'Check and store').click();
    await lookWhile(page, 'Checking…', 'key-trying');
    await page.getByRole('alert').waitFor();
    await lookAt(page, 'key-wrong');
    await page.getByLabel('New API key').fill('mcp_right');
    await button(page, 'Check and store').click();
    await page.getByText('The new API key is stored.').waitFor();
    await lookAt(page, 'key-stored');
    await button(page, 'Revoke the old one in the dashboard').click();

    expect(await desktop.nextOpened()).toBe('https://cloud.example.com/servers/acme/nightly/keys');
    expect(await page.content()).not.toContain('mcp_right');
    expect(desktop.told()).not.toContain('mcp_right');
  });

  test('a connection is renamed in a window of its own, but not to a name that is taken', async () => {
    await desktop.click('nightly', 'Rename');
    const page = await desktop.window('rename');
    await lookAt(page, 'rename');
    await page.getByLabel('New name').fill('library');
    await button(page, 'Rename').click();
    const refused = await page.getByRole('alert').textContent();
    await page.getByLabel('New name').fill('nightly-eu');
    await button(page, 'Rename').click();
    await page.getByText('nightly is now nightly-eu. Restart Cursor.').waitFor();
    await lookAt(page, 'renamed');
    const names = desktop.tray().menu.map(({ label }) => label);
    desktop.script(everyState());

    expect(refused).toContain('library already exists.');
    expect(names.join()).toContain('nightly-eu');
  });

  test('assistants are shown with what they start, and what can be imported', async () => {
    await desktop.click('Assistants');
    const page = await desktop.window('assistants');
    await lookAt(page, 'assistants');
    await button(page, 'Install library in Cursor').click();
    await button(page, 'Remove library from Cursor').waitFor();

    expect(await page.locator('main').textContent()).toContain('Restart the assistant');
  });

  test('a file that cannot be read is opened in an editor', async () => {
    const page = await desktop.window('assistants');
    await button(page, 'Open the file of VS Code').click();
    await page.getByText('The file opened in your editor.').first().waitFor();

    expect(await desktop.nextOpened()).toBe('/home/dana/.config/Code/User/mcp.json');
  });

  test('the doctor says what works, what does not, and what to do', async () => {
    await desktop.click('Doctor');
    const page = await desktop.window('doctor');
    await page.getByText('1 error, 1 warning.').first().waitFor();
    await lookAt(page, 'doctor');

    expect(await page.locator('main').textContent()).toContain('Enter a new one');
  });

  test('the address of the company is all that the first start asks for, and shows servers and devices', async () => {
    desktop.script([]);
    await desktop.click('Your servers');
    const page = await desktop.window('servers');
    const field = page.getByLabel('Address of your company’s Latchkey');
    await field.fill('wrong.example.com');
    await button(page, 'Set up').click();
    await page
      .getByRole('main')
      .getByText('is not the address of a Latchkey server')
      .first()
      .waitFor();
    await lookAt(page, 'servers-first');
    await field.fill('latchkey.example.com');
    await button(page, 'Set up').click();
    await page.getByRole('main').getByText('Finish in your browser.').first().waitFor();
    desktop.letScriptGoOn();
    await page
      .getByRole('main')
      .getByText('Connected: Sales. Restart Claude Desktop and Cursor.')
      .first()
      .waitFor();
    await page.getByRole('main').getByText('crm was withdrawn').first().waitFor();
    const shown = await page.locator('main').textContent();
    await lookAt(page, 'servers');
    await button(page, 'Sign in: Billing').click();
    await page.getByRole('main').getByText('Finish in your browser.').first().waitFor();
    const waiting = await page.locator('main').textContent();
    await button(page, 'Cancel').click();
    await button(page, 'Sign in: Billing').waitFor();
    await button(page, 'Add your account or key for Tickets').click();
    await page.getByRole('main').getByText('The page opened in your browser.').first().waitFor();

    expect(await page.getByLabel('Address of your company’s Latchkey').count()).toBe(0);
    for (const words of [
      'In use by Claude Desktop, Cursor on this computer; Cursor on danas-macbook.',
      'Sign-in required',
      'In use by Cursor on this computer.',
      'Needs your key',
      'No access',
      'Ask Eve',
      'crm was withdrawn',
    ])
      expect(shown).toContain(words);
    expect(waiting).toContain('Waiting for browser');
  });

  test('a device is signed out from its window, after a question', async () => {
    await desktop.click('Devices');
    const page = await desktop.window('devices');
    await page.getByRole('main').getByText('This computer').first().waitFor();
    await button(page, 'Sign out danas-macbook (macOS)').click();
    await page.getByRole('main').getByText('including running calls').first().waitFor();
    await lookAt(page, 'devices');
    await button(page, 'Sign out device').click();
    await page.getByRole('main').getByText('The device was signed out.').first().waitFor();

    expect(await page.locator('main').textContent()).not.toContain('danas-macbook');
  });

  test('each window of the menu opens by its name, and is accessible', async () => {
    for (const name of windowNames) {
      const { menuLabel, title } = windows[name];
      if (menuLabel === undefined) continue;
      await desktop.click(menuLabel);
      const page = await desktop.window(name);
      await lookAt(page, `window-${name}`);

      expect(await page.title()).toBe(`${title} · Latchkey`);
    }
  });

  test('a doctor that fails says why, and can be asked again', async () => {
    desktop.script([seenConnection({ name: 'no-doctor' })]);
    const page = await desktop.window('doctor');
    await button(page, 'Check again').click();
    const alert = await page.getByRole('alert').textContent();
    await lookAt(page, 'doctor-failed');
    desktop.script(everyState());
    await button(page, 'Check again').click();
    await page.getByText('1 error, 1 warning.').first().waitFor();

    expect(alert).toContain('The configuration cannot be read.');
    expect(await page.getByRole('alert').count()).toBe(0);
  });

  test('removing a connection says what will stop working, and can be cancelled', async () => {
    const page = await desktop.window('connections');
    await button(page, 'Remove library').click();
    const dialog = page.getByRole('dialog');
    await dialog.waitFor();
    await lookAt(page, 'connections-remove');
    const words = await dialog.textContent();
    await button(page, 'Cancel').click();
    await dialog.waitFor({ state: 'hidden' });

    expect(words).toContain('Remove library?');
    expect(words).toContain('loses access immediately');
  });

  test('long names, right-to-left names and many connections leave the window usable', async () => {
    const many = Array.from({ length: 15 }, (_, at) => seenConnection({ name: `server-${at}` }));
    const long = seenConnection({
      name: 'x'.repeat(64),
      url: `https://${'a'.repeat(60)}.example.com/mcp/${'b'.repeat(63)}/${'c'.repeat(63)}`,
    });
    desktop.script([seenConnection({ name: 'مبيعات' }), long, ...many]);
    const page = await desktop.window('connections');
    await page.getByRole('heading', { name: 'server-14' }).waitFor();
    await page.setViewportSize({ width: 420, height: 360 });
    await lookAt(page, 'connections-many');

    expect(desktop.tray().menu.map(({ label }) => label)).toContain('5 more…');
  });

  test('unreadable connections are reported: one of them, or all', async () => {
    const [library] = everyState();
    const bad = { ...seenConnection({ name: 'broken', url: '', state: 'trouble' }), scopes: [] };
    const { issuer: _, expiresAt: __, ...unread } = bad;
    const reason =
      'connections.json: mcpServers.broken.url is missing; set it to the URL of the MCP server';
    desktop.script([
      ...(library ? [library] : []),
      { ...unread, reason, renewable: false, source: { file: '', own: false } },
    ]);
    const page = await desktop.window('connections');
    await page.setViewportSize({ width: 720, height: 560 });
    await page.getByText(reason).waitFor();
    await lookAt(page, 'connections-unreadable');
    desktop.failScript('connections.json is not valid JSON; check for a missing comma or quote');
    const alert = await page.getByRole('alert').textContent();
    const { icon } = await desktop.trayWhere((tray) => tray.icon.includes('trouble'));
    const main = await page.locator('main').textContent();
    await lookAt(page, 'connections-trouble');

    expect(alert).toContain('connections.json is not valid JSON');
    expect(icon).toContain('trouble');
    expect(main).not.toContain('No connections yet');
  });

  test('the keyboard alone reaches and operates everything', async () => {
    desktop.script(everyState());
    const page = await desktop.window('connections');
    await page.getByRole('heading', { name: 'wiki' }).waitFor();
    await page.setViewportSize({ width: 720, height: 560 });
    const reached = new Set<string>();
    for (let step = 0; step < 32; step++) {
      await page.keyboard.press('Tab');
      reached.add(
        await page.evaluate(
          'document.activeElement.ariaLabel ?? document.activeElement.textContent.trim()',
        ),
      );
    }

    expect([...reached]).toEqual(
      expect.arrayContaining(['Add connection', 'Sign in sales', 'Rotate API key of nightly']),
    );
  });

  test('only the app’s own pages are served, and no link leads elsewhere', async () => {
    const overview = { operation: 'overview', input: {} };
    const asked = (url: string, mainFrame: boolean) =>
      desktop.invokeFrom(url, mainFrame, overview).then(
        () => 'answered',
        (error: unknown) => String(error),
      );

    expect(await asked('latchkey://app/connections.html', true)).toBe('answered');
    expect(await asked('latchkey://app/connections.html', false)).toContain('only the pages');
    for (const url of ['https://evil.example/', 'file:///etc/passwd', 'latchkey://other/add.html'])
      expect(await asked(url, true)).toContain('only the pages');
    expect(await desktop.mayNavigate('https://evil.example/')).toBe(false);
    expect(await desktop.mayOpen('https://evil.example/')).toBe(false);
    expect(desktop.permissions()).toEqual([false, false, false]);
    for (const options of desktop.windowOptions)
      expect(options).toMatchObject({
        webPreferences: {
          contextIsolation: true,
          sandbox: true,
          nodeIntegration: false,
          webviewTag: false,
        },
      });
  });

  test('a request outside the contract is refused on both sides', async () => {
    const page = await desktop.window('connections');
    const inPage = await page.evaluate(
      `window.latchkey.ask('rotate', { name: '../x', secret: 'y' }).then(() => 'sent', () => 'refused')`,
    );
    const past = desktop
      .invokeFrom('latchkey://app/key.html', true, { operation: 'quit', input: {} })
      .then(
        () => 'answered',
        () => 'refused',
      );

    expect(inPage).toBe('refused');
    expect(await past).toBe('refused');
    expect(await page.evaluate('Object.keys(window.latchkey)')).toEqual(['ask', 'onChange']);
  });

  test('a second start shows the first window, and quitting clears the clipboard', async () => {
    const page = await desktop.window('connections');
    await page.close();
    desktop.startAgain();
    const again = await desktop.window('connections');
    await desktop.quit();

    expect(again).not.toBe(page);
    // axe reads the stylesheets again, and pictures are taken with a style of their own.
    const ours = /Connecting to|Applying inline style/;
    const complaints = desktop
      .stderr()
      .split('\n')
      .filter((line) => !ours.test(line));
    expect(complaints.join('')).toBe('');
  });

  test('the picture of the logo is in its place', () => {
    const png = readFileSync(
      join(import.meta.dirname, '../../../tray-app/icons/attentionTemplate@2x.png'),
    );

    expect(png.subarray(1, 4).toString()).toBe('PNG');
    expect(png.readUInt32BE(16)).toBe(32);
  });
});

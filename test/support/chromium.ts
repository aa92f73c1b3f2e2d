import axe from 'axe-core';
import { chromium as engine, type Browser, type BrowserServer, type Page } from 'playwright-core';

/** What Playwright 1.65 turns off; the last list of these is the one that counts. */
const offByPlaywright =
  'AvoidUnnecessaryBeforeUnloadCheckSync,DestroyProfileOnBrowserClose,HttpsUpgrades,HttpsFirstBalancedModeAutoEnable,LensOverlay,MediaRouter,PaintHolding,ThirdPartyStoragePartitioning,AvoidCorsURLLoaderRestartOnRedirect,TcpPortRandomizationWin,OptimizationHints,NetworkTimeServiceQuerying,AimEnabled,PreconnectToSearch,msForceBrowserSignIn,msEdgeUpdateLaunchServicesPreferredVersion';

/** The suggestions of the address bar, which nobody types into: two pages a window, and half of all its work. */
const addressBarPages = 'WebUIOmniboxPopup,WebUIOmniboxAimPopup,WebUIOmniboxFullPopup';

const args = [
  `--disable-features=${offByPlaywright},${addressBarPages}`,
  '--no-sandbox',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--no-first-run',
];

const options = { executablePath: '/usr/bin/chromium', args };

/**
 * The system's Chromium, as `suite('browser', …)` asks for: the one of this run where `end-to-end-setup.ts` started it,
 * otherwise one of our own. Either way, `close` ends all that was opened with it.
 */
export function chromium(): Promise<Browser> {
  const shared = process.env['TEST_CHROMIUM'];
  return shared === undefined ? engine.launch(options) : engine.connect(shared);
}

/** A Chromium that other processes can use. */
export function chromiumServer(): Promise<BrowserServer> {
  return engine.launchServer(options);
}

/** The rules of axe about colours that it applies by default. */
const colourRules = ['color-contrast', 'link-in-text-block'];

/**
 * What axe finds wrong with the page, one line a violation; with the rules about `colours` only where all others passed in
 * another color scheme. Runs beside the page's own policy.
 */
export async function accessibilityProblems(
  page: Page,
  rules: 'all' | 'colours' = 'all',
): Promise<string[]> {
  const session = await page.context().newCDPSession(page);
  await session.send('Runtime.enable');
  const loaded = await session.send('Runtime.evaluate', { expression: 'typeof axe' });
  if (loaded.result.value !== 'object')
    await session.send('Runtime.evaluate', { expression: axe.source });
  const chosen = rules === 'all' ? {} : { runOnly: colourRules };
  const { result } = await session.send('Runtime.evaluate', {
    expression: `axe.run(${JSON.stringify(chosen)}).then(({ violations }) => JSON.stringify(violations.map(
      ({ id, nodes }) => id + ': ' + nodes.map(({ html, any }) => html + ' ' + any.map(({ message }) => message)).join('; '))))`,
    awaitPromise: true,
  });
  await session.detach();
  const problems: unknown = JSON.parse(String(result.value));
  return Array.isArray(problems) ? problems.map(String) : [];
}

/**
 * What a program can see of a page's look, in dark and light and on a phone: what axe finds, and whether it scrolls
 * sideways. One line a problem. The page keeps its size and is light afterwards.
 */
export async function pageProblems(page: Page): Promise<string[]> {
  const size = page.viewportSize() ?? { width: 1280, height: 720 };
  const problems: string[] = [];
  await page.setViewportSize({ width: 360, height: 800 });
  // The schemes differ in colours alone.
  for (const [colorScheme, rules] of [
    ['dark', 'all'],
    ['light', 'colours'],
  ] as const) {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    const found = await accessibilityProblems(page, rules);
    problems.push(...found.map((one) => `${colorScheme}: ${one}`));
  }
  if (await scrollsSideways(page)) problems.push('scrolls sideways at 360 px');
  await page.setViewportSize(size);
  return problems;
}

/** Whether anything is wider than the window. */
export function scrollsSideways(page: Page): Promise<boolean> {
  return page.evaluate(
    'document.documentElement.scrollWidth > document.documentElement.clientWidth',
  );
}

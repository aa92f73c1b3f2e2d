import { existsSync } from 'node:fs';
import axe from 'axe-core';
import { chromium as engine, type Browser, type BrowserServer, type Page } from 'playwright-core';

/** What Playwright 1.65 turns off; the last list of these is the one that counts. */
const offByPlaywright =
  'AvoidUnnecessaryBeforeUnloadCheckSync,DestroyProfileOnBrowserClose,HttpsUpgrades,HttpsFirstBalancedModeAutoEnable,LensOverlay,MediaRouter,PaintHolding,ThirdPartyStoragePartitioning,AvoidCorsURLLoaderRestartOnRedirect,TcpPortRandomizationWin,OptimizationHints,NetworkTimeServiceQuerying,AimEnabled,PreconnectToSearch,msForceBrowserSignIn,msEdgeUpdateLaunchServicesPreferredVersion';

/** The suggestions of the address bar, which no test types into: two pages a window, and half of all its work. */
const addressBarPages = 'WebUIOmniboxPopup,WebUIOmniboxAimPopup,WebUIOmniboxFullPopup';

/** A process that waits for the next page of a context, which few of ours have. */
const spareProcess = 'SpareRendererForSitePerProcess';

const args = [
  `--disable-features=${offByPlaywright},${addressBarPages},${spareProcess}`,
  '--no-sandbox',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--no-first-run',
];

/** It has the same engine, and needs much less processor time. */
const withoutWindows = '/usr/bin/chromium-headless-shell';

const options = {
  executablePath: existsSync(withoutWindows) ? withoutWindows : '/usr/bin/chromium',
  args,
};

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

/** Gives the browser of the page a key that holds passkeys and knows its person. */
export async function addPasskeyDevice(page: Page): Promise<void> {
  const session = await page.context().newCDPSession(page);
  await session.send('WebAuthn.enable');
  await session.send('WebAuthn.addVirtualAuthenticator', {
    options: {
      protocol: 'ctap2',
      transport: 'internal',
      hasResidentKey: true,
      hasUserVerification: true,
      isUserVerified: true,
      automaticPresenceSimulation: true,
    },
  });
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
 * What a program can find wrong with a page, in dark and light, on a phone and on a desk: what axe finds, what the keyboard
 * does not reach, and whether it scrolls sideways on a narrow phone. One line a problem. The page keeps its size and is light afterwards.
 */
export async function pageProblems(page: Page): Promise<string[]> {
  const size = page.viewportSize() ?? { width: 1280, height: 720 };
  const problems: string[] = [];
  for (const width of [1440, 390]) {
    await page.setViewportSize({ width, height: 800 });
    // The schemes differ in colours alone.
    for (const [colorScheme, rules] of [
      ['dark', 'all'],
      ['light', 'colours'],
    ] as const) {
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
      const found = await accessibilityProblems(page, rules);
      problems.push(...found.map((one) => `${width} px, ${colorScheme}: ${one}`));
    }
  }
  problems.push(...(await keyboardProblems(page)));
  await page.setViewportSize({ width: 360, height: 800 });
  if (await scrollsSideways(page)) problems.push('scrolls sideways at 360 px');
  await page.setViewportSize(size);
  return problems;
}

/** Notes in `window.untabbed` what the Tab key should reach: of a dialog, what is in it; of a group of radio buttons, one. */
const noteTabStops = `(() => {
  const root = document.querySelector('dialog[open]') ?? document;
  const isShown = (one) => one.checkVisibility({ visibilityProperty: true }) && one.getClientRects().length > 0;
  const isFirstOfDetails = (one) => one.tagName !== 'SUMMARY' || one === one.parentElement.querySelector('summary');
  const isStop = (one) => {
    if (one.type !== 'radio' || one.checked) return true;
    const group = [...root.querySelectorAll('input[type=radio]')].filter(({ name, form }) => name === one.name && form === one.form);
    return group[0] === one && !group.some(({ checked }) => checked);
  };
  const all = root.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex]');
  window.untabbed = new Set([...all].filter((one) =>
    one.tabIndex >= 0 && !one.disabled && isShown(one) && isFirstOfDetails(one) && isStop(one)));
  return window.untabbed.size;
})()`;

/** Notes where the focus is. Returns how many elements it has not reached, and the element if its focus cannot be seen. */
const noteFocus = `(() => {
  const one = document.activeElement;
  const isNew = window.untabbed.delete(one);
  const ringed = [one, one.nextElementSibling, one.querySelector('.slot')].filter(Boolean);
  const isSeen = ringed.some((each) => {
    const { outlineStyle, outlineWidth, stroke } = getComputedStyle(each);
    return (outlineStyle !== 'none' && parseFloat(outlineWidth) >= 2) || (each.matches('.slot') && stroke !== 'none');
  });
  return { left: window.untabbed.size, unseen: isNew && !isSeen ? one.outerHTML.slice(0, 120) : undefined };
})()`;

/** What the Tab key does not reach, and what does not show that it has the focus; one line each. The focus returns to where it was. */
export async function keyboardProblems(page: Page): Promise<string[]> {
  await page.evaluate('void (window.focused = document.activeElement)');
  const stops = await page.evaluate<number>(noteTabStops);
  const problems: string[] = [];
  // A field for a date has several stops.
  let left = stops;
  for (let presses = 0; left > 0 && presses < 2 * stops + 30; presses += 1) {
    await page.keyboard.press('Tab');
    const seen = await page.evaluate<{ left: number; unseen?: string }>(noteFocus);
    left = seen.left;
    if (seen.unseen !== undefined) problems.push(`focus not visible: ${seen.unseen}`);
  }
  const unreached = await page.evaluate<string[]>(
    '[...window.untabbed].map(({ outerHTML }) => outerHTML.slice(0, 120))',
  );
  await page.evaluate('document.activeElement.blur(), window.focused.focus()');
  return [...problems, ...unreached.map((one) => `not reached by the Tab key: ${one}`)];
}

/** Whether anything is wider than the window. */
export function scrollsSideways(page: Page): Promise<boolean> {
  return page.evaluate(
    'document.documentElement.scrollWidth > document.documentElement.clientWidth',
  );
}

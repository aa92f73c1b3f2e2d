import { existsSync } from 'node:fs';
import axe from 'axe-core';
import { chromium as engine, type Browser, type Page } from 'playwright-core';
import { nodesOfTests } from './node-cluster.ts';

/** The features that Playwright 1.65 turns off; repeated here, because only the last such list counts. */
const offByPlaywright =
  'AvoidUnnecessaryBeforeUnloadCheckSync,DestroyProfileOnBrowserClose,HttpsUpgrades,HttpsFirstBalancedModeAutoEnable,LensOverlay,MediaRouter,PaintHolding,ThirdPartyStoragePartitioning,AvoidCorsURLLoaderRestartOnRedirect,TcpPortRandomizationWin,OptimizationHints,NetworkTimeServiceQuerying,AimEnabled,PreconnectToSearch,msForceBrowserSignIn,msEdgeUpdateLaunchServicesPreferredVersion';

/** The suggestions of the address bar, which no test types into: they are two pages a window, and half of its work. */
const addressBarPages = 'WebUIOmniboxPopup,WebUIOmniboxAimPopup,WebUIOmniboxFullPopup';

/** A process that waits for the next page of a context; few contexts of the tests have another page. */
const spareProcess = 'SpareRendererForSitePerProcess';

const args = [
  `--disable-features=${offByPlaywright},${addressBarPages},${spareProcess}`,
  '--no-sandbox',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--no-first-run',
];

/** The headless shell has the same engine, and needs much less processor time. */
const withoutWindows = '/usr/bin/chromium-headless-shell';

const options = {
  executablePath: existsSync(withoutWindows) ? withoutWindows : '/usr/bin/chromium',
  args,
};

/** Starts the system's Chromium, which `suite('browser', …)` requires. Each call starts its own, so that closing it leaves no file behind. */
export function chromium(): Promise<Browser> {
  return engine.launch(options);
}

/** Adds a virtual authenticator to the page, which holds passkeys and verifies its person without asking. */
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
 * The violations that axe finds on the page, one line each. `colours` applies only the rules about colours, for a page that
 * passed all others in another color scheme. The page's own policy does not block axe.
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
  // axe computes only what is printed.
  const quick = { resultTypes: ['violations'], selectors: false };
  const chosen = rules === 'all' ? quick : { ...quick, runOnly: colourRules };
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
 * The problems of a page that a program can find, one line each: what axe finds, in dark and light, on a phone and on a desk; elements
 * that the Tab key does not reach; and sideways scrolling on a narrow phone. Afterwards the page has its old size and is light.
 * The problems do not depend on how many nodes the server has, so only tests with one node look for them.
 */
export async function pageProblems(page: Page): Promise<string[]> {
  if (nodesOfTests > 1) return [];
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

/**
 * Collects in `window.untabbed` the elements that the Tab key should reach: only those in an open dialog, and one of a group of radio
 * buttons. Then it removes each that gets the focus, and adds each that does not show the focus to `window.unseen`.
 */
const watchFocus = `(() => {
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
  window.unseen = [];
  const note = ({ target: one }) => {
    if (!window.untabbed.delete(one)) return;
    const ringed = [one, one.nextElementSibling, one.querySelector('.slot')].filter(Boolean);
    const isSeen = ringed.some((each) => {
      const { outlineStyle, outlineWidth, stroke } = getComputedStyle(each);
      return (outlineStyle !== 'none' && parseFloat(outlineWidth) >= 2) || (each.matches('.slot') && stroke !== 'none');
    });
    if (!isSeen) window.unseen.push(one.outerHTML.slice(0, 120));
  };
  document.addEventListener('focusin', note);
  window.unwatchFocus = () => document.removeEventListener('focusin', note);
  return window.untabbed.size;
})()`;

/** The elements that the Tab key does not reach or that do not show the focus, one line each. The focus returns to where it was. */
export async function keyboardProblems(page: Page): Promise<string[]> {
  await page.evaluate('void (window.focused = document.activeElement)');
  const stops = await page.evaluate<number>(watchFocus);
  const most = 2 * stops + 30;
  let left = stops;
  // A date field has several stops. Each element that is left takes at least one press, so they are counted only after that many.
  for (let presses = 0; left > 0 && presses < most;) {
    const next = Math.min(left, most - presses);
    for (let press = 0; press < next; press += 1) await page.keyboard.press('Tab');
    presses += next;
    left = await page.evaluate<number>('window.untabbed.size');
  }
  const [unseen, unreached] = await page.evaluate<[string[], string[]]>(
    '[window.unseen, [...window.untabbed].map(({ outerHTML }) => outerHTML.slice(0, 120))]',
  );
  await page.evaluate(
    'window.unwatchFocus(), document.activeElement.blur(), window.focused.focus()',
  );
  return [
    ...unseen.map((one) => `focus not visible: ${one}`),
    ...unreached.map((one) => `not reached by the Tab key: ${one}`),
  ];
}

/** Whether anything is wider than the window. */
export function scrollsSideways(page: Page): Promise<boolean> {
  return page.evaluate(
    'document.documentElement.scrollWidth > document.documentElement.clientWidth',
  );
}

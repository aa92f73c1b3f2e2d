import axe from 'axe-core';
import { chromium as engine, type Browser, type BrowserServer, type Page } from 'playwright-core';

const args = [
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

/** What axe finds wrong with the page, one line a violation. Runs beside the page's own policy. */
export async function accessibilityProblems(page: Page): Promise<string[]> {
  const session = await page.context().newCDPSession(page);
  await session.send('Runtime.enable');
  await session.send('Runtime.evaluate', { expression: axe.source });
  const { result } = await session.send('Runtime.evaluate', {
    expression: `axe.run().then(({ violations }) => JSON.stringify(violations.map(
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
  for (const colorScheme of ['dark', 'light'] as const) {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    problems.push(...(await accessibilityProblems(page)).map((one) => `${colorScheme}: ${one}`));
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

import { mkdirSync } from 'node:fs';
import { join } from 'node:path';

import type { Page } from 'playwright-core';

import { accessibilityProblems, keyboardProblems, scrollsSideways } from '#support/chromium';

/** Where the pictures go: `{name}-{width}-{light|dark}.png`. */
export const folder = join(import.meta.dirname, '../out/pages');

/** Takes pictures of pages, and collects the faults of the pages. */
export interface Album {
  /** One line a fault: what axe finds, what the keyboard does not reach, pages that are wider than their window, tables than their box. */
  readonly faults: readonly string[];
  /** How many pages and states were taken. */
  readonly taken: () => number;
  /**
   * Takes the whole page as on a phone, a tablet and a desktop, light and dark; with `isTable` on a very wide screen as well.
   * `between` lists more widths, for a page whose layout changes in between.
   */
  readonly take: (
    page: Page,
    name: string,
    options?: { isTable?: boolean; between?: readonly number[] },
  ) => Promise<void>;
}

export function album(): Album {
  mkdirSync(folder, { recursive: true });
  const faults: string[] = [];
  let taken = 0;
  return {
    faults,
    taken: () => taken,
    async take(page, name, { isTable = false, between = [] } = {}) {
      taken += 1;
      const widths = [390, ...between, 900, 1440, ...(isTable ? [1920] : [])];
      for (const width of widths) {
        await page.setViewportSize({ width, height: 800 });
        for (const colorScheme of ['light', 'dark'] as const) {
          await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
          const where = `${name}-${width}-${colorScheme}`;
          await settle(page);
          // A dialog covers the window, and not the whole page that scrolls under it.
          const fullPage = (await page.getByRole('dialog').count()) === 0;
          await page.screenshot({ path: join(folder, `${where}.png`), fullPage });
          const problems = await accessibilityProblems(page);
          faults.push(...problems.map((problem) => `${where}: ${problem}`));
        }
        if (width === 390 || width === 1440) {
          const unreached = await keyboardProblems(page);
          faults.push(...unreached.map((problem) => `${name}-${width}: ${problem}`));
        }
        if (await scrollsSideways(page)) faults.push(`${name}-${width}: wider than its window`);
        if (await hidesColumns(page))
          faults.push(`${name}-${width}: a table with columns out of sight`);
      }
      await page.setViewportSize({ width: 1200, height: 800 });
    },
  };
}

/** Whether a table has to be scrolled to be read whole. */
function hidesColumns(page: Page): Promise<boolean> {
  return page.evaluate(
    `[...document.querySelectorAll('.scroll')].some((box) => box.scrollWidth > box.clientWidth)`,
  );
}

/** Scrolls the page as if it had loaded in a window of this size, and waits until it is painted. */
async function settle(page: Page): Promise<void> {
  await page.evaluate(`new Promise((painted) => {
    scrollTo(0, 0);
    document.querySelector('.side [aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'center' });
    requestAnimationFrame(() => requestAnimationFrame(painted));
  })`);
}

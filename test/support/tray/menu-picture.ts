import { readFileSync } from 'node:fs';
import type { Browser, Page } from 'playwright-core';
import type { RecordedItem } from './wire.ts';

/** An icon of the tray with the words under it. */
export type ShownIcon = { path: string; words: string };

/**
 * A page with the tray's icons and its menu, as a desktop without colours of its own draws them; the item
 * at `open` shows its submenu. The texts and icons are those that the app has given the system.
 */
export async function menuPicture(
  browser: Browser,
  menu: readonly RecordedItem[],
  { open, light, dark }: { open: number; light: ShownIcon[]; dark: ShownIcon[] },
): Promise<Page> {
  const page = await browser.newPage({ viewport: { width: 640, height: 480 } });
  page.setDefaultTimeout(60_000);
  const below = menu[open]?.items ?? [];
  await page.setContent(`<!doctype html><html lang="en"><title>The tray</title><style>${style}</style>
    <main>${bar('light', light)}${bar('dark', dark)}
    <div class="menus">${list(menu, open)}${list(below)}</div></main></html>`);
  return page;
}

const bar = (kind: string, icons: readonly ShownIcon[]) =>
  `<ul class="bar ${kind}">${icons.map(({ path, words }) => `<li><img alt="" width="16" height="16" src="${pngOf(path)}">${escaped(words)}</li>`).join('')}</ul>`;

const list = (items: readonly RecordedItem[], open = -1): string =>
  `<ul class="menu">${items.map((item, at) => line(item, at === open)).join('')}</ul>`;

function line({ label, type, enabled, checked, items }: RecordedItem, isOpen: boolean): string {
  if (type === 'separator') return '<li class="line"></li>';
  const mark = checked ? '✓' : '';
  const kind = [isOpen ? 'open' : '', enabled ? '' : 'off'].join(' ');
  const arrow = items.length > 0 ? '<span>▸</span>' : '';
  return `<li class="${kind}"><i>${mark}</i><b>${escaped(label)}</b>${arrow}</li>`;
}

/** The icon in double size, which today's screens show. */
function pngOf(path: string): string {
  const bytes = readFileSync(path.replace(/\.png$/, '@2x.png'));
  return `data:image/png;base64,${bytes.toString('base64')}`;
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
}

const style = `
  :root { color-scheme: light dark; --ground: #e9eeee; --menu: #fbfcfc; --ink: #1f2a30; --soft: #5b6970; --line: #d5dcde; --over: #dfe9e9; }
  @media (prefers-color-scheme: dark) {
    :root { --ground: #0d1215; --menu: #20282d; --ink: #edf2f3; --soft: #9fadb3; --line: #3a454b; --over: #31434a; }
  }
  * { box-sizing: border-box; margin: 0; padding: 0; list-style: none; }
  body { background: var(--ground); color: var(--ink); font: 14px/1.5 system-ui, sans-serif; }
  main { display: flex; flex-direction: column; gap: 8px; width: 640px; padding: 16px; }
  .bar { display: flex; gap: 20px; padding: 6px 12px; border-radius: 6px; font-size: 12px; }
  .bar.light { background: #f6f9f9; color: #1f2a30; }
  .bar.dark { background: #161d21; color: #edf2f3; }
  .bar li { display: flex; gap: 8px; align-items: center; }
  .menus { display: flex; gap: 4px; align-items: flex-start; padding-top: 8px; }
  .menu { padding: 5px; border: 1px solid var(--line); border-radius: 8px; background: var(--menu); box-shadow: 0 8px 24px #0002; }
  .menu li { display: flex; gap: 8px; align-items: center; min-height: 26px; padding: 0 10px 0 4px; border-radius: 5px; }
  .menu i { flex: none; width: 14px; font-style: normal; text-align: center; }
  .menu b { flex: 1; font-weight: 400; white-space: nowrap; }
  .menu span { color: var(--soft); }
  .menu .open { background: var(--over); }
  .menu .off b { color: var(--soft); }
  .menu .line { min-height: 0; height: 1px; margin: 5px 8px; padding: 0; background: var(--line); }
`;

/**
 * `npm run icons`: draws the tray icons, `tray-app/icons/*.png`, and the application's icons from `tray-app/build/icon.svg`, with
 * the Chromium of this host. The icons are committed, because other hosts that build may have no Chromium.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { chromium } from 'playwright-core';
import type { TrayStatus } from '../tray-app/model/state.ts';

const folder = join(import.meta.dirname, '../tray-app/icons');
/** macOS uses only the shape of a template; a dark panel gets the light drawing. */
const inks = { Template: '#000000', '-dark': '#1f2a30', '-light': '#f2f6f7' };
const names = ['well', 'attention', 'trouble', 'offline'] as const;

/** The logo, a key about to lift a latch, with space for a badge at the lower right. */
const mark = `<circle cx="4.25" cy="8" r="2.75"/><path d="M7 8h5.25M10 8v2.5"/><path d="M12.25 2.75H14.5v10.5h-2.25"/>`;

/** Each state has a badge of its own shape. The logo is cut away around the badge, so that the badge is legible at 16 px. */
const badges: Record<TrayStatus['icon'], string> = {
  well: '',
  attention: `<circle cx="12" cy="12" r="3.1" fill="ink" stroke="none"/>`,
  trouble: `<path d="M12 8.6 15.7 15.4H8.3Z" fill="ink" stroke="none"/>`,
  offline: `<circle cx="12" cy="12" r="2.5"/>`,
};

/** The tray's icon as an SVG of 16 by 16, in one colour. */
function trayIcon(name: TrayStatus['icon'], ink: string): string {
  const badge = badges[name].replaceAll('ink', ink);
  const cut = badge === '' ? '' : ' mask="url(#cut)"';
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16" fill="none" stroke="${ink}" stroke-width="1.75" stroke-linecap="round" stroke-linejoin="round">
<mask id="cut"><rect width="16" height="16" fill="#fff" stroke="none"/><circle cx="12" cy="12" r="5" fill="#000" stroke="none"/></mask>
<g${cut}>${mark}</g><g stroke-width="1.5">${badge}</g></svg>`;
}

const browser = await chromium.launch({
  executablePath: '/usr/bin/chromium',
  args: ['--no-sandbox'],
});
for (const [suffix, scale] of [
  ['', 1],
  ['@2x', 2],
] as const) {
  const context = await browser.newContext({
    deviceScaleFactor: scale,
    viewport: { width: 16, height: 16 },
  });
  const page = await context.newPage();
  for (const name of names)
    for (const [kind, ink] of Object.entries(inks)) {
      const style = 'margin:0;display:block;width:16px;height:16px';
      await page.setContent(
        `<body style="margin:0">${trayIcon(name, ink).replace('<svg', `<svg style="${style}"`)}`,
      );
      const png = await page.screenshot({ omitBackground: true });
      writeFileSync(join(folder, `${name}${kind}${suffix}.png`), png);
    }
  await context.close();
}
/** For the packages of the tray app, and for bundles, whose icon should have 512 px. MCPB manifest 0.3 */
const applicationIcons = { 'icon.png': 1024, 'icon-512.png': 512 };
const build = join(import.meta.dirname, '../tray-app/build');
const drawing = readFileSync(join(build, 'icon.svg'), 'utf8');
for (const [file, size] of Object.entries(applicationIcons)) {
  const page = await browser.newPage({ viewport: { width: size, height: size } });
  const style = `margin:0;display:block;width:${size}px;height:${size}px`;
  await page.setContent(
    `<body style="margin:0">${drawing.replace('<svg', `<svg style="${style}"`)}`,
  );
  writeFileSync(join(build, file), await page.screenshot({ omitBackground: true }));
}
await browser.close();

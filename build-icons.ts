/**
 * `npm run icons`: draws the tray's icons, tray-app/icons/*.png, with the Chromium of this machine. They
 * are kept in the repository, as builds elsewhere have none.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { chromium } from 'playwright-core';
import { trayIcon } from './tray-app/icons/tray-icon.ts';

const folder = join(import.meta.dirname, 'tray-app/icons');
/** macOS takes the shape alone of a template; a dark panel gets the light drawing. */
const inks = { Template: '#000000', '-dark': '#1f2a30', '-light': '#f2f6f7' };
const faces = ['well', 'attention', 'trouble', 'offline'] as const;

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
  for (const face of faces)
    for (const [kind, ink] of Object.entries(inks)) {
      const style = 'margin:0;display:block;width:16px;height:16px';
      await page.setContent(
        `<body style="margin:0">${trayIcon(face, ink).replace('<svg', `<svg style="${style}"`)}`,
      );
      const png = await page.screenshot({ omitBackground: true });
      writeFileSync(join(folder, `${face}${kind}${suffix}.png`), png);
    }
  await context.close();
}
await browser.close();

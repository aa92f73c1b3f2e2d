import { join } from 'node:path';

import type { Scene } from './scene.ts';

const folder = join(import.meta.dirname, '../../docs/pictures');

/** Takes the pictures of the documentation, and overwrites the existing ones. */
export const readmeScenes: Scene = async ({ dana }) => {
  const { page, open } = dana;
  const take = async (name: string, colorScheme: 'light' | 'dark') => {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    await page.screenshot({ path: join(folder, `dashboard-${name}.png`) });
  };
  await page.setViewportSize({ width: 1120, height: 720 });
  await open('');
  await take('overview', 'light');
  await open('/servers/library/keys?state=active');
  await take('keys', 'light');
  await open('/servers/tickets/tools/review');
  await take('tools-dark', 'dark');
};

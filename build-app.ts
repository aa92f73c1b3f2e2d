import { buildTray } from './build-tray.ts';
import { layOutApp } from './lay-out-app.ts';

/** Makes `folder` the app as Electron starts it, and as it is packaged. */
export async function buildApp(
  folder: string,
  described: { homepage?: string | undefined } = {},
): Promise<void> {
  await buildTray(folder);
  layOutApp(folder, described);
}

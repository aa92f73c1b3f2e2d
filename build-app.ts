import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { layOutApp } from './lay-out-app.ts';

/** Makes `folder` the app as Electron starts it, and as it is packaged. */
export async function buildApp(
  folder: string,
  described: { homepage?: string | undefined } = {},
): Promise<void> {
  const script = pathToFileURL(join(import.meta.dirname, 'build-tray.ts')).href;
  const build: { buildTray: (this: void, folder: string) => Promise<void> } = await import(script);
  await build.buildTray(folder);
  layOutApp(folder, described);
}

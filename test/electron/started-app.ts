import { join } from 'node:path';
import { _electron, type ElectronApplication } from 'playwright-core';
import { temporaryFolder } from '#support/temporary-folder';

/** The app in the real Electron, in a home of its own. */
export interface StartedApp extends AsyncDisposable {
  readonly electron: ElectronApplication;
  readonly program: string;
  readonly args: readonly string[];
  readonly env: Record<string, string>;
}

/** Starts what `npm run test:electron` has built. */
export async function startedApp(): Promise<StartedApp> {
  const { LATCHKEY_TEST_ELECTRON: program = '', LATCHKEY_TEST_APP: app = '' } = process.env;
  await using stack = new AsyncDisposableStack();
  const { path: home } = stack.use(await temporaryFolder('electron'));
  const inherited = Object.entries(process.env).flatMap(([name, value]) =>
    value === undefined || /^(XDG_(CONFIG|DATA|STATE|CACHE)_HOME|LATCHKEY_.*)$/.test(name)
      ? []
      : [[name, value] as const],
  );
  const env = {
    ...Object.fromEntries(inherited),
    HOME: home,
    USERPROFILE: home,
    APPDATA: join(home, 'AppData/Roaming'),
    LOCALAPPDATA: join(home, 'AppData/Local'),
  };
  const watch = join(import.meta.dirname, 'tray-watch.cjs');
  const args = ['-r', watch, `--user-data-dir=${join(home, 'electron')}`, app];
  const electron = await _electron.launch({ executablePath: program, args, env });
  stack.defer(() => electron.close());
  const started = stack.move();
  return { electron, program, args, env, [Symbol.asyncDispose]: () => started.disposeAsync() };
}

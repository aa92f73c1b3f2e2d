import { homedir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  app,
  BrowserWindow,
  clipboard,
  ipcMain,
  Menu,
  nativeImage,
  nativeTheme,
  Notification,
  protocol,
  session,
  shell,
  Tray,
} from 'electron';
import { helperEnvironment, openAccounts } from 'latchkey/accounts';
import { answered } from '#answered';
import { answers } from '#answers';
import { appWindows } from '#app-windows';
import { autostartFile } from '#autostart-file';
import { clipboardGuard } from '#clipboard-guard';
import { channels, type Overview } from '#contract';
import { denyPermissions } from '#deny-permissions';
import { entryPoint } from '#entry-point';
import { iconFile } from '#icon-file';
import { liveOverview } from '#live-overview';
import { autostartEntry, type LoginStart } from '#login-start';
import { mayOpen } from '#may-open';
import { menu } from '#menu';
import { menuActs } from '#menu-acts';
import { menuTemplate } from '#menu-template';
import type { Notice } from '#notice';
import { isOurPage, pageScheme, type WindowName } from '#page-files';
import { pageResponse } from '#page-response';
import { signInWaits } from '#sign-in-waits';
import { sealContents } from '#seal-contents';
import { sourcesLauncher } from '#sources-launcher';
import { trayFace } from '#tray-face';
import { sealed, windowLook } from '#window-look';

/** The bundle, with the pages and the icons beside it. */
const here = import.meta.dirname;
const { platform } = process;
/** As it was at the start. What is set later is for libraries, which ask the process itself. */
const env = new Proxy(
  { ...process.env },
  {
    set(own, name, value) {
      if (typeof name === 'string') process.env[name] = value;
      return Reflect.set(own, name, value);
    },
  },
);
// Electron starts the browser with the environment of this process, where our secrets must not be then.
for (const name of Object.keys(env))
  if (!(name in helperEnvironment(env))) delete process.env[name];
const stopping = new AbortController();
const windows = appWindows(makeWindow);

const loginStart: LoginStart =
  platform === 'linux'
    ? autostartEntry(autostartFile(env, homedir()), env['APPIMAGE'] ?? process.execPath)
    : {
        isOn: () => app.getLoginItemSettings().openAtLogin,
        set: (openAtLogin) => app.setLoginItemSettings({ openAtLogin }),
      };

// Whoever starts a second one wants to see the first.
if (!app.requestSingleInstanceLock()) app.exit(0);
app.enableSandbox();
protocol.registerSchemesAsPrivileged([
  {
    scheme: pageScheme,
    privileges: { standard: true, secure: true },
  },
]);
// The tray stays when the last window goes.
app.on('window-all-closed', () => {});
app.on('web-contents-created', (_event, contents) => sealContents(contents));
// Not awaited here: the program must be read to its end before it can be ready.
void app.whenReady().then(start);

function start(): void {
  app.dock?.hide();
  Menu.setApplicationMenu(platform === 'darwin' ? editingMenu() : null);
  protocol.handle(pageScheme, (request) => pageResponse(request, join(here, 'windows')));
  denyPermissions(session.defaultSession);

  const guard = clipboardGuard({
    clipboard,
    after(seconds, then) {
      const timer = setTimeout(then, seconds * 1_000);
      return () => clearTimeout(timer);
    },
  });
  const waits = signInWaits({
    now: () => Math.floor(Date.now() / 1_000),
    changed: () => live.touch(),
  });
  const door = openAccounts({
    platform,
    home: homedir(),
    env,
    pid: process.pid,
    parentPid: process.ppid,
    nodeVersion: process.versions.node,
    launcher: entryPoint({
      platform,
      packaged: app.isPackaged,
      resourcesPath: process.resourcesPath,
      env,
      // Electron is no Node; npm says which one started us.
      sources: sourcesLauncher(here, env['npm_node_execpath'] ?? 'node'),
    }),
    openBrowser,
  });
  const live = liveOverview({
    door,
    waits,
    startsAtLogin: () => loginStart.isOn(),
    changed,
    notify,
    sleep: async (ms, signal) => sleep(ms, undefined, { signal }).catch(() => undefined),
  });
  const all = answers({
    door,
    waits,
    overview: () => live.now(),
    openWindow: windows.open,
    openBrowser: async (page) => openBrowser(new URL(page)),
    copyPrivately: async (text) => guard.putPrivate(text),
  });
  const act = menuActs({
    answers: all,
    openWindow: windows.open,
    startAtLogin(on) {
      loginStart.set(on);
      live.touch();
    },
    quit: () => app.quit(),
  });
  const tray = new Tray(icon(trayFace(live.now()).icon));

  function changed(overview: Overview): void {
    const { icon: face, tooltip } = trayFace(overview);
    tray.setImage(icon(face));
    tray.setToolTip(tooltip);
    const items = menu(overview).map((item) => menuTemplate(item, act));
    tray.setContextMenu(Menu.buildFromTemplate(items));
    windows.tell(overview);
  }

  function notify({ name, title, body, opens }: Notice): void {
    if (!Notification.isSupported()) return;
    const notification = new Notification({ title, body });
    notification.on('click', () => {
      if (opens === 'key') windows.open('key', name);
      else act({ do: 'signIn', name });
    });
    notification.show();
  }

  ipcMain.handle(channels.ask, async (event, asked: unknown) => {
    const frame = event.senderFrame;
    if (!isOurPage(frame?.url, frame !== null && frame.parent === null))
      throw new Error('only the pages of this program are answered');
    return answered(asked, all);
  });
  nativeTheme.on('updated', () => live.touch());
  app.on('second-instance', () => windows.open('connections'));
  app.on('activate', () => windows.open('connections'));
  app.on('before-quit', (event) => {
    if (stopping.signal.aborted) return;
    event.preventDefault();
    stopping.abort();
    for (const { name } of waits.views()) waits.cancel(name);
    void guard.clearNow().finally(() => app.quit());
  });
  changed(live.now());
  void live.follow(stopping.signal);
  if (!process.argv.includes('--hidden')) windows.open('connections');
}

/** A window that is not shown yet, and may do nothing but what its page asks. */
function makeWindow(name: WindowName): BrowserWindow {
  return new BrowserWindow({
    ...windowLook(name, nativeTheme.shouldUseDarkColors),
    webPreferences: { ...sealed, preload: join(here, 'preload.cjs'), devTools: !app.isPackaged },
  });
}

/** Whether the system's browser took the page. */
async function openBrowser(page: URL): Promise<boolean> {
  if (!mayOpen(page.href)) return false;
  return shell.openExternal(page.href).then(
    () => true,
    () => false,
  );
}

function icon(face: Parameters<typeof iconFile>[0]) {
  const dark = nativeTheme.shouldUseDarkColorsForSystemIntegratedUI;
  return nativeImage.createFromPath(join(here, 'icons', iconFile(face, platform, dark)));
}

/** Copying and pasting with the keyboard comes from a menu there. */
function editingMenu(): Menu {
  return Menu.buildFromTemplate([
    { role: 'appMenu' },
    { role: 'editMenu' },
    { role: 'windowMenu' },
  ]);
}

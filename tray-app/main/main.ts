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
import { helperEnvironment, openAccounts, printable } from 'latchkey/accounts';
import { answer, answers, type Answers } from '#model/answers';
import { channels, type MenuFailure, type Overview } from '#model/contract';
import { menu, menuActions, menuTemplate, type MenuAction } from '#model/menu';
import { liveOverview } from '#model/overview';
import { openSignIns } from '#model/sign-ins';
import { iconFile, trayStatus, type Notice } from '#model/state';
import { isOurPage, pageScheme } from '#model/windows';
import {
  appWindows,
  denyPermissions,
  mayOpen,
  pageResponse,
  sealContents,
  windowOptions,
} from './app-windows.ts';
import { clipboardGuard } from './clipboard.ts';
import { proxyLauncher, sourcesLauncher } from './launcher.ts';
import { autostartEntry, autostartFile, type LoginStart } from './login-start.ts';

/** The folder of the bundle, which contains the pages and the icons. */
const here = import.meta.dirname;
const { platform } = process;
/** The environment at the start. Variables that are set later also go to `process.env`, where libraries read them. */
const env = new Proxy(
  { ...process.env },
  {
    set(own, name, value) {
      if (typeof name === 'string') process.env[name] = value;
      return Reflect.set(own, name, value);
    },
  },
);
// Electron starts the browser with the environment of this process, which must not contain our secrets.
for (const name of Object.keys(env))
  if (!(name in helperEnvironment(env))) delete process.env[name];
const stopping = new AbortController();
const windows = appWindows(
  (name) =>
    new BrowserWindow(
      windowOptions(name, {
        dark: nativeTheme.shouldUseDarkColors,
        preload: join(here, 'preload.cjs'),
        devTools: !app.isPackaged,
      }),
    ),
);

const loginStart: LoginStart =
  platform === 'linux'
    ? autostartEntry(autostartFile(env, homedir()), env['APPIMAGE'] ?? process.execPath)
    : {
        isOn: () => app.getLoginItemSettings().openAtLogin,
        set: (openAtLogin) => app.setLoginItemSettings({ openAtLogin }),
      };

// A second instance ends, and the first one shows its window.
if (!app.requestSingleInstanceLock()) app.exit(0);
app.enableSandbox();
protocol.registerSchemesAsPrivileged([
  {
    scheme: pageScheme,
    privileges: { standard: true, secure: true },
  },
]);
// The tray stays when the last window closes.
app.on('window-all-closed', () => {});
app.on('web-contents-created', (_event, contents) => sealContents(contents));
// Not awaited: Electron is ready only after this module has been evaluated.
void app.whenReady().then(start);

function start(): void {
  app.dock?.hide();
  Menu.setApplicationMenu(platform === 'darwin' ? editingMenu() : null);
  protocol.handle(pageScheme, (request) => pageResponse(request, join(here, 'pages')));
  denyPermissions(session.defaultSession);

  const guard = secretsGuard();
  const signIns = openSignIns({
    now: () => Math.floor(Date.now() / 1_000),
    changed: () => live.touch(),
    report,
  });
  const accounts = accountsOfUser();
  let menuFailure: MenuFailure | undefined;
  const live = liveOverview({
    accounts,
    signIns,
    startsAtLogin: () => loginStart.isOn(),
    menuFailure: () => menuFailure,
    changed,
    notify: (notice) => notify(notice, act),
    report,
    sleep: async (ms, signal) => sleep(ms, undefined, { signal }).catch(() => undefined),
  });
  const all = answers({
    accounts,
    signIns,
    overview: () => live.now(),
    openWindow: windows.open,
    openBrowser: async (page) => openBrowser(new URL(page)),
    // `openPath` resolves to the reason of a failure, or to an empty text.
    openFile: async (path) => (await shell.openPath(path)) === '',
    copySecret: async (text) => guard.copySecret(text),
  });
  const act = menuActions({
    answers: all,
    openWindow: windows.open,
    startAtLogin(on) {
      loginStart.set(on);
      live.touch();
    },
    quit: () => app.quit(),
    failed(failure) {
      if (menuFailure === failure) return;
      menuFailure = failure;
      live.touch();
    },
    report,
  });
  const tray = new Tray(icon(trayStatus(live.now()).icon));

  function changed(overview: Overview): void {
    const { icon: name, tooltip } = trayStatus(overview);
    tray.setImage(icon(name));
    tray.setToolTip(tooltip);
    const items = menu(overview).map((item) => menuTemplate(item, act));
    tray.setContextMenu(Menu.buildFromTemplate(items));
    windows.send(overview);
  }

  answerPages(all);
  nativeTheme.on('updated', () => live.touch());
  app.on('second-instance', () => windows.open('connections'));
  app.on('activate', () => windows.open('connections'));
  app.on('before-quit', (event) => {
    if (stopping.signal.aborted) return;
    event.preventDefault();
    stopping.abort();
    for (const { name } of signIns.views()) signIns.cancel(name);
    void guard.clearNow().finally(() => app.quit());
  });
  changed(live.now());
  void live.follow(stopping.signal);
  if (!process.argv.includes('--hidden')) windows.open('connections');
}

/** Removes copied secrets from the clipboard after a while. */
function secretsGuard() {
  return clipboardGuard({
    clipboard,
    after(seconds, then) {
      const timer = setTimeout(then, seconds * 1_000);
      return () => clearTimeout(timer);
    },
  });
}

function accountsOfUser() {
  return openAccounts({
    platform,
    home: homedir(),
    env,
    pid: process.pid,
    parentPid: process.ppid,
    nodeVersion: process.versions.node,
    launcher: proxyLauncher({
      platform,
      packaged: app.isPackaged,
      resourcesPath: process.resourcesPath,
      env,
      // Electron does not run as Node; npm names the Node that started it.
      sources: sourcesLauncher(here, env['npm_node_execpath'] ?? 'node'),
    }),
    openBrowser,
  });
}

function answerPages(all: Answers): void {
  ipcMain.handle(channels.ask, async (event, request: unknown) => {
    const frame = event.senderFrame;
    if (!isOurPage(frame?.url, frame !== null && frame.parent === null))
      throw new Error('only the pages of this program are answered');
    return answer(request, all, report);
  });
}

function notify({ name, title, body, opens }: Notice, act: (action: MenuAction) => void): void {
  if (!Notification.isSupported()) return;
  const notification = new Notification({ title, body });
  notification.on('click', () => {
    if (opens === 'key') windows.open('key', name);
    else act({ do: opens, name });
  });
  notification.show();
}

/** Resolves to whether the system's browser opened the page. */
async function openBrowser(page: URL): Promise<boolean> {
  if (!mayOpen(page.href)) return false;
  return shell.openExternal(page.href).then(
    () => true,
    () => false,
  );
}

/** Writes an unexpected error to the log of the app, in one line. */
function report(error: unknown): void {
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
  process.stderr.write(`latchkey: ${printable(text)}\n`);
}

function icon(name: Parameters<typeof iconFile>[0]) {
  const dark = nativeTheme.shouldUseDarkColorsForSystemIntegratedUI;
  return nativeImage.createFromPath(join(here, 'icons', iconFile(name, platform, dark)));
}

/** The shortcuts for copy and paste need a menu on macOS. */
function editingMenu(): Menu {
  return Menu.buildFromTemplate([
    { role: 'appMenu' },
    { role: 'editMenu' },
    { role: 'windowMenu' },
  ]);
}

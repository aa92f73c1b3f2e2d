import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
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
  type MenuItemConstructorOptions,
} from 'electron';
import { openAccounts, type AccountsHost } from 'latchkey/accounts';
import { answered } from '#answered';
import { answers } from '#answers';
import { clipboardGuard } from '#clipboard-guard';
import { channels, type Overview } from '#contract';
import { entryPoint } from '#entry-point';
import { iconFile } from '#icon-file';
import { liveOverview } from '#live-overview';
import { autostartEntry, type LoginStart } from '#login-start';
import { mayOpen } from '#may-open';
import { menu, type MenuAction, type MenuItem } from '#menu';
import type { Notice } from '#notice';
import {
  isOurPage,
  pageFile,
  pageHeaders,
  pageOrigin,
  pageUrl,
  windows,
  type WindowName,
} from '#page-files';
import { signInWaits } from '#sign-in-waits';
import { trayFace } from '#tray-face';

/** The bundle, with the pages and the icons beside it. */
const here = import.meta.dirname;
const { platform, env } = process;
const stopping = new AbortController();
const open = new Map<WindowName, BrowserWindow>();

const loginStart: LoginStart =
  platform === 'linux'
    ? autostartEntry(autostartFile(), env['APPIMAGE'] ?? process.execPath)
    : {
        isOn: () => app.getLoginItemSettings().openAtLogin,
        set: (openAtLogin) => app.setLoginItemSettings({ openAtLogin }),
      };

// Whoever starts a second one wants to see the first.
if (!app.requestSingleInstanceLock()) app.exit(0);
app.enableSandbox();
protocol.registerSchemesAsPrivileged([
  {
    scheme: new URL(pageOrigin).protocol.slice(0, -1),
    privileges: { standard: true, secure: true },
  },
]);
// The tray stays when the last window goes.
app.on('window-all-closed', () => {});
app.on('web-contents-created', (_event, contents) => {
  contents.setWindowOpenHandler(() => ({ action: 'deny' }));
  contents.on('will-navigate', (event) => event.preventDefault());
  contents.on('will-redirect', (event) => event.preventDefault());
  contents.on('will-attach-webview', (event) => event.preventDefault());
});
// Not awaited here: the program must be read to its end before it can be ready.
void app.whenReady().then(start);

function start(): void {
  app.dock?.hide();
  Menu.setApplicationMenu(platform === 'darwin' ? editingMenu() : null);
  servePages();
  denyPermissions();

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
    parentPid: process.ppid,
    node: process.versions.node,
    launcher: launcher(),
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
    openWindow,
    openBrowser: async (page) => openBrowser(new URL(page)),
    copyPrivately: async (text) => guard.putPrivate(text),
  });
  const tray = new Tray(icon(trayFace(live.now()).icon));

  function changed(overview: Overview): void {
    const { icon: face, tooltip } = trayFace(overview);
    tray.setImage(icon(face));
    tray.setToolTip(tooltip);
    tray.setContextMenu(Menu.buildFromTemplate(menu(overview).map(template)));
    for (const window of open.values()) window.webContents.send(channels.changed, overview);
  }

  function template(item: MenuItem): MenuItemConstructorOptions {
    if (item.kind === 'separator') return { type: 'separator' };
    const { label, enabled, checked, action, items } = item;
    return {
      label,
      enabled,
      ...(checked !== undefined && { type: 'checkbox', checked }),
      ...(action && { click: () => void act(action) }),
      ...(items && { submenu: items.map(template) }),
    };
  }

  async function act(action: MenuAction): Promise<void> {
    switch (action.do) {
      case 'open':
        return openWindow(action.window);
      case 'rotate':
        return openWindow('key', action.name);
      case 'startAtLogin':
        loginStart.set(action.on);
        return live.touch();
      case 'quit':
        return app.quit();
      case 'signIn':
      case 'cancelSignIn':
      case 'signOut':
      case 'reconnect':
      case 'openDashboard': {
        const outcome = await all[action.do]({ name: action.name });
        // A menu is closed by now; what went wrong stands in the window.
        if (!outcome.ok) openWindow('connections');
      }
    }
  }

  function notify({ name, title, body, opens }: Notice): void {
    if (!Notification.isSupported()) return;
    const notification = new Notification({ title, body });
    notification.on('click', () => {
      if (opens === 'key') openWindow('key', name);
      else void act({ do: 'signIn', name });
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
  app.on('second-instance', () => openWindow('connections'));
  app.on('activate', () => openWindow('connections'));
  app.on('before-quit', (event) => {
    if (stopping.signal.aborted) return;
    event.preventDefault();
    stopping.abort();
    for (const { name } of waits.views()) waits.cancel(name);
    void guard.clearNow().finally(() => app.quit());
  });
  changed(live.now());
  void live.follow(stopping.signal);
  if (!process.argv.includes('--hidden')) openWindow('connections');
}

/** One window each; the one of a key is about one connection at a time. */
function openWindow(name: WindowName, connection?: string): void {
  const url = pageUrl(name, connection);
  const known = open.get(name);
  if (known) {
    if (known.webContents.getURL() !== url) void known.loadURL(url);
    known.show();
    return known.focus();
  }
  const { title, width, height } = windows[name];
  const window = new BrowserWindow({
    title: `${title} · Latchkey`,
    width,
    height,
    minWidth: 420,
    minHeight: 360,
    show: false,
    fullscreenable: false,
    autoHideMenuBar: true,
    backgroundColor: nativeTheme.shouldUseDarkColors ? '#10161a' : '#f7fafa',
    webPreferences: {
      preload: join(here, 'preload.cjs'),
      contextIsolation: true,
      sandbox: true,
      nodeIntegration: false,
      webviewTag: false,
      navigateOnDragDrop: false,
      spellcheck: false,
      devTools: !app.isPackaged,
    },
  });
  open.set(name, window);
  window.once('ready-to-show', () => window.show());
  window.on('closed', () => open.delete(name));
  void window.loadURL(url);
}

function servePages(): void {
  protocol.handle(new URL(pageOrigin).protocol.slice(0, -1), ({ url, method }) => {
    const file = pageFile(url);
    const path = file && join(here, 'windows', file.name);
    if (!path || method !== 'GET' || !existsSync(path)) return new Response(null, { status: 404 });
    const headers = { ...pageHeaders, 'Content-Type': file.type };
    return new Response(new Uint8Array(readFileSync(path)), { headers });
  });
}

/** What assistants start: the executable that we carry, or the sources that this was built from. */
function launcher(): AccountsHost['launcher'] {
  const { resourcesPath } = process;
  return entryPoint({ packaged: app.isPackaged, resourcesPath, platform, env, sources: sources() });
}

/** The sources that this was built from, where it was built from any. */
function sources(): Extract<AccountsHost['launcher'], { script: string }> {
  const script = join('proxy', 'bin', 'latchkey.js');
  let folder = here;
  while (!existsSync(join(folder, script)) && folder !== dirname(folder)) folder = dirname(folder);
  // Electron is no Node; npm says which one started us.
  return { node: env['npm_node_execpath'] ?? 'node', script: join(folder, script) };
}

/** The pages need no camera, no place, no clipboard, no notification of their own. */
function denyPermissions(): void {
  const { defaultSession } = session;
  defaultSession.setPermissionRequestHandler((_contents, _permission, decide) => decide(false));
  defaultSession.setPermissionCheckHandler(() => false);
  defaultSession.setDevicePermissionHandler(() => false);
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

function autostartFile() {
  const folder = env['XDG_CONFIG_HOME'] || join(homedir(), '.config');
  const path = join(folder, 'autostart', 'latchkey.desktop');
  return {
    exists: () => existsSync(path),
    write(text: string) {
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(path, text);
    },
    remove: () => rmSync(path, { force: true }),
  };
}

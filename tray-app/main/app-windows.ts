/** The windows, and the restrictions of their pages: a page may only send requests of the contract. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { channels, type Overview } from '#model/contract';
import { pageFile, pageHeaders, pageUrl, windows, type WindowName } from '#model/windows';

/** As much of Electron's `BrowserWindow` as `appWindows` needs. A new window is not shown yet. */
export interface DesktopWindow {
  readonly webContents: {
    getURL(): string;
    send(channel: string, overview: Overview): void;
  };
  loadURL(url: string): Promise<void>;
  show(): void;
  focus(): void;
  once(event: 'ready-to-show', listener: () => void): unknown;
  on(event: 'closed', listener: () => void): unknown;
}

/** The open windows, at most one of each name. */
export function appWindows(make: (name: WindowName) => DesktopWindow) {
  const all = new Map<WindowName, DesktopWindow>();
  return {
    /** Shows the window. A window about a connection shows one connection at a time. */
    open: (name: WindowName, connection?: string): void => {
      const url = pageUrl(name, connection);
      const known = all.get(name);
      if (known) {
        if (known.webContents.getURL() !== url) void known.loadURL(url);
        known.show();
        return known.focus();
      }
      const window = make(name);
      all.set(name, window);
      window.once('ready-to-show', () => window.show());
      window.on('closed', () => all.delete(name));
      void window.loadURL(url);
    },
    /** Sends the overview to all open windows. */
    send: (overview: Overview): void => {
      for (const { webContents } of all.values()) webContents.send(channels.changed, overview);
    },
  };
}

/** The restrictions of every page. */
const sealed = {
  contextIsolation: true,
  sandbox: true,
  nodeIntegration: false,
  webviewTag: false,
  navigateOnDragDrop: false,
  spellcheck: false,
} as const;

/** The options of Electron's `BrowserWindow`. The window is shown once its page has content. */
export function windowOptions(
  name: WindowName,
  { dark, preload, devTools }: { dark: boolean; preload: string; devTools: boolean },
) {
  const { title, width, height } = windows[name];
  return {
    title: `${title} · Latchkey`,
    width,
    height,
    minWidth: 420,
    minHeight: 360,
    show: false,
    fullscreenable: false,
    autoHideMenuBar: true,
    backgroundColor: dark ? '#10161a' : '#f7fafa',
    webPreferences: { ...sealed, preload, devTools },
  };
}

/** The response to a request of a page: a file of `folder`, or 404. */
export function pageResponse({ url, method }: Request, folder: string): Response {
  const file = pageFile(url);
  const path = file && join(folder, file.name);
  if (!path || method !== 'GET' || !existsSync(path)) return new Response(null, { status: 404 });
  const headers = { ...pageHeaders, 'Content-Type': file.type };
  return new Response(new Uint8Array(readFileSync(path)), { headers });
}

type Prevented = (event: { preventDefault: () => void }) => void;

/** As much of Electron's `WebContents` as {@link sealContents} needs. */
interface Contents {
  setWindowOpenHandler(handler: () => { action: 'deny' }): void;
  on(event: 'will-navigate', listener: Prevented): unknown;
  on(event: 'will-redirect', listener: Prevented): unknown;
  on(event: 'will-attach-webview', listener: Prevented): unknown;
}

/** Keeps a page at its address, and prevents it from opening windows and embedding pages. */
export function sealContents(contents: Contents): void {
  const prevent: Prevented = (event) => event.preventDefault();
  contents.setWindowOpenHandler(() => ({ action: 'deny' }));
  contents.on('will-navigate', prevent);
  contents.on('will-redirect', prevent);
  contents.on('will-attach-webview', prevent);
}

/** As much of Electron's `Session` as {@link denyPermissions} needs. */
type Permissions = {
  setPermissionRequestHandler: (
    handler: (contents: unknown, permission: string, decide: (granted: boolean) => void) => void,
  ) => void;
  setPermissionCheckHandler: (handler: () => boolean) => void;
  setDevicePermissionHandler: (handler: () => boolean) => void;
};

/** Denies all permissions: the pages need no camera, location, clipboard or notifications. */
export function denyPermissions(session: Permissions): void {
  session.setPermissionRequestHandler((_contents, _permission, decide) => decide(false));
  session.setPermissionCheckHandler(() => false);
  session.setDevicePermissionHandler(() => false);
}

/** Whether the system may open an address: web pages only (http only on this computer), because other schemes start programs. */
export function mayOpen(address: string): boolean {
  const url = URL.parse(address);
  if (!url || url.username !== '' || url.password !== '') return false;
  if (url.protocol === 'https:') return true;
  const isLoopback = ['127.0.0.1', '[::1]', 'localhost'].includes(url.hostname);
  return url.protocol === 'http:' && isLoopback;
}

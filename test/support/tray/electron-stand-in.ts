/*
 * The part of Electron that main.ts needs, for machines without its binary: windows are pages of a Chromium
 * that the test drives, and tray, menus, notifications and clipboard are reported to the test. It runs inside the
 * real program; sandboxing, the real tray and the single instance are not covered.
 */
import { EventEmitter } from 'node:events';
import type { FromApp, RecordedItem, ToApp, WirePage } from './wire.ts';

type Handler = (
  event: { senderFrame: { url: string; parent: object | null } },
  payload: unknown,
) => unknown;

const tell = (message: FromApp) => void process.send?.(message);
const windows = new Map<number, BrowserWindow>();
const notifications = new Map<number, Notification>();
const handlers = new Map<string, Handler>();
const schemes = new Map<string, (request: Request) => Response | Promise<Response>>();
const clicks = new Map<number, () => void>();
let nextId = 1;
let copied = '';

class WebContents extends EventEmitter {
  openHandler: (details: { url: string }) => { action: string } = () => ({ action: 'allow' });
  readonly #window: number;
  #url = '';
  constructor(window: number) {
    super();
    this.#window = window;
  }
  setWindowOpenHandler(handler: (details: { url: string }) => { action: string }): void {
    this.openHandler = handler;
  }
  getURL(): string {
    return this.#url;
  }
  load(url: string): void {
    this.#url = url;
    tell({ tell: 'load', window: this.#window, url });
  }
  send(channel: string, payload: unknown): void {
    tell({ tell: 'send', window: this.#window, channel, payload });
  }
}

export class BrowserWindow extends EventEmitter {
  readonly id = nextId++;
  readonly webContents = new WebContents(this.id);
  constructor(options: unknown) {
    super();
    windows.set(this.id, this);
    tell({ tell: 'window', window: this.id, options });
    app.emit('web-contents-created', {}, this.webContents);
  }
  async loadURL(url: string): Promise<void> {
    this.webContents.load(url);
  }
  show(): void {
    tell({ tell: 'focus', window: this.id });
  }
  focus(): void {
    tell({ tell: 'focus', window: this.id });
  }
}

class App extends EventEmitter {
  readonly isPackaged = false;
  requestSingleInstanceLock = () => true;
  enableSandbox(): void {}
  whenReady = async () => new Promise<void>((resolve) => setImmediate(resolve));
  getLoginItemSettings = () => ({ openAtLogin: false });
  setLoginItemSettings(): void {}
  exit(code = 0): void {
    process.exit(code);
  }
  quit(): void {
    let waits = false;
    this.emit('before-quit', { preventDefault: () => (waits = true) });
    if (!waits) process.exit(0);
  }
}
export const app = new App();

export const clipboard = {
  writeText: async (text: string) => void (copied = text),
  readText: async () => copied,
  clear: () => void (copied = ''),
};

export const ipcMain = {
  handle: (channel: string, handler: Handler) => handlers.set(channel, handler),
};

export const protocol = {
  registerSchemesAsPrivileged() {},
  handle: (scheme: string, handler: (request: Request) => Response | Promise<Response>) =>
    schemes.set(scheme, handler),
};

export const nativeImage = { createFromPath: (path: string) => ({ path }) };
export const nativeTheme = Object.assign(new EventEmitter(), {
  shouldUseDarkColors: false,
  shouldUseDarkColorsForSystemIntegratedUI: false,
});

export class Notification extends EventEmitter {
  static isSupported = () => true;
  readonly #id = nextId++;
  readonly #words: { title: string; body: string };
  constructor(words: { title: string; body: string }) {
    super();
    this.#words = words;
    notifications.set(this.#id, this);
  }
  show(): void {
    tell({ tell: 'notification', notification: this.#id, ...this.#words });
  }
}

const granted: boolean[] = [];
export const session = {
  defaultSession: {
    setPermissionRequestHandler(
      handler: (contents: unknown, permission: string, decide: (yes: boolean) => void) => void,
    ) {
      handler({}, 'media', (yes) => granted.push(yes));
    },
    setPermissionCheckHandler: (handler: () => boolean) => granted.push(handler()),
    setDevicePermissionHandler(handler: () => boolean) {
      granted.push(handler());
      tell({ tell: 'permissions', granted });
    },
  },
};

export const shell = {
  async openExternal(url: string): Promise<void> {
    tell({ tell: 'external', url, environment: Object.keys(process.env) });
  },
  async openPath(path: string): Promise<string> {
    tell({ tell: 'external', url: path, environment: Object.keys(process.env) });
    return '';
  },
};

type Template = {
  label?: string;
  type?: string;
  enabled?: boolean;
  checked?: boolean;
  click?: () => void;
  submenu?: Template[];
};

export const Menu = {
  setApplicationMenu() {},
  buildFromTemplate: (items: Template[]): RecordedItem[] => items.map(recorded),
};

function recorded(template: Template): RecordedItem {
  const { label = '', type = 'normal', enabled = true, checked = false } = template;
  const item = nextId++;
  if (template.click) clicks.set(item, template.click);
  return { item, label, type, enabled, checked, items: (template.submenu ?? []).map(recorded) };
}

export class Tray {
  #icon: string;
  #tooltip = '';
  constructor({ path }: { path: string }) {
    this.#icon = path;
  }
  setImage({ path }: { path: string }): void {
    this.#icon = path;
  }
  setToolTip(tooltip: string): void {
    this.#tooltip = tooltip;
  }
  setContextMenu(menu: RecordedItem[]): void {
    tell({ tell: 'tray', icon: this.#icon, tooltip: this.#tooltip, menu });
  }
}

async function answer(call: number, work: () => unknown): Promise<void> {
  try {
    tell({ tell: 'answer', call, value: await work() });
  } catch (error) {
    tell({ tell: 'answer', call, error: String(error) });
  }
}

async function pageOf(url: string): Promise<WirePage> {
  const handler = schemes.get(new URL(url).protocol.slice(0, -1));
  if (!handler) return { status: 404, headers: [], body: '' };
  const response = await handler(new Request(url));
  return {
    status: response.status,
    headers: [...response.headers],
    body: await response.text(),
  };
}

function prevented(window: number, url: string): boolean {
  let stopped = false;
  const event = { url, preventDefault: () => (stopped = true) };
  windows.get(window)?.webContents.emit('will-navigate', event);
  return stopped;
}

process.on('message', (message: ToApp) => {
  switch (message.act) {
    case 'invoke': {
      const { call, channel, payload, url, mainFrame } = message;
      const senderFrame = { url, parent: mainFrame ? null : {} };
      const handler = handlers.get(channel);
      return void answer(call, () => handler?.({ senderFrame }, payload));
    }
    case 'fetch':
      return void answer(message.call, async () => pageOf(message.url));
    case 'mayNavigate':
      return void answer(message.call, () => !prevented(message.window, message.url));
    case 'mayOpen':
      return void answer(
        message.call,
        () =>
          windows.get(message.window)?.webContents.openHandler({ url: message.url }).action !==
          'deny',
      );
    case 'clipboard':
      return void answer(message.call, () => copied);
    case 'clickMenu':
      return clicks.get(message.item)?.();
    case 'clickNotification':
      return void notifications.get(message.notification)?.emit('click');
    case 'ready':
      return void windows.get(message.window)?.emit('ready-to-show');
    case 'closed': {
      windows.get(message.window)?.emit('closed');
      return void windows.delete(message.window);
    }
    case 'secondInstance':
      return void app.emit('second-instance');
    case 'quit':
      return app.quit();
    case 'scripted':
    case 'scriptedGoOn':
    case 'scriptedFailure':
    case 'killAt':
    case 'killNobody':
  }
});
// Electron's own loop would keep the process alive; here the channel to the test does, so the process exits with it.
process.on('disconnect', () => process.exit(0));

import { channels, type Overview } from '#contract';
import { pageUrl, type WindowName } from '#page-files';

/** A window of the desktop, as far as this needs it. It is not shown yet. */
export interface DesktopWindow {
  readonly webContents: {
    getURL(): string;
    send(channel: string, news: Overview): void;
  };
  loadURL(url: string): Promise<void>;
  show(): void;
  focus(): void;
  once(event: 'ready-to-show', listener: () => void): unknown;
  on(event: 'closed', listener: () => void): unknown;
}

/** The windows that are open: one of each name. */
export interface AppWindows {
  /** Shows it; the window of a key is about one connection at a time. */
  readonly open: (name: WindowName, connection?: string) => void;
  /** Tells all of them how things are now. */
  readonly tell: (overview: Overview) => void;
}

export function appWindows(make: (name: WindowName) => DesktopWindow): AppWindows {
  const all = new Map<WindowName, DesktopWindow>();
  return {
    open(name, connection) {
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
    tell(overview) {
      for (const { webContents } of all.values()) webContents.send(channels.changed, overview);
    },
  };
}

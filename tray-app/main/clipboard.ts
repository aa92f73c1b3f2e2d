/** As much of Electron's clipboard as the guard needs. */
export type Clipboard = {
  writeText: (text: string) => unknown;
  readText: () => Promise<string>;
  clear: () => unknown;
};

export type ClipboardGuardPorts = {
  clipboard: Clipboard;
  /** Calls `act` after so many seconds, unless the returned function is called before. */
  after: (seconds: number, act: () => void) => () => void;
};

/** How long a secret stays on the clipboard. */
const clearAfterSeconds = 60;

/** Copies a secret to the clipboard for a minute. Anything that the user copies in the meantime stays. */
export function clipboardGuard({ clipboard, after }: ClipboardGuardPorts) {
  let ours: string | undefined;
  let stop = () => {};
  const clear = async () => {
    const put = ours;
    ours = undefined;
    if (put !== undefined && (await clipboard.readText()) === put) await clipboard.clear();
  };
  return {
    async copySecret(text: string): Promise<void> {
      stop();
      ours = text;
      await clipboard.writeText(text);
      stop = after(clearAfterSeconds, () => void clear());
    },
    /** Call this before the app ends, because no timer would fire afterwards. */
    async clearNow(): Promise<void> {
      stop();
      await clear();
    },
  };
}

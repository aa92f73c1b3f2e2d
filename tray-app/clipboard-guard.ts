/** The machine's clipboard, as far as this needs it. */
export type Clipboard = {
  writeText: (text: string) => unknown;
  readText: () => Promise<string>;
  clear: () => unknown;
};

export type ClipboardGuardPorts = {
  clipboard: Clipboard;
  /** Calls back after so many seconds; the answer takes it back. */
  after: (seconds: number, act: () => void) => () => void;
};

/** How long something private may stay there. */
const keptSeconds = 60;

/** Puts what is private on the clipboard for a minute. What the person copied meanwhile stays. */
export function clipboardGuard({ clipboard, after }: ClipboardGuardPorts) {
  let ours: string | undefined;
  let stop = () => {};
  const clear = async () => {
    const put = ours;
    ours = undefined;
    if (put !== undefined && (await clipboard.readText()) === put) await clipboard.clear();
  };
  return {
    async putPrivate(text: string): Promise<void> {
      stop();
      ours = text;
      await clipboard.writeText(text);
      stop = after(keptSeconds, () => void clear());
    },
    /** Before the app ends: nobody would come back to do it. */
    async clearNow(): Promise<void> {
      stop();
      await clear();
    },
  };
}

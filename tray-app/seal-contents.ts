type Prevented = (event: { preventDefault: () => void }) => void;

/** What of a page's contents leads elsewhere. */
export interface Contents {
  setWindowOpenHandler(handler: () => { action: 'deny' }): void;
  on(event: 'will-navigate', listener: Prevented): unknown;
  on(event: 'will-redirect', listener: Prevented): unknown;
  on(event: 'will-attach-webview', listener: Prevented): unknown;
}

/** A page of ours stays where it is, and opens and embeds nothing. */
export function sealContents(contents: Contents): void {
  const prevent: Prevented = (event) => event.preventDefault();
  contents.setWindowOpenHandler(() => ({ action: 'deny' }));
  contents.on('will-navigate', prevent);
  contents.on('will-redirect', prevent);
  contents.on('will-attach-webview', prevent);
}

/** A page that waits for a person to sign in. */
export type SignInPage = {
  /** A new address that leads there, good for one browser. */
  link: () => URL;
  /** Whether the browser was opened with one; else somebody has to follow the address. */
  opened: boolean;
  /** Whether somebody signed in, once that is clear; it never rejects. */
  done: Promise<boolean>;
  /** Nobody will sign in with it. */
  giveUp: () => void;
};

/** What a person can do about a connection that nobody is signed in to. */
export interface SignInDoor {
  /** Requests wait for the person, however long that takes. */
  readonly waits: boolean;

  /** What to type instead: `latchkey login acme`. */
  readonly command: string;

  /** The page that waits now. */
  page(): SignInPage | undefined;

  /** Resolves when a page waits; at the latest when `signal` aborts. */
  shown(signal: AbortSignal): Promise<void>;

  /**
   * Begins a sign-in that somebody asked for, or joins the one under way. The browser is opened where
   * that is allowed, unless the page is `handed` to the assistant. `undefined` when no page came up, as
   * somebody is signed in already, or about to be, with another process.
   *
   * @throws what a sign-in rejects with before its page is there
   */
  begin(handed: boolean): Promise<SignInPage | undefined>;

  /** Whether somebody has signed in since it was found that nobody is; cheap. */
  signedIn(): Promise<boolean>;

  /** Somebody may have signed in with another process: whoever waits for the page goes on then. */
  lookAgain(): Promise<void>;
}

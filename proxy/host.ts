import type { Clock } from '#clock/clock';
import type { KeyringLibrary } from '#keychain/os-secret-store';
import type { HttpClient } from '#transport/http-client';

/** What starts this program, by absolute paths: Node and a script, or one executable. */
export type Launcher = { node: string; script: string } | { program: string };

/**
 * The computer, user and process that this program runs as. `main.ts` builds it from `process`, the tray app
 * from its own; functions take the part that they use.
 */
export type Host = {
  platform: NodeJS.Platform;
  /** The user's home directory. */
  home: string;
  /** The keychain adds the address of the session bus, which its library reads from here. */
  env: NodeJS.ProcessEnv;
  pid: number;
  parentPid: number;
  nodeVersion: string;
  clock: Clock;
  http: HttpClient;
  /** What an assistant has to start to get this very program. */
  launcher: Launcher;
  /** Loads the keychain's library from a folder of ours: a single executable has no packages. */
  keyring?: ((directory: string) => Promise<KeyringLibrary>) | undefined;
  /** Whether a browser was opened. */
  openBrowser: (url: URL) => Promise<boolean>;
  /** Writes one line of the log. */
  writeLog: (line: string) => void;
};

/** What it takes to find the files and folders of this user. */
export type UserHost = Pick<Host, 'platform' | 'home' | 'env'>;

/** The text of a file; `undefined` if there is no such file. Throws the platform's error if it cannot be read. */
export type ReadText = (path: string) => string | undefined;

/** What it takes to read the files of this user. */
export type FilesHost = UserHost & { readText: ReadText };

/** What it takes to open accounts and their secrets. */
export type AccountHost = Pick<Host, keyof UserHost | 'parentPid' | 'clock' | 'http' | 'keyring'>;

import type { Clock } from '#clock/clock';
import type { KeyringLibrary } from '#keychain/os-secret-store';
import type { HttpClient } from '#transport/http-client';

/** How to start this program, with absolute paths: Node and a script, or a single executable. */
export type Launcher = { node: string; script: string } | { program: string };

/**
 * The computer, user and process that this program runs as. `main.ts` builds it from `process`, and the tray app from its own.
 * Functions declare the parts that they use.
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
  /** How an assistant starts this program. */
  launcher: Launcher;
  /** How the person starts this program in a terminal: `latchkey`, unless npx runs it. */
  program: string;
  /** Loads the keychain's library from `directory`, because a single executable has no packages. */
  keyring?: ((directory: string) => Promise<KeyringLibrary>) | undefined;
  /** Returns whether a browser was opened. */
  openBrowser: (url: URL) => Promise<boolean>;
  writeLog: (line: string) => void;
};

/** The parts for finding the files and folders of this user. */
export type UserHost = Pick<Host, 'platform' | 'home' | 'env'>;

/** Returns the text of a file; `undefined` if there is no such file. Throws the platform's error if it cannot be read. */
export type ReadText = (path: string) => string | undefined;

/** The parts for reading the files of this user. */
export type FilesHost = UserHost & { readText: ReadText };

/** The parts for opening accounts and their secrets. */
export type AccountHost = Pick<Host, keyof UserHost | 'parentPid' | 'clock' | 'http' | 'keyring'>;

import type { Account, OAuthConnection } from '#accounts/account';
import type { Clock } from '#clock/clock';
import type { Connection } from '#config/connection';
import type { Options, OptionTexts } from '#config/options';
import type { HttpClient } from '#http/http-client';

/** The machine that a command runs on, and whoever sits at it. */
export interface Machine {
  readonly platform: NodeJS.Platform;
  readonly home: string;
  readonly env: NodeJS.ProcessEnv;
  readonly clock: Clock;
  readonly http: HttpClient;
  /** Aborts when somebody wants us gone. Asking for it takes over Ctrl-C. */
  readonly stop: () => AbortSignal;

  /** Writes a line to standard output. */
  say(line: string): void;

  /** Writes a line to standard error. */
  tell(line: string): void;

  /** What the person types, line by line. */
  lines(): AsyncIterable<string>;

  /** Whether a browser was opened. */
  openBrowser(url: URL): Promise<boolean>;

  /** `undefined` when there is no such file. */
  readText(path: string): string | undefined;

  /** @throws {UsageError} */
  options(given: OptionTexts): Options;

  /**
   * The connection that `target` means, which later errors are about.
   *
   * @throws {ConfigurationError}
   */
  connection(target: string, options: Options): Promise<Connection>;

  /** The same, not yet the one that the run is about: one of several. */
  readConnection(target: string, options: Options): Promise<Connection>;

  account(connection: OAuthConnection, options: Options): Promise<Account>;

  /** Carries MCP between standard input and output and `connection`, until the assistant hangs up. */
  bridge(connection: Connection, options: Options): Promise<void>;
}

import type { Account, OAuthConnection } from '#accounts/account';
import type { Clock } from '#clock/clock';
import type { Connection } from '#config/connection';
import type { GivenEntry } from '#config/read-connection';
import type { Launcher } from '#config/launch-entry';
import type { Options, OptionTexts } from '#config/options';
import type { ExaminePorts } from '#doctor/examine';
import type { Finding } from '#doctor/finding';
import type { HttpClient } from '#http/http-client';
import type { SecretStore } from '#keychain/secret-store';
import type { AcceptedToolStore } from '#tools/accepted-tools';

/** What a server said when it was asked. `nobody`: it wants no credential. */
export type Checked = {
  as: 'api_key' | 'client' | 'person' | 'nobody';
  issuer?: string;
  /** Whether the server published metadata of its own. */
  published?: boolean;
};

/** What an agent serves, and to whom. */
export type AgentPlan = {
  /** The server's URL, without a slash at its end. */
  base: string;
  configurationFile: string;
  keyFile?: string;
};

export type DoctorHears = Pick<ExaminePorts, 'progress' | 'found'>;
export type Examined = { findings: readonly Finding[]; bundle: () => Promise<Uint8Array> };

/** The machine that a command runs on, and whoever sits at it. */
export interface Machine {
  readonly platform: NodeJS.Platform;
  readonly home: string;
  readonly env: NodeJS.ProcessEnv;
  readonly clock: Clock;
  readonly http: HttpClient;
  /** What an assistant has to start to get this very program. */
  readonly launcher: Launcher;
  /** Whether somebody sits at a terminal who can answer. */
  readonly interactive: boolean;
  /** Aborts when somebody wants us gone. Asking for it takes over Ctrl-C. */
  readonly stop: () => AbortSignal;

  /** Writes a line to standard output. */
  say(line: string): void;

  /** Writes a line to standard error. */
  tell(line: string): void;

  /** What the person types, line by line. */
  lines(): AsyncIterable<string>;

  /** A secret that the person types unseen, or the first line of standard input. */
  secret(question: string): Promise<string>;

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
  readConnection(target: string, options: Options, given?: GivenEntry): Promise<Connection>;

  /** What was accepted of the tools of `connection`. */
  acceptedTools(connection: Connection, options: Options): Promise<AcceptedToolStore>;

  account(connection: OAuthConnection, options: Options): Promise<Account>;

  store(options: Options): Promise<SecretStore>;

  /** Forgets what the server at `url` has answered. */
  forgetKept(url: string, options: Options): Promise<void>;

  /** Does `work` while no other process of this machine does work of that name. */
  exclusively<T>(name: string, options: Options, work: () => Promise<T>): Promise<T>;

  /** Asks the server whether the connection is one, and whether its credential is good. */
  check(connection: Connection, options: Options): Promise<Checked>;

  /** Looks at everything that a connection needs, or at this machine alone, and says what it found. */
  doctor(target: string | undefined, options: Options, hears: DoctorHears): Promise<Examined>;

  /** Carries MCP between standard input and output and `connection`, until the assistant hangs up. */
  bridge(connection: Connection, options: Options): Promise<void>;

  /** Serves local MCP servers to the cloud, until somebody wants us gone. */
  agent(plan: AgentPlan, options: Options, how: { json: boolean }): Promise<void>;
}

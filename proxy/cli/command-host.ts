import { Connections } from '#connections/connections';
import type { ConnectionsHost } from '#connections/connections-host';
import type { Connection } from '#config/connection';
import type { Options, OptionTexts } from '#config/options';
import type { DoctorProgress, Examined } from '#status/doctor';
import type { AcceptedToolStore } from '#pipeline/accepted-tools';

/** Which server an agent connects to, and what it serves. */
export type AgentPlan = {
  /** The server's URL, without a slash at its end. */
  base: string;
  configurationFile: string;
  keyFile?: string;
};

/** The host that a command runs on, with its terminal. */
export interface CommandHost extends ConnectionsHost {
  /** Whether standard input and output are a terminal, so that a question can be answered. */
  readonly interactive: boolean;
  /** Aborts at SIGINT, SIGTERM and SIGHUP. Calling it takes over Ctrl-C. */
  readonly stop: () => AbortSignal;

  /** Writes one line to standard output, with nothing in it that acts on a terminal. */
  print(line: string): void;

  /** As `print`, for text with commands: `latchkey` becomes what this person types, such as `npx -y …`. */
  advise(line: string): void;

  /** As `advise`, to standard error. */
  warn(line: string): void;

  /** What the person types, line by line, until `over`: later lines answer another question. */
  lines(over?: AbortSignal): AsyncIterable<string>;

  /** A secret that the person types unseen, or the first line of standard input. */
  secret(question: string): Promise<string>;

  /** Whether a browser was opened. */
  openBrowser(url: URL): Promise<boolean>;

  /** @throws {UsageError} */
  options(given: OptionTexts): Options;

  /**
   * The connection that `target` means, which later errors are about.
   *
   * @throws {ConfigurationError}
   */
  connection(target: string, options: Options): Promise<Connection>;

  /** Sets the connection that later errors are about, where no file contains it. */
  about(connection: Connection): void;

  /** What was accepted of the tools of `connection`. */
  acceptedTools(connection: Connection, options: Options): Promise<AcceptedToolStore>;

  /** The names of the tools that an assistant sees through `connection`, asked of the server now. */
  listTools(connection: Connection, options: Options): Promise<string[]>;

  /** Checks everything that a connection needs, or without `target` this host, and reports findings. */
  doctor(target: string | undefined, options: Options, progress: DoctorProgress): Promise<Examined>;

  /** Carries MCP between standard input and output and `connection`, until the assistant hangs up. */
  bridge(connection: Connection, options: Options): Promise<void>;

  /** Serves local MCP servers to the cloud, until SIGINT or SIGTERM. */
  agent(plan: AgentPlan, options: Options, how: { json: boolean }): Promise<void>;
}

/** The connections that a command is about, with the options that were given to it. */
export function connectionsOf(host: CommandHost, given: OptionTexts): Connections {
  const options = host.options(given);
  const named = async (target: string) => host.connection(target, options);
  return new Connections({ host, options, given, named });
}

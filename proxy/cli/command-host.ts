import { Connections } from '#connections/connections';
import type { ConnectionsHost } from '#connections/connections-host';
import type { Connection } from '#config/connection';
import type { Options, OptionTexts } from '#config/options';
import type { DoctorProgress, Examined } from '#status/doctor';
import type { AcceptedToolStore } from '#pipeline/accepted-tools';

/** The server that an agent connects to, and the files that the agent reads. */
export type AgentPlan = {
  /** The server's URL, without a trailing slash. */
  base: string;
  configurationFile: string;
  keyFile?: string;
};

/** The host that a command runs on, with its terminal. */
export interface CommandHost extends ConnectionsHost {
  /** Whether standard input and output are a terminal, so that a question can be answered. */
  readonly interactive: boolean;
  /** Returns a signal that aborts at SIGINT, SIGTERM and SIGHUP. Calling `stop` takes over Ctrl-C. */
  readonly stop: () => AbortSignal;

  /** Writes one line to standard output, without characters that act on a terminal. */
  print(line: string): void;

  /** Like `print`, for text with commands: replaces `latchkey` with what this person types, such as `npx -y …`. */
  advise(line: string): void;

  /** Like `advise`, but to standard error. */
  warn(line: string): void;

  /** The lines that the person types, until `over` aborts. Later lines answer another question. */
  lines(over?: AbortSignal): AsyncIterable<string>;

  /** Reads a secret that the person types without echo, or the first line of standard input. */
  secret(question: string): Promise<string>;

  /** Resolves to whether a browser was opened. */
  openBrowser(url: URL): Promise<boolean>;

  /** @throws {UsageError} */
  options(given: OptionTexts): Options;

  /**
   * Finds the connection that `target` names. The messages of later errors are about that connection.
   *
   * @throws {ConfigurationError}
   */
  connection(target: string, options: Options): Promise<Connection>;

  /** Sets the connection that the messages of later errors are about, if no file contains it. */
  about(connection: Connection): void;

  /** Opens the store of the accepted tools of `connection`. */
  acceptedTools(connection: Connection, options: Options): Promise<AcceptedToolStore>;

  /** Asks the server for the names of the tools that an assistant sees through `connection`. */
  listTools(connection: Connection, options: Options): Promise<string[]>;

  /** Checks everything that a connection needs, or this host if there is no `target`, and reports findings. */
  doctor(target: string | undefined, options: Options, progress: DoctorProgress): Promise<Examined>;

  /** Carries MCP between standard input and output and `connection`, until the assistant disconnects. */
  bridge(connection: Connection, options: Options): Promise<void>;

  /** Offers local MCP servers to a Latchkey server, until SIGINT or SIGTERM. */
  agent(plan: AgentPlan, options: Options, how: { json: boolean }): Promise<void>;
}

/** Opens the connections for a command, with the options that were given to the command. */
export function connectionsOf(host: CommandHost, given: OptionTexts): Connections {
  const options = host.options(given);
  const named = async (target: string) => host.connection(target, options);
  return new Connections({ host, options, given, named });
}

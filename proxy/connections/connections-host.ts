import type { Account, OAuthConnection } from '#auth/account';
import type { TokenRecord } from '#auth/token-vault';
import type { Connection } from '#config/connection';
import type { Options } from '#config/options';
import { defaultStateDirectory } from '#config/user-files';
import type { GivenEntry } from '#config/read-connection';
import type { Host, ReadText } from '#host';
import type { SecretStore } from '#keychain/secret-store';
import type { ProxyRequest } from '#status/status-protocol';

/** How a server responded to a check of its connection. */
export type Checked = {
  /** The kind of credential that the server accepts; `null`: it requires none. */
  as: 'api_key' | 'client' | 'person' | null;
  issuer?: string;
  /** Whether the server publishes OAuth metadata. */
  published?: boolean;
  /** The client's token from the check. It is not stored yet if `options` select a store in memory. */
  token?: TokenRecord;
};

/** The host, with the connections, secrets and assistants of its user. */
export interface ConnectionsHost extends Host {
  readText: ReadText;

  /**
   * The connection that `target` means.
   *
   * @throws {ConfigurationError}
   */
  readConnection(target: string, options: Options, given?: GivenEntry): Promise<Connection>;

  account(connection: OAuthConnection, options: Options): Promise<Account>;

  store(options: Options): Promise<SecretStore>;

  /** Deletes the cached answers of the server at `url`, and its detected kind. */
  forgetCached(url: string, options: Options): Promise<void>;

  /** Runs `work` while no other process of this host runs work with that name. */
  exclusively<T>(name: string, options: Options, work: () => Promise<T>): Promise<T>;

  /** Checks whether the server can be reached and the credential is valid. */
  check(connection: Connection, options: Options, signal?: AbortSignal): Promise<Checked>;

  /** Sends a request to the running proxies of a connection, and returns how many have acted on it. */
  askProxies(request: ProxyRequest, connection: Connection, options: Options): Promise<number>;
}

/** The host with the options of an operation, which say where connections and secrets are. */
export type BoundHost = ReturnType<typeof bindHost>;

/** Binds a host to the options of an operation, so that its functions need not be passed them. */
export function bindHost(host: ConnectionsHost, options: Options) {
  return {
    ...host,
    /** The host itself, to bind it to other options. */
    unbound: host,
    options,
    stateDirectory: options.stateDir ?? defaultStateDirectory(host),
    readConnection: async (target: string, given?: GivenEntry) =>
      host.readConnection(target, options, given),
    /** The connection of that name in one file. */
    readFrom: async (config: string, name: string) =>
      host.readConnection(name, { ...options, config }),
    account: async (connection: OAuthConnection) => host.account(connection, options),
    store: async () => host.store(options),
    forgetCached: async (url: string) => host.forgetCached(url, options),
    exclusively: async <T>(name: string, work: () => Promise<T>) =>
      host.exclusively(name, options, work),
    check: async (connection: Connection, signal?: AbortSignal) =>
      host.check(connection, options, signal),
    askProxies: async (request: ProxyRequest, connection: Connection) =>
      host.askProxies(request, connection, options),
    /** Requests the running proxies of a connection to read the keychain again. It is not a failure if none can be reached. */
    notifyProxies: async (connection: Connection) =>
      host.askProxies('sign_in_done', connection, options).catch(() => 0),
  };
}

import type { Account, OAuthConnection } from '#auth/account';
import type { TokenRecord } from '#auth/token-vault';
import type { Connection } from '#config/connection';
import type { Options } from '#config/options';
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

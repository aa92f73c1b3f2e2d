import type { Connection } from '#config/connection';
import type { Options } from '#config/options';
import type { GivenEntry } from '#config/read-connection';
import type { Host } from '#host';
import type { SecretStore } from '#keychain/secret-store';
import type { ProxyRequest } from '#status/status-protocol';
import type { TokenRecord } from './token-vault.ts';
import type { Account, OAuthConnection } from './account.ts';

/** What a server said when it was asked. `nobody`: it wants no credential. */
export type Checked = {
  as: 'api_key' | 'client' | 'person' | 'nobody';
  issuer?: string;
  /** Whether the server published metadata of its own. */
  published?: boolean;
  /** What a client was given for it, which is not kept yet where `options` keep nothing. */
  token?: TokenRecord;
};

/** The host, with the connections, secrets and assistants of its user. */
export interface AccountsHost extends Host {
  /** `undefined` when there is no such file. */
  readText(path: string): string | undefined;

  /**
   * The connection that `target` means.
   *
   * @throws {ConfigurationError}
   */
  readConnection(target: string, options: Options, given?: GivenEntry): Promise<Connection>;

  account(connection: OAuthConnection, options: Options): Promise<Account>;

  store(options: Options): Promise<SecretStore>;

  /** Forgets what the server at `url` has answered, and which kind of server it is. */
  forgetCached(url: string, options: Options): Promise<void>;

  /** Does `work` while no other process of this machine does work of that name. */
  exclusively<T>(name: string, options: Options, work: () => Promise<T>): Promise<T>;

  /** Asks the server whether the connection is one, and whether its credential is good. */
  check(connection: Connection, options: Options, signal?: AbortSignal): Promise<Checked>;

  /** Asks the running proxies of a connection for something; how many have done it. */
  askProxies(request: ProxyRequest, connection: Connection, options: Options): Promise<number>;
}

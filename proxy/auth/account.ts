import type { Clock } from '#clock/clock';
import type { ClientCredentials, Connection, PersonCredentials } from '#config/connection';
import type { IdentityProvider } from '#config/identity-provider';
import type { NamedProvider } from '#config/provider-files';
import type { SecretStore } from '#keychain/secret-store';
import type { HttpClient } from '#transport/http-client';
import type { ConfiguredClientPorts } from './client-authentication.ts';
import type { Device } from './device.ts';
import type { RedirectListener, RedirectListenerOptions } from './redirect-listener.ts';
import type { RefreshLock } from './refresh-lock.ts';
import type { SignInMarks } from './sign-in-marks.ts';
import type { TokenVault } from './token-vault.ts';

export type OAuthConnection = Connection & { credentials: ClientCredentials | PersonCredentials };

/** Everything needed to fetch, store and delete the tokens of one connection. */
export type Account = {
  connection: OAuthConnection;
  http: HttpClient;
  clock: Clock;
  store: SecretStore;
  vault: TokenVault;
  lock: RefreshLock;
  /** Held while a person signs in. */
  signInLock: RefreshLock;
  marks: SignInMarks;
  /** Deletes the cached answers for this account, and the detected kind of server. */
  forgetCached: () => Promise<void>;
  readPrivateKey: ConfiguredClientPorts['readPrivateKey'];
  /** The company's identity provider, as named by the connection, the administrators of this computer, or the server. */
  provider: () => Promise<IdentityProvider | undefined>;
  /** Stores the provider that the server named when the person signed in; `undefined` if it named none. */
  learnProvider: (named: NamedProvider | undefined) => Promise<void>;
  /** The URLs of the servers that were chosen from `list`. Most of their connections share the list's sign-in. */
  sharedServers: (list: string) => Promise<readonly string[]>;
  /**
   * How this computer identifies itself to Latchkey servers; `undefined` if secrets are kept only in memory, because servers could not
   * recognize the computer later.
   */
  device: () => Promise<Device | undefined>;
  /** Reads the text that the connection's `assertion` refers to: `file:PATH` or `env:NAME`. */
  readAssertion: (reference: string) => Promise<string>;
  listen: (options: RedirectListenerOptions) => Promise<RedirectListener>;
};

/** Whether the connection uses OAuth. */
export function signsIn(connection: Connection): connection is OAuthConnection {
  return connection.credentials.kind !== 'api_key';
}

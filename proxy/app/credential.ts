import { signsIn } from '#auth/account';
import { signInService } from '#auth/sign-in-service';
import { accountTokens } from '#auth/account-tokens';
import type { TokenRecord } from '#auth/token-vault';
import { wakeWatch } from '#clock/clock';
import { inKeychain, type Connection } from '#config/connection';
import type { Options, SignInMode } from '#config/options';
import { loginCommand } from '#errors';
import type { AccountHost, Host } from '#host';
import { withMemoryFallback } from '#keychain/secret-store';
import type { Log } from '#log/log';
import type { PersonSignIn } from '#pipeline/sign-in-page';
import {
  bearerCredential,
  rereadCredential,
  staticCredential,
  withHeaders,
  type Credential,
} from '#transport/credential';
import { openAccount, openSecretStore } from './open-account.ts';

export type CredentialPorts = Pick<Host, keyof AccountHost | 'openBrowser'> & {
  stop: AbortSignal;
  /** What people call the assistant that started this process, once it has said so. */
  assistant?: () => string | undefined;
};

/** How a connection authenticates to its server. */
export type Identity = {
  credential: Credential;
  /** Tells one caller from another. It may be a key: only its hash is written. */
  account: string;
  /** Signs a person in if that is required. */
  signInService?: PersonSignIn;
  /** The stored access token, if the connection uses one. */
  token?: () => Promise<TokenRecord | undefined>;
};

/** How long after its start a proxy may open the browser unasked. Later it would be a surprise. */
const startSeconds = 60;
/** How long after the computer has woken up it may not. */
const wakingSeconds = 60;

/** The credential of a connection's requests, with its configured headers. */
export async function openCredential(
  configured: Connection,
  options: Options,
  ports: CredentialPorts,
  log: Log,
): Promise<Identity> {
  const connection = await withSecrets(configured, options, ports);
  const { headers } = connection;
  // A configured header of this kind is the credential. No other is fetched.
  if (headers && ('authorization' in headers || 'x-api-key' in headers))
    return { credential: staticCredential(headers), account: JSON.stringify(headers) };
  const own = hasStoredKey(configured)
    ? storedKey(configured, connection, options, ports)
    : await ownIdentity(connection, options, ports, log);
  if (!headers) return own;
  const account = JSON.stringify([own.account, headers]);
  return { ...own, credential: withHeaders(own.credential, headers), account };
}

/** The connection, with its secrets from the keychain if the configuration says that they are there. */
async function withSecrets(
  connection: Connection,
  options: Options,
  ports: CredentialPorts,
): Promise<Connection> {
  const { credentials, headers = {} } = connection;
  const key = credentials.kind === 'api_key' ? [credentials.apiKeySecret] : [];
  if (![...key, ...Object.values(headers)].includes(inKeychain)) return connection;
  const { withStoredSecrets } = await import('#connections/stored-secrets');
  return withStoredSecrets(connection, await openSecretStore(options, ports));
}

function hasStoredKey({ credentials }: Connection): boolean {
  return credentials.kind === 'api_key' && credentials.apiKeySecret === inKeychain;
}

/** A key in the keychain may be replaced there while we run. */
function storedKey(
  configured: Connection,
  connection: Connection,
  options: Options,
  ports: CredentialPorts,
): Identity {
  const keyOf = ({ credentials }: Connection) =>
    credentials.kind === 'api_key' ? credentials.apiKeySecret : '';
  const header = (key: string) => ({ 'x-api-key': key });
  const reread = async () => header(keyOf(await withSecrets(configured, options, ports)));
  const credential = rereadCredential(header(keyOf(connection)), reread);
  return { credential, account: keyOf(connection) };
}

/** Whether the credential that brings tokens is in the environment or the configuration, not in the keychain. */
function canFetchAgain({ credentials }: Connection): boolean {
  return credentials.kind === 'client_credentials' && credentials.clientSecret !== inKeychain;
}

async function ownIdentity(
  connection: Connection,
  options: Options,
  ports: CredentialPorts,
  log: Log,
): Promise<Identity> {
  const { credentials } = connection;
  if (credentials.kind === 'api_key') {
    const { apiKeySecret } = credentials;
    return { credential: staticCredential({ 'x-api-key': apiKeySecret }), account: apiKeySecret };
  }
  if (!signsIn(connection)) return { credential: staticCredential({}), account: '' };
  const account = await openAccount(connection, options, ports, async () => {
    const store = await openSecretStore(options, ports);
    if (options.secretStore !== 'os' || options.requiresKeychain || !canFetchAgain(connection))
      return store;
    return withMemoryFallback(store, ({ message: reason }) => {
      log.warn('no keychain is available; tokens are kept in memory until the proxy ends', {
        reason,
      });
    });
  });
  const asClient = connection.credentials.kind === 'client_credentials';
  const expected = () => asClient || account.marks.signedInBefore();
  const { signIn: mode } = options;
  const { openBrowser, assistant, stop: signal } = ports;
  const isTimely = timely(mode);
  const service = signInService(account, { mode, openBrowser, isTimely, assistant, signal });
  const tokens = accountTokens(account, { signInService: service, readAhead: expected(), log });
  return {
    credential: bearerCredential(tokens, expected),
    account: account.vault.account,
    token: async () => account.vault.access(),
    ...(!asClient && {
      signInService: { ...service, waits: mode === 'always', command: loginCommand(connection) },
    }),
  };
}

/** The browser opens unasked soon after the start, or at any time in the mode `always`; never right after a sleep. */
function timely(mode: SignInMode): () => boolean {
  const steady = () => performance.now();
  const watch = wakeWatch(() => Date.now(), steady);
  const startedAtMs = steady();
  return () => {
    if (watch.wokeWithin(wakingSeconds)) return false;
    return mode === 'always' || steady() - startedAtMs < startSeconds * 1_000;
  };
}

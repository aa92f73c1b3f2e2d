import { signsIn } from '#auth/account';
import { SignInService } from '#auth/sign-in-service';
import { accountTokens, loadGrants } from '#auth/account-tokens';
import { TokenError } from '#auth/errors';
import type { SignIn } from '#auth/token-source';
import type { TokenRecord } from '#auth/token-vault';
import { wakeWatch } from '#clock/clock';
import type { Connection } from '#config/connection';
import type { Options, SignInMode } from '#config/options';
import { isInKeychain } from '#config/secret';
import { asTyped } from '#config/typed-program';
import { sentSecrets, type SentSecrets } from '#connections/stored-secrets';
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

export type CredentialPorts = Pick<Host, keyof AccountHost | 'openBrowser' | 'program'> & {
  stop: AbortSignal;
  /** The display name of the assistant that started this process, once it is known. */
  assistant?: () => string | undefined;
  /** The message for the person if the server was withdrawn, in which case no sign-in can help; otherwise `undefined`. */
  withdrawn?: () => Promise<string | undefined>;
};

/** How a connection authenticates to its server. */
export type Identity = {
  credential: Credential;
  /** Distinguishes callers. It may be a key, so only its hash is stored. */
  account: string;
  /** How a person signs in, if that is required. */
  signInService?: PersonSignIn;
  /** Loads the code that later requests may need, because an upgrade may delete its files while the proxy runs. */
  load?: () => Promise<void>;
  /** The stored access token, if the connection uses one. */
  token?: () => Promise<TokenRecord | undefined>;
};

/** How long after its start a proxy may open the browser on its own. Later it would surprise the person. */
const startSeconds = 60;
/** For this long after the computer wakes up, the browser does not open on its own. */
const wakingSeconds = 60;

/** The credential of a connection's requests, with its configured headers. */
export async function openCredential(
  connection: Connection,
  options: Options,
  ports: CredentialPorts,
  log: Log,
): Promise<Identity> {
  const { headers, apiKeySecret } = await secretsOf(connection, options, ports);
  // A configured header with credentials replaces all other credentials.
  if (headers && ('authorization' in headers || 'x-api-key' in headers))
    return { credential: staticCredential(headers), account: JSON.stringify(headers) };
  const own =
    apiKeySecret === undefined
      ? await signedInIdentity(connection, options, ports, log)
      : keyIdentity(connection, apiKeySecret, options, ports);
  if (!headers) return own;
  const account = JSON.stringify([own.account, headers]);
  return { ...own, credential: withHeaders(own.credential, headers), account };
}

/** The key and headers of a connection. Secrets that the configuration only refers to are read from the keychain. */
export async function secretsOf(
  connection: Connection,
  options: Options,
  ports: CredentialPorts,
): Promise<SentSecrets> {
  const { credentials, headers } = connection;
  const entries = Object.entries(headers ?? {});
  const texts = entries.filter((entry): entry is [string, string] => typeof entry[1] === 'string');
  const key = credentials.kind === 'api_key' ? credentials.apiKeySecret : undefined;
  if (texts.length === entries.length && !isInKeychain(key))
    return {
      ...(headers && { headers: Object.fromEntries(texts) }),
      ...(key !== undefined && { apiKeySecret: key }),
    };
  return sentSecrets(connection, await openSecretStore(options, ports));
}

/** The identity of an API key. A refused key from the keychain is read again, because it may have been replaced meanwhile. */
function keyIdentity(
  connection: Connection,
  apiKeySecret: string,
  options: Options,
  ports: CredentialPorts,
): Identity {
  const { credentials } = connection;
  const header = (key = '') => ({ 'x-api-key': key });
  const isStored = credentials.kind === 'api_key' && isInKeychain(credentials.apiKeySecret);
  const reread = async () => header((await secretsOf(connection, options, ports)).apiKeySecret);
  return {
    credential: isStored
      ? rereadCredential(header(apiKeySecret), reread)
      : staticCredential(header(apiKeySecret)),
    account: apiKeySecret,
  };
}

/** Whether the credential that fetches tokens is in the environment or the configuration, not in the keychain. */
function canFetchAgain({ credentials }: Connection): boolean {
  return credentials.kind === 'client_credentials' && !isInKeychain(credentials.clientSecret);
}

async function signedInIdentity(
  connection: Connection,
  options: Options,
  ports: CredentialPorts,
  log: Log,
): Promise<Identity> {
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
  const command = asTyped(loginCommand(connection), ports.program);
  const signInOptions = { mode, command, openBrowser, isTimely, assistant, signal };
  const signInService = new SignInService(account, signInOptions);
  const signIn: SignIn = async (known, isAcceptable) => {
    const notice = await ports.withdrawn?.();
    if (notice !== undefined) throw new TokenError('withdrawn', notice);
    return signInService.signIn(known, isAcceptable);
  };
  const tokens = accountTokens(account, { signIn, readAhead: expected(), log });
  return {
    credential: bearerCredential(tokens, expected),
    account: account.vault.account,
    load: async () => loadGrants(account),
    token: async () => account.vault.access(),
    ...(!asClient && { signInService }),
  };
}

/** Whether the browser may open on its own: soon after the start, or always in the mode `always`; never right after waking up. */
function timely(mode: SignInMode): () => boolean {
  const steady = () => performance.now();
  const watch = wakeWatch(() => Date.now(), steady);
  const startedAtMs = steady();
  return () => {
    if (watch.wokeWithin(wakingSeconds)) return false;
    return mode === 'always' || steady() - startedAtMs < startSeconds * 1_000;
  };
}

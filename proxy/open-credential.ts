import { accountTokens } from '#auth/token-source';
import { signInService } from '#auth/sign-in-service';
import { signsIn } from '#auth/account';
import { wakeWatch } from '#clock/wake-watch';
import { inKeychain, type Connection } from '#config/connection';
import type { Options, SignInMode } from '#config/options';
import { loginCommand } from '#errors';
import type { SignInService } from '#pipeline/sign-in-page';
import type { Host } from '#host';
import { withMemoryFallback } from '#keychain/lazy-secret-store';
import type { Log } from '#log/log';
import type { TokenRecord } from '#auth/token-vault';
import {
  bearerCredential,
  rereadCredential,
  staticCredential,
  withHeaders,
  type Credential,
} from '#transport/credential';
import { openAccount, openSecretStore, type AccountHost } from './open-account.ts';

export type CredentialPorts = Pick<Host, keyof AccountHost | 'openBrowser'> & { stop: AbortSignal };

/** Who a connection is to its server. */
export type Identity = {
  credential: Credential;
  /** Tells one caller from another. It may be a key: only its hash is written. */
  account: string;
  /** How a person signs in, where that is what is missing. */
  signInService?: SignInService;
  /** The access token that is kept, where there is such a thing. */
  token?: () => Promise<TokenRecord | undefined>;
};

/** How long after its start a proxy may open the browser by itself: later nobody expects it. */
const startSeconds = 60;
/** The same after the machine has woken up. */
const wakingSeconds = 60;

/** How requests of a connection prove who is asking, its kept headers among them. */
export async function openCredential(
  configured: Connection,
  options: Options,
  ports: CredentialPorts,
  log: Log,
): Promise<Identity> {
  const connection = await filled(configured, options, ports);
  const { headers } = connection;
  // A header that somebody chose is the credential then; no other is fetched.
  if (headers && ('authorization' in headers || 'x-api-key' in headers))
    return { credential: staticCredential(headers), account: JSON.stringify(headers) };
  const own = isKept(configured)
    ? await keptKey(configured, connection, options, ports)
    : await ownIdentity(connection, options, ports, log);
  if (!headers) return own;
  const account = JSON.stringify([own.account, headers]);
  return { ...own, credential: withHeaders(own.credential, headers), account };
}

/** With its secrets from the keychain, where the configuration says that they are there. */
async function filled(
  connection: Connection,
  options: Options,
  ports: CredentialPorts,
): Promise<Connection> {
  const { credentials, headers = {} } = connection;
  const key = credentials.kind === 'api_key' ? [credentials.apiKeySecret] : [];
  if (![...key, ...Object.values(headers)].includes(inKeychain)) return connection;
  const { withStoredSecrets } = await import('#auth/stored-secrets');
  return withStoredSecrets(connection, await openSecretStore(options, ports));
}

function isKept({ credentials }: Connection): boolean {
  return credentials.kind === 'api_key' && credentials.apiKeySecret === inKeychain;
}

/** A key of the keychain may be replaced there while we run. */
async function keptKey(
  configured: Connection,
  connection: Connection,
  options: Options,
  ports: CredentialPorts,
): Promise<Identity> {
  const keyOf = ({ credentials }: Connection) =>
    credentials.kind === 'api_key' ? credentials.apiKeySecret : '';
  const header = (key: string) => ({ 'x-api-key': key });
  const reread = async () => header(keyOf(await filled(configured, options, ports)));
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
  const { openBrowser, stop: signal } = ports;
  const service = signInService(account, { mode, openBrowser, isTimely: timely(mode), signal });
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

/** By itself the browser opens soon after the start, or whenever that was asked for; never after a sleep. */
function timely(mode: SignInMode): () => boolean {
  const steady = () => performance.now();
  const watch = wakeWatch(() => Date.now(), steady);
  const startedAtMs = steady();
  return () => {
    if (watch.wokeWithin(wakingSeconds)) return false;
    return mode === 'always' || steady() - startedAtMs < startSeconds * 1_000;
  };
}

// The accounts service for other front ends of the proxy, such as the tray app: connections, files of assistants, and the
// doctor. Its errors have messages for a person. Published as `latchkey/accounts`.
import {
  AccountsError,
  type AccountsFront,
  type AccountsService,
} from '#connections/accounts-service';
import { Connections } from '#connections/connections';
import { OAuthError, TokenError } from '#auth/errors';
import { systemClock, wakeWatch } from '#clock/clock';
import { UsageError } from '#config/errors';
import { readOptions } from '#config/options';
import { fileWords, words } from '#errors';
import { SecretStoreError } from '#keychain/secret-store';
import { redact } from 'latchkey-mcp/safe-text';
import type { Finding } from '#status/checks';
import { httpClient } from '#transport/http-client';
import { openHost } from './open-host.ts';

export type * from '#connections/accounts-service';
export type * from '#status/checks';
export type * from '#status/running-proxy';
export { AccountsError } from '#connections/accounts-service';
export type { Launcher } from '#host';
export { printable } from 'latchkey-mcp/safe-text';
export { helperEnvironment } from '#config/options';
export { packagedLauncher } from '#config/launch-entry';

/**
 * Opens the accounts service for another front end. It reads nothing before an operation is called. Only a `watch` keeps
 * anything open: the sockets of running proxies.
 *
 * @throws {AccountsError} if the options are invalid
 */
export function openAccounts(frontHost: AccountsFront): AccountsService {
  const { env, options: given = {}, ...front } = frontHost;
  const options = guardedNow(() => readOptions(given, env));
  const clientKeyPassphraseSecret = env['LATCHKEY_CLIENT_KEY_PASSPHRASE'] ?? '';
  const network = { ...options, env, clientKeyPassphraseSecret };
  const stop = new AbortController().signal;
  const watch = wakeWatch(
    () => Date.now(),
    () => performance.now(),
  );
  const host = openHost(
    {
      async openBrowser(url) {
        const browser = await import('#auth/open-browser');
        return browser.openBrowser(url, frontHost);
      },
      ...front,
      env,
      clock: systemClock(),
      http: httpClient(
        () => network,
        () => watch.wokeWithin(1),
      ),
      writeLog: () => undefined,
      program: 'latchkey',
    },
    () => stop,
  );
  const connections = new Connections({ host, options, given, excuse });
  return {
    ...accountsOf(connections),
    doctor: guarded(async (name?: string, found: (finding: Finding) => void = () => undefined) => {
      const { openDoctor } = await import('./checks.ts');
      const ports = { ...host, progress: () => undefined, found, stop };
      return (await openDoctor(name, options, network, ports)).findings;
    }),
  };
}

/** The message for a keychain that cannot be used; `undefined` for any other error. */
export function excuse(error: unknown): string | undefined {
  if (!(error instanceof SecretStoreError)) return undefined;
  const { message, hint } = words(error);
  return `${message}; ${hint}`;
}

/** The operations on `connections`, with inputs and results for another front end. */
export function accountsOf(connections: Connections): Omit<AccountsService, 'doctor'> {
  const rotate = (kind: 'api_key' | 'client_secret'): AccountsService['rotateKey'] =>
    guarded(async (name, next, until) => {
      if ((await connections.rotatableSecret(name)) !== kind)
        throw new UsageError(
          `${name} has ${kind === 'api_key' ? 'no API key' : 'an API key, and no client secret'}`,
          'check how it authenticates',
        );
      const { secret } = await connections.rotate(name, next, until);
      const { onTrial = false, dashboardUrl = '' } = secret ?? {};
      return { name, onTrial, dashboardUrl };
    });
  return {
    listConnections: guarded(async () => connections.list()),
    watch: guardedChanges((signal: AbortSignal) => connections.watch(signal)),
    probe: guarded(async (url, until) => connections.probe(url, until)),
    readPasted: guarded(async (text) => connections.readPasted(text)),
    add: guarded(async (input, until) => {
      const how = { replace: input.replace ?? false, check: true, ...until };
      const checked = await connections.add(await connections.describe(input), how);
      return { name: input.name, url: input.url, checked: checked?.as ?? null };
    }),
    remove: guarded(async (name) => {
      const { startedBy, ...removed } = await connections.remove(name);
      return { ...signedOut(removed), startedBy };
    }),
    rename: guarded(async (from, to) => {
      const { url, launches } = await connections.rename(from, to);
      return { url, assistants: launches };
    }),
    signIn: guarded(async (name, how) => connections.signIn(name, how)),
    signOut: guarded(async (name) => signedOut(await connections.signOut(name))),
    signInCompany: guarded(async (name, how) => {
      const { refused, ...signedIn } = await connections.signInCompany(name, how);
      const redacted = refused.map((one) => ({ name: one.name, problem: redact(one.problem) }));
      return { ...signedIn, refused: redacted };
    }),
    myServers: guarded(async () => {
      const { serverListViews } = await import('#connections/server-list-views');
      return serverListViews(connections, problemOf);
    }),
    setUp: guarded(async (url, how) => {
      const { setUpServers } = await import('#connections/set-up-servers');
      return setUpServers(url, how, connections);
    }),
    devices: guarded(async () => {
      const { deviceListViews } = await import('#connections/server-list-views');
      return deviceListViews(connections, problemOf);
    }),
    signOutDevice: guarded(async (list, id) => connections.signOutDevice(list, id)),
    signOutCompany: guarded(async (name) => connections.signOutCompany(name)),
    reconnect: guarded(async (name) => connections.reconnect(name)),
    rotateKey: rotate('api_key'),
    rotateSecret: rotate('client_secret'),
    undoRotation: guarded(async (name) => connections.undoRotation(name)),
    claimNotice: guarded(async (name) => connections.claimNotice(name)),
    assistants: guarded(async () => connections.assistants()),
    install: guarded(async (assistant, name, how) => connections.install(assistant, name, how)),
    uninstall: guarded(async (assistant, name) => connections.uninstall(assistant, name)),
    importable: guarded(async (assistant) => connections.importable(assistant)),
    import: guarded(async (file, entry) => connections.importEntry(file, entry)),
  };
}

/** Why a list cannot be read, as a message for people; `undefined` for errors that are not about its server or the sign-in. */
function problemOf(error: unknown): string | undefined {
  if (!(error instanceof OAuthError || error instanceof TokenError)) return undefined;
  return redact(words(error).message);
}

function signedOut({
  wasSignedIn,
  notRevoked,
  provider,
}: Awaited<ReturnType<Connections['signOut']>>) {
  return {
    wasSignedIn,
    ...(notRevoked && { notRevoked: redact(notRevoked.message) }),
    ...(provider !== undefined && { provider }),
  };
}

/** Wraps an operation so that each expected failure becomes an `AccountsError` with a message and a hint. Bugs pass unchanged. */
function guarded<Input extends unknown[], Output>(
  work: (...input: Input) => Promise<Output>,
): (...input: Input) => Promise<Output> {
  return async (...input) => {
    try {
      return await work(...input);
    } catch (error) {
      throw inWords(error);
    }
  };
}

function guardedNow<Output>(work: () => Output): Output {
  try {
    return work();
  } catch (error) {
    throw inWords(error);
  }
}

function guardedChanges<Input extends unknown[], Output>(
  changes: (...input: Input) => AsyncIterable<Output>,
): (...input: Input) => AsyncGenerator<Output, void> {
  return async function* guardedViews(...input) {
    try {
      yield* changes(...input);
    } catch (error) {
      throw inWords(error);
    }
  };
}

function inWords(error: unknown): AccountsError {
  if (error instanceof AccountsError) return error;
  const code = error instanceof Error && 'code' in error ? String(error.code) : 'usage';
  const known = fileWords(error);
  if (known) return new AccountsError(code, known.message, known.hint);
  const { message, hint } = words(error);
  return new AccountsError(code, redact(message), hint, { cause: error });
}

// The accounts service for other front ends of the proxy, such as the tray app: connections and their sign-ins, the
// files of assistants, and the doctor. Published as `latchkey/accounts`. Each operation loads what it needs.
import { join, resolve } from 'node:path';
import { signsIn } from '#auth/account';
import {
  AccountsError,
  type AccountsFront,
  type AccountsService,
  type ConnectionView,
  type Until,
} from '#connections/accounts-service';
import { fileMarks } from '#auth/sign-in-marks';
import { systemClock, wakeWatch } from '#clock/clock';
import { assistantFiles } from '#config/assistants';
import type { Connection } from '#config/connection';
import { UsageError } from '#config/errors';
import { readOptions, type Options, type OptionTexts } from '#config/options';
import { defaultStateDirectory, userFiles } from '#config/user-files';
import { words } from '#errors';
import type { ConnectionsHost } from '#connections/connections-host';
import { SecretStoreError } from '#keychain/secret-store';
import { redact } from '#log/log';
import type { Finding } from '#status/checks';
import { httpClient } from '#transport/http-client';

export type * from '#connections/accounts-service';
export type * from '#status/checks';
export type * from '#status/running-proxy';
export { AccountsError } from '#connections/accounts-service';
import { openHost } from './open-host.ts';
export type { Launcher } from '#host';
export { printable } from '#log/log';
export { helperEnvironment } from '#config/options';
export { packagedLauncher } from '#config/launch-entry';

/**
 * Opens the accounts service for another front end of this program. It reads nothing before an operation is called,
 * and holds only the sockets of running proxies, as long as a `watch` goes on.
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
    },
    () => stop,
  );
  const connections = openConnections({ host, options });
  const assistants = openAssistants({ host, options, given });
  return {
    listConnections: guarded(connections.listConnections),
    watch: guardedChanges(connections.watch),
    probe: guarded(connections.probe),
    readPasted: guarded(connections.readPasted),
    add: guarded(connections.add),
    remove: guarded(connections.remove),
    signIn: guarded(connections.signIn),
    signOut: guarded(connections.signOut),
    reconnect: guarded(connections.reconnect),
    rotateKey: guarded(connections.rotateKey),
    rotateSecret: guarded(connections.rotateSecret),
    undoRotation: guarded(connections.undoRotation),
    reminders: guarded(connections.reminders),
    claimNotice: guarded(connections.claimNotice),
    assistants: guarded(assistants.assistants),
    install: guarded(assistants.install),
    uninstall: guarded(assistants.uninstall),
    importable: guarded(assistants.importable),
    import: guarded(assistants.import),
    doctor: guarded(async (name?: string, found: (finding: Finding) => void = () => undefined) => {
      const { openDoctor } = await import('./checks.ts');
      const ports = { ...host, progress: () => undefined, found, stop };
      return (await openDoctor(name, options, network, ports)).findings;
    }),
  };
}

type AssistantOperation = 'assistants' | 'install' | 'uninstall' | 'importable' | 'import';

/** The operations on connections. */
export function openConnections({
  host,
  options,
}: {
  host: ConnectionsHost;
  options: Options;
}): Omit<AccountsService, AssistantOperation | 'doctor'> {
  const { platform } = host;
  const { config: _, ...ownOptions } = options;
  const state = options.stateDir ?? defaultStateDirectory(host);
  const never = new AbortController().signal;

  const named = async (name: string) => host.readConnection(name, options);
  const startedBy = async (name: string) => {
    const { startingAssistants } = await import('#connections/assistant-views');
    return startingAssistants(name, host);
  };
  const excuse = (error: unknown) => {
    if (!(error instanceof SecretStoreError)) return undefined;
    const { message, hint } = words(error);
    return `${message}; ${hint}`;
  };
  const viewPorts = { host, options, startedBy, excuse };

  async function list(): Promise<ConnectionView[]> {
    const [{ connectionViews }, { watchOwnProxies }] = await Promise.all([
      import('#connections/connection-views'),
      import('#status/watch-proxies'),
    ]);
    const watch = await watchOwnProxies(state, platform);
    try {
      await watch.ready();
      return await connectionViews(watch.proxies(), viewPorts);
    } finally {
      watch.close();
    }
  }

  async function* watchAll(signal: AbortSignal): AsyncGenerator<ConnectionView[], void> {
    const [{ connectionViews, connectionChanges }, { watchOwnProxies }] = await Promise.all([
      import('#connections/connection-views'),
      import('#status/watch-proxies'),
    ]);
    const { cleanUpSecrets } = await import('#connections/orphaned-secrets');
    await cleanUpSecrets(ownOptions, host).catch((error: unknown) => {
      // The view of each connection reports this. The next watch cleans up.
      if (excuse(error) === undefined) throw error;
    });
    const watch = await watchOwnProxies(state, platform);
    try {
      await watch.ready();
      const files = new Set([...userFiles(host), ...assistantFiles(host)]);
      const paths = [...files, join(state, 'sign-ins'), join(state, 'keys')];
      const view = async () => connectionViews(watch.proxies(), viewPorts);
      const news = async (until: AbortSignal) => watch.next(until);
      yield* connectionChanges({ view, news, paths, clock: host.clock }, signal);
    } finally {
      watch.close();
    }
  }

  /** Running proxies read the keychain again. It is not a failure if none can be reached. */
  async function notifyProxies(connection: Connection): Promise<void> {
    await host.askProxies('sign_in_done', connection, options).catch(() => 0);
  }

  async function rotate(name: string, secret: string, kind: 'key' | 'secret', until?: Until) {
    const connection = await named(name);
    if ((connection.credentials.kind === 'api_key') !== (kind === 'key'))
      throw new UsageError(
        `${name} has ${kind === 'key' ? 'no API key' : 'an API key, and no client secret'}`,
        'check how it authenticates',
      );
    const { rotateSecret, secretView } = await import('#connections/rotate-secret');
    await rotateSecret(connection, secret, options, host, until?.signal);
    await notifyProxies(connection);
    const view = await secretView(connection, options, host);
    return { name, onTrial: view?.onTrial ?? false, dashboardUrl: view?.dashboardUrl ?? '' };
  }

  return {
    listConnections: list,
    watch: watchAll,
    async probe(url, until) {
      const [{ probeServer, suggestedName }, { connectionNames }] = await Promise.all([
        import('#connections/new-connection'),
        import('#config/find-entry'),
      ]);
      const taken = await connectionNames(userFiles(host), (path) => host.readText(path));
      return probeServer(url, suggestedName(url, taken), options, host, until?.signal);
    },
    async readPasted(text) {
      const { readPasted } = await import('#connections/new-connection');
      return readPasted(text);
    },
    async add(input, until) {
      const [{ addConnection }, { describedConnection }] = await Promise.all([
        import('#connections/registry'),
        import('#connections/new-connection'),
      ]);
      const { connection, secrets } = describedConnection(input, host);
      const signal = until?.signal;
      const how = { replace: input.replace ?? false, check: true, ...(signal && { signal }) };
      const checked = await addConnection(connection, secrets, how, ownOptions, host);
      return { name: input.name, url: input.url, checked: checked?.as ?? null };
    },
    async remove(name) {
      const { removeConnection } = await import('#connections/registry');
      const { wasSignedIn, notRevoked } = await removeConnection(name, ownOptions, host);
      return { wasSignedIn, ...(notRevoked && { notRevoked: redact(notRevoked.message) }) };
    },
    async signIn(name, { signal = never, progress = () => undefined }) {
      const { signInConnection } = await import('#auth/sign-in');
      const connection = await named(name);
      if (!signsIn(connection)) throw hasKey(name);
      const account = await host.account(connection, options);
      const signedIn = await signInConnection(account, { ...host, progress, signal });
      await notifyProxies(connection);
      return signedIn;
    },
    async signOut(name) {
      const { signOutConnection } = await import('#auth/sign-out');
      const connection = await named(name);
      if (!signsIn(connection)) throw hasKey(name);
      const account = await host.account(connection, options);
      const { wasSignedIn, notRevoked } = await signOutConnection(account);
      return { wasSignedIn, ...(notRevoked && { notRevoked: redact(notRevoked.message) }) };
    },
    reconnect: async (name) => host.askProxies('reconnect', await named(name), options),
    rotateKey: async (name, secret, until) => rotate(name, secret, 'key', until),
    rotateSecret: async (name, secret, until) => rotate(name, secret, 'secret', until),
    async undoRotation(name) {
      const { undoRotation } = await import('#connections/secret-trial');
      const connection = await named(name);
      const undone = await undoRotation(connection, options, host);
      if (undone) await notifyProxies(connection);
      return undone;
    },
    async reminders() {
      const { remindersOf } = await import('#connections/rotate-secret');
      return remindersOf(await list(), host.clock.now());
    },
    async claimNotice(name) {
      const { url, account } = await named(name);
      const target = account === undefined ? url : `${url} ${account}`;
      return fileMarks(join(state, 'sign-ins'), target, host.clock).claimNotice();
    },
  };
}

function hasKey(name: string): UsageError {
  return new UsageError(
    `${name} uses an API key, so there is nothing to sign in to`,
    'revoke the key in the dashboard, under Servers',
  );
}

/** The operations on the configuration files of assistants. */
export function openAssistants({
  host,
  options,
  given,
}: {
  host: ConnectionsHost;
  options: Options;
  /** The options as they were given, which an assistant has to pass on. */
  given: OptionTexts;
}): Pick<AccountsService, AssistantOperation> {
  const { config: _, ...ownOptions } = options;
  return {
    async assistants() {
      const { assistantViews } = await import('#connections/assistant-views');
      return assistantViews(host);
    },
    async install(assistant, name, how) {
      const [{ checkRegistered, installLaunch }, { assistantFile }, { launchEnvironment }] =
        await Promise.all([
          import('#connections/install'),
          import('#config/assistants'),
          import('#config/launch-entry'),
        ]);
      await checkRegistered(name, ownOptions, host);
      const target = assistantFile(assistant, undefined, host);
      const launchEnv = launchEnvironment(ownOptions, given, host);
      const installed = await installLaunch(name, target, {
        options: ownOptions,
        env: launchEnv,
        host,
        replace: how?.replace ?? false,
      });
      return { ...installed, ...(target.note !== undefined && { note: target.note }) };
    },
    async uninstall(assistant, name) {
      const [{ uninstallLaunch }, { assistantFile }] = await Promise.all([
        import('#connections/install'),
        import('#config/assistants'),
      ]);
      const target = assistantFile(assistant, undefined, host);
      const done = await uninstallLaunch(name, target, ownOptions, host);
      return { file: target.file, ...done };
    },
    async importable(assistant) {
      const { importableEntries } = await import('#connections/import-plan');
      return importableEntries(assistant, ownOptions, host);
    },
    async import(file, entry) {
      const { importEntry } = await import('#connections/import-file');
      return importEntry(resolve(file), entry, ownOptions, given, host);
    },
  };
}

/** The same operation, whose failures are `AccountsError`s with a message and a hint. Bugs are thrown as they are. */
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
  // The system's own error about a file names the file, and none of its contents.
  if (error instanceof Error && 'syscall' in error && 'path' in error)
    return new AccountsError(code, error.message, 'check the permissions of the file');
  const { message, hint } = words(error);
  return new AccountsError(code, redact(message), hint, { cause: error });
}

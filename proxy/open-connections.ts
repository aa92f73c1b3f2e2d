import { join } from 'node:path';
import type { AccountsService, ConnectionView, Until } from '#auth/accounts-service';
import { fileMarks } from '#auth/sign-in-marks';
import type { AccountsHost } from '#auth/accounts-host';
import { signsIn } from '#auth/account';
import type { Connection } from '#config/connection';
import { defaultStateDirectory, userFiles } from '#config/user-files';
import type { Options } from '#config/options';
import { UsageError } from '#config/errors';
import { words } from '#errors';
import { SecretStoreError } from '#keychain/secret-store';
import { redact } from '#log/redact';

export type ConnectionPorts = {
  host: AccountsHost;
  options: Options;
};

export type ConnectionPart = Omit<
  AccountsService,
  'assistants' | 'install' | 'uninstall' | 'importable' | 'import' | 'doctor'
>;

/** The part of the accounts service that is about connections. It loads what it needs when it is called. */
export function openConnections({ host, options }: ConnectionPorts): ConnectionPart {
  const { platform } = host;
  const { config: _, ...ownOptions } = options;
  const state = options.stateDir ?? defaultStateDirectory(host);
  const never = new AbortController().signal;

  const named = async (name: string) => host.readConnection(name, options);
  const startedBy = async (name: string) => {
    const { startingAssistants } = await import('#config/assistant-views');
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
      import('#auth/connection-views'),
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
      import('#auth/connection-views'),
      import('#status/watch-proxies'),
    ]);
    const { cleanUpSecrets } = await import('#auth/orphaned-secrets');
    await cleanUpSecrets(ownOptions, host).catch((error: unknown) => {
      // The views say so of each connection; what is loose stays so until the next time.
      if (excuse(error) === undefined) throw error;
    });
    const watch = await watchOwnProxies(state, platform);
    try {
      await watch.ready();
      const places = [...userFiles(host), join(state, 'sign-ins'), join(state, 'keys')];
      const view = async () => connectionViews(watch.proxies(), viewPorts);
      const news = async (until: AbortSignal) => watch.next(until);
      yield* connectionChanges({ view, news, places, clock: host.clock }, signal);
    } finally {
      watch.close();
    }
  }

  /** Running proxies take what is new in the keychain. That none can be asked is no failure. */
  async function tell(connection: Connection): Promise<void> {
    await host.askProxies('sign_in_done', connection, options).catch(() => 0);
  }

  async function rotate(name: string, secret: string, kind: 'key' | 'secret', until?: Until) {
    const connection = await named(name);
    if ((connection.credentials.kind === 'api_key') !== (kind === 'key'))
      throw new UsageError(
        `${name} has ${kind === 'key' ? 'no API key' : 'an API key, and no client secret'}`,
        'look at how it is signed in to',
      );
    const [{ rotateSecret }, { secretView }] = await Promise.all([
      import('#auth/rotate-secret'),
      import('#auth/rotate-secret'),
    ]);
    await rotateSecret(connection, secret, options, host, until?.signal);
    await tell(connection);
    const view = await secretView(connection, options, host);
    return { name, onTrial: view?.onTrial ?? false, dashboardUrl: view?.dashboardUrl ?? '' };
  }

  return {
    listConnections: list,
    watch: watchAll,
    async probe(url, until) {
      const [{ probeServer }, { suggestedName }, { connectionNames }] = await Promise.all([
        import('#auth/new-connection'),
        import('#auth/new-connection'),
        import('#config/find-entry'),
      ]);
      const taken = await connectionNames(userFiles(host), (path) => host.readText(path));
      return probeServer(url, suggestedName(url, taken), options, host, until?.signal);
    },
    async readPasted(text) {
      const { readPasted } = await import('#auth/new-connection');
      return readPasted(text);
    },
    async add(input, until) {
      const [{ addConnection }, { describedConnection }] = await Promise.all([
        import('#auth/registry'),
        import('#auth/new-connection'),
      ]);
      const { connection, secrets } = describedConnection(input, host);
      const signal = until?.signal;
      const how = { replace: input.replace ?? false, check: true, ...(signal && { signal }) };
      const checked = await addConnection(connection, secrets, how, ownOptions, host);
      return { name: input.name, url: input.url, checked: checked?.as ?? 'nobody' };
    },
    async remove(name) {
      const { removeConnection } = await import('#auth/registry');
      const { wasSignedIn, notRevoked } = await removeConnection(name, ownOptions, host);
      return { wasSignedIn, ...(notRevoked && { notRevoked: redact(notRevoked.message) }) };
    },
    async signIn(name, { signal = never, progress = () => undefined }) {
      const { signInConnection } = await import('#auth/sign-in');
      const connection = await named(name);
      if (!signsIn(connection)) throw hasKey(name);
      const account = await host.account(connection, options);
      const signedIn = await signInConnection(account, { ...host, progress, signal });
      await tell(connection);
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
      const { undoRotation } = await import('#auth/secret-trial');
      const connection = await named(name);
      const undone = await undoRotation(connection, options, host);
      if (undone) await tell(connection);
      return undone;
    },
    async reminders() {
      const { remindersOf } = await import('#auth/rotate-secret');
      return remindersOf(await list(), host.clock.now());
    },
    async claimNotice(name) {
      const { url, account } = await named(name);
      const place = account === undefined ? url : `${url} ${account}`;
      return fileMarks(join(state, 'sign-ins'), place, host.clock).claimNotice();
    },
  };
}

function hasKey(name: string): UsageError {
  return new UsageError(
    `${name} uses an API key, so there is nothing to sign in to`,
    'revoke the key in the dashboard, under Servers',
  );
}

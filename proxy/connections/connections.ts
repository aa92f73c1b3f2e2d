// The user's connections: the operations that the commands and the tray app share. Each loads what it needs.
import { join, resolve } from 'node:path';
import { signsIn, type Account } from '#auth/account';
import type { ShowPage } from '#auth/authorization-page';
import type { SignedIn, SignInProgress } from '#auth/sign-in';
import { fileMarks } from '#auth/sign-in-marks';
import type { SignedOut } from '#auth/sign-out';
import { assistantFile, assistantFiles } from '#config/assistants';
import { setupCommand, type Connection } from '#config/connection';
import { UsageError } from '#config/errors';
import { connectionNames } from '#config/find-entry';
import type { Options, OptionTexts } from '#config/options';
import { userFiles } from '#config/user-files';
import type {
  AddInput,
  AssistantView,
  CompanySignedIn,
  CompanySignedOut,
  ConnectionView,
  Imported,
  Imports,
  Installed,
  Pasted,
  Probed,
  SecretView,
  Uninstalled,
  Until,
  WithdrawnServer,
} from './accounts-service.ts';
import type { CompanyServers } from './company-servers.ts';
import type { ConnectionStatuses, ViewPorts } from './connection-views.ts';
import {
  bindHost,
  type BoundHost,
  type Checked,
  type ConnectionsHost,
} from './connections-host.ts';
import type { ImportFile, ImportPlan } from './import-plan.ts';
import type { MyDevice } from './my-devices.ts';
import { isOrigin, organizationOf } from './list-url.ts';
import type { MyServers } from './my-servers.ts';
import type { Described } from './new-connection.ts';
import type { UninstalledEverywhere } from './install.ts';
import type { AddOptions, Removed } from './registry.ts';
import type { RenamedConnection } from './rename-connection.ts';

export type ConnectionsPorts = {
  host: ConnectionsHost;
  options: Options;
  /** The options as they were given, which the entries of assistants pass on. */
  given: OptionTexts;
  /** Reads the connection that an operation works on. */
  named?: (target: string) => Promise<Connection>;
  /** The message for a keychain error with which connections are still shown; `undefined` for any other error. */
  excuse?: ViewPorts['excuse'];
};

/** `show` shows the page of the sign-in. By default, the browser opens it. */
export type SignInOptions = Until & {
  progress?: (progress: SignInProgress) => void;
  show?: ShowPage;
  /** The display name of the assistant that will use the connection. */
  assistant?: string | undefined;
  /** The next step, which the page names, if there is one. */
  next?: string | undefined;
  /** Tells the person, before a page opens, why the company sign-in that is configured is not used. */
  tell?: (sentence: string) => void;
};

const revokingHint = () => 'revoke the key in the dashboard, under Servers';
const replacingHint = ({ name, url }: Connection) =>
  `to sign in instead, run latchkey remove ${name}, then ${setupCommand(url)}; to replace the key, run latchkey rotate ${name}`;

/** `secret` describes the new one; `undefined` if it is not in the keychain. */
export type RotatedSecret = { connection: Connection; secret: SecretView | undefined };

export class Connections {
  readonly #host: BoundHost;
  /** Without `--config`, for operations on our own file. */
  readonly #own: BoundHost;
  readonly #given: OptionTexts;
  readonly #named: (target: string) => Promise<Connection>;
  readonly #views: ViewPorts;

  constructor({ host, options, given, named, excuse }: ConnectionsPorts) {
    const { config: _, ...own } = options;
    this.#host = bindHost(host, options);
    this.#own = bindHost(host, own);
    this.#given = given;
    this.#named = named ?? (async (target) => host.readConnection(target, options));
    this.#views = { host, options, ...(excuse && { excuse }) };
  }

  /** All connections, with the proxies that run for them. */
  async list(): Promise<ConnectionView[]> {
    const [{ connectionViews }, { watchOwnProxies }] = await Promise.all([
      import('./connection-views.ts'),
      import('#status/watch-proxies'),
    ]);
    const { stateDirectory, platform } = this.#host;
    const watch = await watchOwnProxies(stateDirectory, platform);
    try {
      await watch.ready();
      return await connectionViews(watch.proxies(), this.#views);
    } finally {
      watch.close();
    }
  }

  /** All connections now, and again after every change, until `signal` aborts. */
  async *watch(signal: AbortSignal): AsyncGenerator<ConnectionView[], void> {
    const [{ connectionViews, connectionChanges }, { watchOwnProxies }, { cleanUpSecrets }] =
      await Promise.all([
        import('./connection-views.ts'),
        import('#status/watch-proxies'),
        import('./orphaned-secrets.ts'),
      ]);
    const host = this.#host;
    await cleanUpSecrets(this.#own).catch((error: unknown) => {
      // The view of each connection reports this. The next watch cleans up.
      if (this.#views.excuse?.(error) === undefined) throw error;
    });
    const { stateDirectory } = host;
    const watch = await watchOwnProxies(stateDirectory, host.platform);
    try {
      await watch.ready();
      const files = new Set([...userFiles(host), ...assistantFiles(host)]);
      const paths = [...files, join(stateDirectory, 'sign-ins'), join(stateDirectory, 'keys')];
      const view = async () => connectionViews(watch.proxies(), this.#views);
      const news = async (until: AbortSignal) => watch.next(until);
      yield* connectionChanges({ view, news, paths, clock: host.clock }, signal);
    } finally {
      watch.close();
    }
  }

  /** The status of one connection or all of them. No proxy and no server is contacted. */
  async statuses(target?: string): Promise<ConnectionStatuses> {
    const { targetStatuses } = await import('./connection-views.ts');
    return targetStatuses(target, this.#views);
  }

  /** Whether the keychain has the key and headers that the configuration says are there. */
  async hasSecrets(connection: Connection): Promise<boolean> {
    const { hasStoredSecrets } = await import('./stored-secrets.ts');
    return hasStoredSecrets(connection, this.#own.store);
  }

  /** Whether requests of the connection currently need no person. `isGranted`: whether a list includes its server. */
  async isSignedIn(connection: Connection, isGranted = true): Promise<boolean> {
    if (!signsIn(connection)) return true;
    const { needsNoPerson } = await import('#auth/account-status');
    const account = await this.#own.account(connection);
    return needsNoPerson(account, isGranted);
  }

  /** Asks a server what it requires. `name` is the future name of the connection; a free one by default. */
  async probe(url: string, { name, signal }: Until & { name?: string } = {}): Promise<Probed> {
    const { probeServer } = await import('./new-connection.ts');
    return probeServer(url, name ?? (await this.freeName(url)), this.#host, signal);
  }

  /** A name for a connection to `url` that no file uses. */
  async freeName(url: string): Promise<string> {
    const { suggestedName } = await import('./new-connection.ts');
    const files = userFiles(this.#host);
    return suggestedName(url, await connectionNames(files, (path) => this.#host.readText(path)));
  }

  /** Reads a pasted text, before it is added. */
  async readPasted(text: string): Promise<Pasted> {
    const { readPasted } = await import('./new-connection.ts');
    return readPasted(text);
  }

  /** Our own connection to `url`, of that name if given; `undefined` if there is none. */
  async ownFor(url: string, name?: string): Promise<Connection | undefined> {
    const { registeredFor } = await import('./registry.ts');
    return registeredFor(url, name, this.#own);
  }

  /** Our own connection of that name; `undefined` if there is none. */
  async own(name: string): Promise<Connection | undefined> {
    const { checkName, registered } = await import('./registry.ts');
    checkName(name);
    return registered(name, this.#own);
  }

  /** @throws {UsageError} {@link ConfigurationError} if the name is invalid or in use */
  async checkFree(connection: { name: string; url: string }, replace = false): Promise<void> {
    const { checkFree } = await import('./registry.ts');
    await checkFree(connection, replace, this.#own);
  }

  /** The connection that a person described, and its secrets. */
  async describe(input: AddInput): Promise<Described> {
    const { describedConnection } = await import('./new-connection.ts');
    return describedConnection(input, this.#host);
  }

  /** Adds a connection. With `check`, the server is asked first, and nothing is stored if it refuses. */
  async add(
    { connection, secrets }: Described,
    how: AddOptions,
  ): Promise<Omit<Checked, 'token'> | undefined> {
    const { addConnection } = await import('./registry.ts');
    return addConnection(connection, secrets, how, this.#own);
  }

  /** Asks the server whether the credential of a connection is valid. */
  async check(connection: Connection, signal?: AbortSignal): Promise<Checked> {
    return this.#own.check(connection, signal);
  }

  /** Revokes the access at the server, deletes the connection with its secrets, and removes it from assistants' files. */
  async remove(name: string): Promise<Removed & UninstalledEverywhere> {
    const [{ registered, removeConnection }, { leaveServerList, listLeftWith }] = await Promise.all(
      [import('./registry.ts'), import('./my-servers.ts')],
    );
    const known = await registered(name, this.#own);
    const list = known && (await listLeftWith(known, this.#own));
    const removed = await removeConnection(name, this.#own);
    if (list !== undefined) await leaveServerList(removed.connection, list, this.#own);
    const [{ uninstallEverywhere }, { endUnusedSignIn }] = await Promise.all([
      import('./install.ts'),
      import('./company-sign-in.ts'),
    ]);
    await endUnusedSignIn(removed.connection, this.#own);
    return { ...removed, ...(await uninstallEverywhere(name, this.#own)) };
  }

  /** Renames a connection, also in the files of assistants. */
  async rename(from: string, to: string): Promise<RenamedConnection> {
    const { renameConnection } = await import('./rename-connection.ts');
    return renameConnection(from, to, this.#own);
  }

  /** Lets a person sign in, and notifies running proxies. */
  async signIn(target: string, { signal, ...how }: SignInOptions): Promise<SignedIn> {
    const { browserPage, signInConnection } = await import('#auth/sign-in');
    const account = await this.#account(target, replacingHint);
    const { progress = () => undefined } = how;
    const { show = browserPage({ ...this.#host, progress }), assistant, next, tell } = how;
    const until = signal ?? new AbortController().signal;
    progress({ step: 'discovering' });
    const page = { show, assistant, next, tell, signal: until };
    const signedIn = await signInConnection(account, page);
    progress({ step: 'storing' });
    // A different person may have signed in, who sees other tools.
    await account.forgetCached();
    await this.#host.notifyProxies(account.connection);
    const provider = signedIn.provider === undefined ? undefined : await account.provider();
    if (!provider) return signedIn;
    const { signInOthers } = await import('./company-sign-in.ts');
    const also = await signInOthers(account, provider, this.#host);
    return { ...signedIn, also };
  }

  /** Revokes the tokens at the server, and deletes them. */
  async signOut(target: string): Promise<SignedOut> {
    const { signOutConnection } = await import('#auth/sign-out');
    const account = await this.#account(target);
    const list = (await account.vault.access())?.renewedBy;
    const signedOut = await signOutConnection(account, { atProvider: true });
    if (list === undefined) return signedOut;
    const { leaveServerList } = await import('./my-servers.ts');
    await leaveServerList(account.connection, list, this.#host);
    return signedOut;
  }

  /** The list of the person's servers at a URL without a path, or with the path of an organization; `undefined` if there is none. */
  async serverList(url: string): Promise<string | undefined> {
    if (!isOrigin(url) && organizationOf(url) === undefined) return undefined;
    const { findServerList } = await import('./my-servers.ts');
    return findServerList(url, this.#host);
  }

  /** The lists that connections of this computer were chosen from. */
  async serverLists(): Promise<string[]> {
    const { knownLists } = await import('./my-servers.ts');
    return knownLists(this.#own);
  }

  /** The addresses of the Latchkey servers that our own connections use. */
  async addresses(): Promise<readonly string[]> {
    const { latchkeyAddresses } = await import('./my-servers.ts');
    return latchkeyAddresses(this.#own);
  }

  /** The servers of a list, as the person may use them now. @throws {TokenError} `signed_out` */
  async myServers(list: string): Promise<MyServers> {
    const { readServers } = await import('./my-servers.ts');
    return readServers(list, this.#own);
  }

  /** Takes withdrawn servers out of the files of assistants. */
  async takeOut(urls: readonly string[]): Promise<readonly WithdrawnServer[]> {
    const { takeOut } = await import('./withdrawn-servers.ts');
    return takeOut(urls, this.#own);
  }

  /** The computers on which the person uses servers of a list. @throws {TokenError} `signed_out` */
  async devices(list: string): Promise<readonly MyDevice[]> {
    const { readDevices } = await import('./my-devices.ts');
    return readDevices(list, this.#own);
  }

  /** Ends the access of one of these computers. Returns `false` if the person has no such device. @throws {TokenError} `signed_out` */
  async signOutDevice(list: string, id: string): Promise<boolean> {
    const { signOutDevice } = await import('./my-devices.ts');
    return signOutDevice(list, id, this.#own);
  }

  /** Lets the person choose servers of a list in the browser. `ended`: the connections to servers that they no longer chose. */
  async chooseServers(
    list: string,
    { signal, organization, ...how }: SignInOptions & { organization?: string | undefined },
  ): Promise<MyServers & { ended: readonly string[] }> {
    const [{ browserPage }, { chooseServers }] = await Promise.all([
      import('#auth/sign-in'),
      import('./my-servers.ts'),
    ]);
    const { progress = () => undefined, assistant, next } = how;
    const { show = browserPage({ ...this.#host, progress }) } = how;
    const until = signal ?? new AbortController().signal;
    const page = { show, assistant, organization, next, signal: until };
    return chooseServers(list, page, this.#own);
  }

  /** Lets a connection of our own use the sign-in of the list that its server was chosen from. */
  async joinServerList(connection: Connection, list: string): Promise<void> {
    const { joinServerList } = await import('./my-servers.ts');
    await joinServerList(connection, list, this.#own);
  }

  /** Stores that a server was chosen from a list, although its connection has a key or a sign-in of its own. */
  async noteChosen(url: string, list: string): Promise<void> {
    const { noteChosen } = await import('./my-servers.ts');
    await noteChosen(url, list, this.#own);
  }

  /** The servers of a Latchkey server, or of one organization there, that the company sign-in opens without a page. */
  async companyServers(
    list: string,
    organization: string | undefined,
  ): Promise<CompanyServers | undefined> {
    const { companyServers } = await import('./company-servers.ts');
    const { origin } = new URL(list);
    const below = `${origin}/mcp${organization === undefined ? '' : `/${organization}`}`;
    return companyServers(below, this.#own);
  }

  /** Gets a token for a connection of our own with the company sign-in, and adds the connection first if it is new. */
  async joinCompany(connection: Connection | Described): Promise<void> {
    const { addByCompany, joinCompany } = await import('./company-servers.ts');
    if ('secrets' in connection) await addByCompany(connection, this.#own);
    else await joinCompany(connection, this.#own);
  }

  /** Signs in at the provider of a connection's company, and to all connections that name that provider. */
  async signInCompany(
    target: string,
    { signal, progress = () => undefined }: Pick<SignInOptions, 'signal' | 'progress'>,
  ): Promise<CompanySignedIn> {
    const [{ abortedSignIn, browserPage }, { signInCompany }] = await Promise.all([
      import('#auth/sign-in'),
      import('./company-sign-in.ts'),
    ]);
    const account = await this.#account(target);
    const show = browserPage({ ...this.#host, progress });
    const until = signal ?? new AbortController().signal;
    const signingIn = signInCompany(account, { show, signal: until }, this.#host);
    return Promise.race([signingIn, abortedSignIn(until, signingIn)]);
  }

  /** Ends the sign-in at the provider of a connection's company, for all connections. */
  async signOutCompany(target: string): Promise<CompanySignedOut> {
    const { signOutCompany } = await import('./company-sign-in.ts');
    return signOutCompany(await this.#account(target), this.#host);
  }

  /** Requests the running proxies of a connection to try its server now. Returns how many acknowledged. */
  async reconnect(target: string): Promise<number> {
    return this.#host.askProxies('reconnect', await this.#named(target));
  }

  /**
   * The kind of secret that {@link rotate} replaces.
   *
   * @throws {UsageError} if the keychain has none for this connection
   */
  async rotatableSecret(target: string): Promise<SecretView['kind']> {
    const { rotatable } = await import('./rotate-secret.ts');
    const connection = await this.#named(target);
    await rotatable(connection, await this.#host.store());
    return connection.credentials.kind === 'api_key' ? 'api_key' : 'client_secret';
  }

  /** Replaces the API key or the client secret, once the server has accepted the new one. */
  async rotate(target: string, secret: string, { signal }: Until = {}): Promise<RotatedSecret> {
    const { rotateSecret, secretView } = await import('./rotate-secret.ts');
    const connection = await this.#named(target);
    await rotateSecret(connection, secret, this.#host, signal);
    await this.#host.notifyProxies(connection);
    return { connection, secret: await secretView(connection, this.#host) };
  }

  /** Puts the old secret back while the new one is on trial; `false` if there is none. */
  async undoRotation(target: string): Promise<boolean> {
    const { undoRotation } = await import('./secret-trial.ts');
    const connection = await this.#named(target);
    const undone = await undoRotation(connection, this.#host);
    if (undone) await this.#host.notifyProxies(connection);
    return undone;
  }

  /** Whether a notice about the connection may be shown: one a day over all processes. */
  async claimNotice(target: string): Promise<boolean> {
    const { url, account } = await this.#named(target);
    const place = account === undefined ? url : `${url} ${account}`;
    const { stateDirectory, clock } = this.#host;
    return fileMarks(join(stateDirectory, 'sign-ins'), place, clock).claimNotice();
  }

  /** All supported assistants, whether or not they are on this computer. */
  async assistants(): Promise<AssistantView[]> {
    const { assistantViews } = await import('./assistant-views.ts');
    return assistantViews(this.#host);
  }

  /** Adds an entry that starts the connection to the file of an assistant, or to `config`. */
  async install(
    assistant: string,
    name: string,
    { replace = false, config }: { replace?: boolean; config?: string | undefined } = {},
  ): Promise<Installed> {
    const { checkRegistered, installLaunch } = await import('./install.ts');
    const host = this.#own;
    const target = assistantFile(assistant, config, host);
    await checkRegistered(name, host);
    const env = await this.#launchEnvironment();
    const installed = await installLaunch(name, target, { env, host, replace });
    return { ...installed, ...(target.note !== undefined && { note: target.note }) };
  }

  /** Restores the original file or, if it has changed since, removes the entry. */
  async uninstall(
    assistant: string,
    name: string,
    { config }: { config?: string | undefined } = {},
  ): Promise<Uninstalled> {
    const { uninstallLaunch } = await import('./install.ts');
    const target = assistantFile(assistant, config, this.#host);
    const done = await uninstallLaunch(name, target, this.#own);
    return { file: target.file, ...done };
  }

  /** Describes what an import of all assistants, of one or of a file would do. */
  async importPlan(from?: string): Promise<ImportPlan> {
    const { importPlan } = await import('./import-plan.ts');
    return importPlan(from, this.#own);
  }

  /** Like `importPlan`, for other front ends and without any secret. */
  async importable(assistant?: string): Promise<Imports> {
    const { importableEntries } = await import('./import-plan.ts');
    return importableEntries(assistant, this.#own);
  }

  /** Imports what was planned for one file. Returns the backup, if the file was changed. */
  async importFile(file: ImportFile): Promise<string | undefined> {
    const { importFile } = await import('./import-file.ts');
    return importFile(file, await this.#launchEnvironment(), this.#own);
  }

  /** Imports the named entry of a file, or all entries. */
  async importEntry(file: string, entry?: string): Promise<Imported> {
    const { importEntry } = await import('./import-file.ts');
    return importEntry(resolve(file), entry, await this.#launchEnvironment(), this.#own);
  }

  /** @throws {UsageError} if the connection has an API key */
  async #account(
    target: string,
    hintFor: (connection: Connection) => string = revokingHint,
  ): Promise<Account> {
    const connection = await this.#named(target);
    if (signsIn(connection)) return this.#host.account(connection);
    throw new UsageError(
      `${connection.name} uses an API key, so there is nothing to sign in to`,
      hintFor(connection),
    );
  }

  /** The environment that an entry passes to the proxy. */
  async #launchEnvironment(): Promise<Record<string, string>> {
    const { launchEnvironment } = await import('#config/launch-entry');
    return launchEnvironment(this.#own.options, this.#given, this.#own);
  }
}

import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '#clock/clock';
import { ConfigurationError } from '#config/errors';
import type { Connection } from '#config/connection';
import { checkDocument, connectingAssistant, connectionNames } from '#config/find-entry';
import { registryFile, userFiles } from '#config/user-files';
import type { Options } from '#config/options';
import { isProxyOf, type RunningProxy, displayUrl } from '#status/running-proxy';
import { signsIn } from '#auth/account';
import type { ReadText } from '#host';
import { bindHost, type BoundHost, type ConnectionsHost } from './connections-host.ts';
import type { ConnectionView } from './accounts-service.ts';
import { startingAssistants } from './assistant-views.ts';
import { companyOf, type StoredSignIns } from './company-sign-in.ts';
import { secretView } from './rotate-secret.ts';
import { signedInUrls } from '#auth/sign-in-marks';
import { hasStoredSecrets } from './stored-secrets.ts';
import { accountStatus, type AccountStatus } from '#auth/account-status';

export type ViewPorts = {
  host: ConnectionsHost;
  options: Options;
  /** The message for a keychain error with which connections are still shown; `undefined` for any other error. */
  excuse?: (error: unknown) => string | undefined;
};

/**
 * All connections of this host, with the running `proxies` that are known.
 *
 * @throws {ConfigurationError} as {@link targetStatuses}
 */
export async function connectionViews(
  proxies: readonly RunningProxy[],
  ports: ViewPorts,
): Promise<ConnectionView[]> {
  const { excuse } = ports;
  const host = bindHost(ports.host, ports.options);
  const own = registryFile(host);
  const { statuses, problems } = await targetStatuses(undefined, ports);
  const views: ConnectionView[] = [];
  const signIns: StoredSignIns = new Map();
  for (const { status, connection, broken, wasSignedIn = false } of statuses) {
    const running = proxies.filter((proxy) => isFor(proxy, connection));
    // The person signs in to this connection with the assistant, not with Latchkey.
    if (status.state === 'assistant' && running.length === 0) continue;
    const excused = (error: unknown) => {
      if (excuse?.(error) === undefined) throw error;
      return undefined;
    };
    const secret = await secretView(connection, host).catch(excused);
    const company =
      broken === undefined
        ? await companyOf(connection, status, signIns, host).catch(excused)
        : undefined;
    views.push({
      ...known(status),
      source: { file: connection.source, own: connection.source === own },
      ...(broken === undefined
        ? stateOf(status, running, wasSignedIn)
        : { state: 'trouble' as const, reason: broken }),
      proxies: running,
      startedBy: await startingAssistants(connection.name, host),
      ...(secret && { secret }),
      ...(company && { company }),
    });
  }
  for (const { name, problem } of problems) views.push(unreadable(name, problem));
  return views;
}

/**
 * The status of one connection, or of all connections in files and all URLs with a sign-in.
 *
 * @throws {ConfigurationError} if `target`, our own file or that of `--config` cannot be read, because an empty list would be wrong
 */
export async function targetStatuses(
  target: string | undefined,
  { host: unbound, options, excuse }: ViewPorts,
): Promise<ConnectionStatuses> {
  const host = bindHost(unbound, options);
  const files = options.config === undefined ? userFiles(host) : [options.config];
  const readText: ReadText = (path) => host.readText(path);
  if (target === undefined)
    await checkDocument(options.config ?? registryFile(host), readText, {
      required: options.config !== undefined,
    });
  const names = target === undefined ? await connectionNames(files, readText) : [target];
  const hasUrls = target === undefined && options.config === undefined;
  const urls = hasUrls ? await signedInUrls(join(host.stateDirectory, 'sign-ins')) : [];
  return connectionStatuses(names, urls, target !== undefined, host, excuse);
}

/** A proxy of a bare URL, or of an older entry, has another name for the same account. */
function isFor(proxy: RunningProxy, connection: Connection): boolean {
  return proxy.name === connection.name
    ? proxy.url === displayUrl(connection.url)
    : isProxyOf(proxy, connection);
}

function known({ name, url, as, issuer, scope, signedInAs, expiresAt, renewable }: AccountStatus) {
  return {
    name,
    url,
    as,
    renewable,
    ...(issuer !== undefined && { issuer }),
    ...(signedInAs !== undefined && { signedInAs }),
    ...(scope !== undefined && { scopes: scope.split(' ').filter(Boolean) }),
    ...(expiresAt !== undefined && { expiresAt }),
  };
}

/** The worst state of the running proxies. If none has a problem, the state depends on the stored credential. */
function stateOf(
  { state, as }: AccountStatus,
  running: readonly RunningProxy[],
  wasSignedIn: boolean,
): Pick<ConnectionView, 'state' | 'reason'> {
  for (const bad of ['needs_sign_in', 'trouble', 'offline'] as const) {
    const found = running.find((proxy) => proxy.state === bad);
    if (found) return { state: bad, ...(found.reason !== undefined && { reason: found.reason }) };
  }
  // If a server requires no credential, its proxies are ready without a sign-in. After a sign-in has ended, a running proxy notices only at
  // its next request.
  const needsNothing = as === 'person' && !wasSignedIn;
  if (state === 'ready' || (needsNothing && running.some((proxy) => proxy.state === 'ready')))
    return { state: 'ready' };
  const reason = as === 'api_key' ? 'API key not found in the keychain' : 'not signed in';
  return { state: 'needs_sign_in', reason };
}

function unreadable(name: string, problem: string): ConnectionView {
  return {
    name,
    url: '',
    source: { file: '', own: false },
    as: 'person',
    state: 'trouble',
    reason: problem,
    renewable: false,
    proxies: [],
    startedBy: [],
  };
}

export type ConnectionStatuses = {
  /** `wasSignedIn`: a person has signed in here before. */
  statuses: {
    status: AccountStatus;
    connection: Connection;
    broken?: string;
    wasSignedIn?: boolean;
  }[];
  problems: { name: string; problem: string }[];
};

/**
 * The status of connections, without contacting a server. If one of several `names` cannot be read, it is listed as a problem.
 * `urls` are bare URLs with a sign-in, which no file contains.
 *
 * @throws {ConfigurationError} if the `only` name cannot be read
 */
async function connectionStatuses(
  names: readonly string[],
  urls: readonly string[],
  only: boolean,
  host: BoundHost,
  excuse: ViewPorts['excuse'],
): Promise<ConnectionStatuses> {
  const found: ConnectionStatuses = { statuses: [], problems: [] };
  const listed = new Set<string>();
  const list = async (name: string, again: boolean) => {
    const connection = await host.readConnection(name);
    const account = signsIn(connection) ? await host.account(connection) : undefined;
    const { vault, marks } = account ?? {};
    if (!again && vault && listed.has(vault.account)) return;
    if (vault) listed.add(vault.account);
    try {
      const whole = await hasStoredSecrets(connection, host.store);
      const stored = await accountStatus(connection, account, host.clock.now(), whole);
      const isOut = stored.state === 'signed_out' && stored.as === 'person';
      const assistant = isOut ? await connectingAssistant(connection, host) : undefined;
      const missing = stored.state === 'ready' ? await marks?.missingAccount() : undefined;
      const checked = { ...stored, ...(missing && { missingAccount: missing }) };
      const status =
        assistant === undefined ? checked : { ...checked, state: 'assistant' as const, assistant };
      const wasSignedIn = marks?.signedInBefore() ?? false;
      found.statuses.push({ status, connection, wasSignedIn });
    } catch (error) {
      const broken = excuse?.(error);
      if (broken === undefined) throw error;
      const status = await accountStatus(connection, undefined, host.clock.now());
      found.statuses.push({ status, connection, broken });
    }
  };
  for (const name of names) {
    try {
      await list(name, true);
    } catch (error) {
      if (!(error instanceof ConfigurationError) || only) throw error;
      if (error.isOtherProgram) continue;
      found.problems.push({ name, problem: error.message });
    }
  }
  // A URL that is also a configured connection has been listed with its name.
  for (const url of urls) await list(url, false);
  return found;
}

export type ChangesPorts<View> = {
  /** Reads the current state. */
  view: () => Promise<View>;
  /** Resolves at the next event of a running proxy, or when the signal aborts. */
  news: (signal: AbortSignal) => Promise<void>;
  /** Files and folders whose changes are also watched. */
  paths: readonly string[];
  clock: Clock;
};

const pollMs = 1_000;
/** After this many polls without a change, everything is read again, because a keychain reports no changes. */
const maxPolls = 15;
/** A proxy with many calls reports changes continuously. */
const restMs = 250;

/** The current state, and again whenever it has changed, until `signal` aborts. */
export async function* connectionChanges<View>(
  { view, news, paths, clock }: ChangesPorts<View>,
  signal: AbortSignal,
): AsyncGenerator<View, void> {
  let last = '';
  while (!signal.aborted) {
    const enough = new AbortController();
    const until = AbortSignal.any([signal, enough.signal]);
    // A change during the next read counts for the next round.
    const before = await fingerprint(paths);
    const event = news(until);
    const now = await view();
    const text = JSON.stringify(now);
    if (text !== last) {
      last = text;
      yield now;
    }
    await Promise.race([event, changed(before, until)]);
    enough.abort();
    await clock.sleep(restMs, signal);
  }

  async function changed(before: string, until: AbortSignal): Promise<void> {
    for (let polls = 0; polls < maxPolls && !until.aborted; polls += 1) {
      await clock.sleep(pollMs, until);
      if (!until.aborted && (await fingerprint(paths)) !== before) return;
    }
  }
}

/** The modification time, size and inode of each path, and of everything in each folder. */
async function fingerprint(paths: readonly string[]): Promise<string> {
  const times = paths.map(async (path) => {
    const names = await readdir(path).catch((): string[] => []);
    const files = [path, ...names.map((name) => join(path, name))];
    const stats = files.map(async (file) => stat(file).then(version, () => ''));
    return (await Promise.all(stats)).join();
  });
  return (await Promise.all(times)).join(';');
}

const version = ({ mtimeMs, size, ino }: { mtimeMs: number; size: number; ino: number }) =>
  `${mtimeMs} ${size} ${ino}`;

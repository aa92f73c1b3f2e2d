import { join } from 'node:path';
import type { Connection } from '#config/connection';
import { connectionNames } from '#config/connection-names';
import { defaultStateDirectory } from '#config/default-state-directory';
import type { Options } from '#config/options';
import { registryFile } from '#config/registry-file';
import { checkDocument } from '#config/find-entry';
import { userFiles } from '#config/user-files';
import { isProxyOf, type RunningProxy, displayUrl } from '#status/running-proxy';
import type { AccountStatus } from './account-status.ts';
import type { ConnectionView } from './accounts-door.ts';
import { connectionStatuses } from './connection-statuses.ts';
import { hasKeptSecrets } from './kept-secrets.ts';
import type { AccountsHost } from './accounts-host.ts';
import { secretView } from './secret-view.ts';
import { signedInUrls } from './signed-in-urls.ts';
import { signsIn } from './signs-in.ts';

export type ViewPorts = {
  host: AccountsHost;
  options: Options;
  /** Why the keychain cannot be asked; the connections are shown all the same. */
  excuse: (error: unknown) => string | undefined;
  /** The assistants that start a connection. */
  startedBy: (name: string) => Promise<readonly string[]>;
};

/**
 * Every connection of this machine, with the running `proxies` that are known.
 *
 * @throws {ConfigurationError} where our own file cannot be read: that there are none would be untrue
 */
export async function connectionViews(
  proxies: readonly RunningProxy[],
  { host, options, startedBy, excuse }: ViewPorts,
): Promise<ConnectionView[]> {
  const files = options.config === undefined ? userFiles(host) : [options.config];
  await checkDocument(registryFile(host), (path) => host.readText(path));
  const state = options.stateDir ?? defaultStateDirectory(host);
  const urls = options.config === undefined ? await signedInUrls(join(state, 'sign-ins')) : [];
  const names = await connectionNames(files, (path) => host.readText(path));
  const { statuses, problems } = await connectionStatuses(names, urls, false, {
    read: async (name) => host.readConnection(name, options),
    vaultOf: async (connection) =>
      signsIn(connection) ? (await host.account(connection, options)).vault : undefined,
    complete: async (connection) => hasKeptSecrets(connection, async () => host.store(options)),
    clock: host.clock,
    excuse,
  });
  const own = registryFile(host);
  const views: ConnectionView[] = [];
  for (const { status, connection, broken } of statuses) {
    const running = proxies.filter((proxy) => isFor(proxy, connection));
    const secret = await secretView(connection, options, host).catch((error: unknown) => {
      if (excuse(error) === undefined) throw error;
      return undefined;
    });
    views.push({
      ...known(status),
      source: { file: connection.source, own: connection.source === own },
      ...(broken === undefined
        ? stateOf(status, running)
        : { state: 'trouble' as const, reason: broken }),
      proxies: running,
      startedBy: await startedBy(connection.name),
      ...(secret && { secret }),
    });
  }
  for (const { name, problem } of problems) views.push(unreadable(name, problem));
  return views;
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

/** What running proxies meet counts for more than what is stored; the worst of them is shown. */
function stateOf(
  { state, as }: AccountStatus,
  running: readonly RunningProxy[],
): Pick<ConnectionView, 'state' | 'reason'> {
  for (const bad of ['needs_sign_in', 'trouble', 'offline'] as const) {
    const met = running.find((proxy) => proxy.state === bad);
    if (met) return { state: bad, ...(met.reason !== undefined && { reason: met.reason }) };
  }
  // A server that wants no credential has proxies that are ready, and nobody signed in.
  if (state === 'ready' || running.some((proxy) => proxy.state === 'ready'))
    return { state: 'ready' };
  const reason = as === 'api_key' ? 'the keychain has not its key' : 'nobody is signed in';
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

import type { FastifyInstance } from 'fastify';
import { active } from '#gateway/admission';
import { isAllowedOrigin, idleConnections } from '#http/guards';
import { serverSettingsRoutes } from '#http/server-settings-routes';
import type { Log } from '#log/log';
import { serverListUrl } from '#model/server-list';
import { parseServerPath } from '#model/slug';
import { acceptForwarded, Forwarder } from '#nodes/owner-socket';
import type { AccessTokenClaims } from '#oauth/access-tokens';
import { issuerKeys } from '#oauth/issuer-keys';
import { AssertionLedger } from '#oauth/assertions';
import { clientResolver } from '#oauth/client-documents';
import { isListAdmitted } from '#oauth/server-list';
import { fetchText } from '#outbound/guarded-fetch';
import { socketAcceptor } from '#upstreams/tunnel/accept-socket';
import { createApp, LatePages } from './http-app.ts';
import type { AppParts, PagePorts } from './open-pages.ts';
import type { Closers } from './closers.ts';
import type { ServeOptions } from './serve-options.ts';
import type { Stores } from './stores.ts';

const clientDocument = { timeoutMs: 3000, maxBytes: 20 * 1024 };

/**
 * Unless a page is requested earlier, the files of pages are loaded a second after the start, because an upgrade may remove them. The
 * routes of pages are made after a minute, because that takes long, and many processes serve no page.
 */
const pagesAfterMs = { loaded: 1000, ready: 60_000 };

/** Opens the HTTP server with all routes, and listens. `closeIdle` closes the connections on which nothing is in progress. */
export async function openApp(
  options: ServeOptions,
  parts: AppParts,
  closers: Closers,
): Promise<{ readonly app: FastifyInstance; readonly closeIdle: () => void }> {
  const { log, sharedFolder } = options;
  const { keys, gateway, isOwner, remote } = parts;
  const forwarder =
    sharedFolder && !isOwner
      ? new Forwarder(sharedFolder.socket, (err) => log.warn({ err }, 'the owner did not answer'))
      : undefined;
  const ports = oauthPorts(options, parts);
  const pages = new LatePages(async () => {
    const { openPages } = await import('./open-pages.ts');
    return openPages(options, parts, ports);
  });
  const app = createApp({
    ...options,
    keys,
    gateway,
    agents: agentPorts(options, parts),
    failedAttempts: parts.attempts.clients,
    ports,
    pages,
    others: [(routes) => serverSettingsRoutes(routes, settingsPorts(options, parts))],
    forwarder,
    ready: parts.ready,
  });
  // Runs after the app has closed, before the gateway and the links close, so that calls of other nodes may finish, too.
  if (remote) closers.push(() => remote.drained());
  let closeForwarded = () => Promise.resolve();
  closers.push(async () => void (await Promise.all([app.close(), closeForwarded()])));
  const closeIdle = idleConnections(app.server);
  await app.listen({ host: options.host, port: options.port });
  if (!forwarder) loadSoon(pages, log, closers);
  if (sharedFolder && isOwner) {
    closeForwarded = await acceptForwarded(app.server, sharedFolder.socket);
  }
  return { app, closeIdle };
}

function loadSoon(pages: LatePages, log: Log, closers: Closers): void {
  const failed = (err: unknown) => log.error({ err }, 'pages could not be loaded');
  const load = async () => void (await import('./open-pages.ts')).pageAssets();
  const timers = [
    setTimeout(() => void load().catch(failed), pagesAfterMs.loaded),
    setTimeout(() => void pages.app().catch(failed), pagesAfterMs.ready),
  ];
  for (const timer of timers) timer.unref();
  closers.push(async () => timers.forEach((timer) => clearTimeout(timer)));
}

type AppPorts = Parameters<typeof createApp>[0];

function oauthPorts(options: ServeOptions, parts: AppParts): PagePorts & AppPorts['ports'] {
  const { base, clock, clientDocuments } = options;
  const { stores, refusals, tokens, endpointUrl, usage, guard, administration } = parts;
  const fetchDocument =
    options.fetchDocument ?? ((url: string) => fetchText(url, { ...clientDocument, ...guard }));
  return {
    ...stores,
    base,
    refusals,
    tokens,
    clock,
    endpointUrl,
    used: (use, usedAt) => usage.used(use, usedAt),
    resolveClient: clientResolver({
      ...stores,
      base,
      clock,
      fetchDocument,
      provided: clientDocuments,
    }),
    issuerKeys: issuerKeys({ guard, clock }),
    ledger: new AssertionLedger({ db: stores.db, clock }),
    providerSetup: administration.providerSetup,
    isAdmitted: isAdmitted({ base, clock }, stores),
  };
}

/** Checks whether the endpoint of a token's audience would admit the token, with the same query as the gateway. */
function isAdmitted({ base, clock }: Pick<ServeOptions, 'base' | 'clock'>, stores: Stores) {
  const { admissions, db } = stores;
  return async (claims: AccessTokenClaims): Promise<boolean> => {
    if (claims.audience === serverListUrl(base)) {
      return isListAdmitted(claims, { base, db, clock });
    }
    const { id: tokenId, clientId, grantId, subject: userId, audience } = claims;
    const at = parseServerPath(audience.slice(`${base}/mcp/`.length));
    const grant = grantId === undefined ? undefined : { id: grantId, userId };
    const found = at && (await admissions.byClient({ ...at, clientId, tokenId, grant }));
    return active(found) !== undefined;
  };
}

function agentPorts({ clock }: ServeOptions, parts: AppParts): AppPorts['agents'] {
  const { directory, tunnels } = parts.upstreams;
  return {
    directory,
    clock,
    attempts: parts.attempts.agents,
    refusals: parts.refusals,
    hasRoomFor: (agentId) => tunnels.hasRoomFor(agentId),
    accept: socketAcceptor(tunnels),
    used: ({ keyId }) => parts.usage.used({ type: 'key', id: keyId }, clock.now()),
  };
}

/** The ports of the routes with which the callers of a server read and change its settings. */
function settingsPorts({ base, clock, allowedOrigins }: ServeOptions, parts: AppParts) {
  const { endpointUrl, tokens, stores, usage, refusals, administration } = parts;
  const settings: Parameters<typeof serverSettingsRoutes>[1] = {
    base,
    endpointUrl,
    tokens,
    clock,
    admissions: stores.admissions,
    used: (use, usedAt) => usage.used(use, usedAt),
    refusals,
    administration,
    isAllowedOrigin: (origin) => isAllowedOrigin(origin, base, allowedOrigins),
  };
  return settings;
}

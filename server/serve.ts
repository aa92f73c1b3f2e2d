import { lookup } from 'node:dns/promises';
import { join } from 'node:path';

import { sql } from 'kysely';

import type { AdministrationPorts } from '#administration/administration-ports';
import { CountedRefusals } from '#audit/counted-refusals';
import { UsageRecorder } from '#credentials/usage';
import { TranslatedEras } from '#eras/translated-eras';
import type { AdmissionStore } from '#gateway/admission';
import { auditedRefusal } from '#gateway/audited-refusal';
import { Gateway } from '#gateway/gateway';
import type { OidcOptions } from '#config/oidc-options';
import { changesWithAgents } from '#dashboard/changes-with-agents';
import { dashboardRoutes } from '#dashboard/dashboard-routes';
import { ProxyDownload, type ProxySource } from '#download/proxy-download';
import type { ProxyReference } from '#download/proxy-reference';
import { accountGrantsOf } from '#http/account-grants';
import { consoleCalls } from '#console/call-server';
import { createApp } from '#http/app';
import { isAllowedOrigin } from '#http/host-guard';
import { serverSettingsRoutes } from '#http/server-settings-routes';
import { providerCallbackPath } from '#http/provider-routes';
import { openIdProvider } from '#openid/openid-provider';
import { passwordHashing } from '#people/password-hashing';
import { FailedAttempts } from '#oauth/failed-attempts';
import { findClient } from '#oauth/find-client';
import { fetchText } from '#outbound/fetch-text';
import { parseServerPath } from '#organizations/slug';
import { accessTokens, type AccessTokenClaims } from '#signing/access-token';
import { KeyRing } from '#signing/key-ring';
import { readMasterKey } from '#signing/master-key';
import { sqliteAdmissions } from '#store/sqlite/admission-store';
import { sqliteChanges } from '#store/sqlite/change-store';
import { socketAcceptor } from '#tunnel/accept-socket';
import { clientsOf } from '#upstream-access/upstream-authorizations';
import { upstreamSetup } from '#upstream-access/upstream-setup';
import { CallMeter } from '#usage/call-meter';
import { webhookSetup } from '#webhooks/webhook-setup';
import { openSenders } from './open-senders.ts';
import { openUpstreams, type UpstreamOptions } from './open-upstreams.ts';
import { openStores, type OpenStores } from './stores.ts';

const drainMs = 10_000;
const clientDocument = { timeoutMs: 3000, maxBytes: 20 * 1024 };

export interface ServeOptions extends UpstreamOptions {
  readonly masterKeyFile: string | undefined;
  readonly host: string;
  readonly port: number;
  readonly trustedProxies: readonly string[];
  readonly allowedOrigins: readonly string[];
  /** What the first owner owns; asked for where it is `undefined`. */
  readonly firstOrganization: string | undefined;
  /** Single sign-on, where it is configured. */
  readonly oidc: OidcOptions | undefined;
  readonly maxBodyBytes: number;
  /** The proxy that this server hands out. */
  readonly proxy: { readonly version: string; readonly source: ProxySource };
  /** Whether anybody may register an OAuth client. */
  readonly dynamicRegistration?: boolean;
  /** Hosts inside this network that client metadata may be fetched from. */
  readonly outboundHosts?: readonly string[];
  /** Fetches a client metadata document; only tests have one of their own. */
  readonly fetchDocument?: (url: string) => Promise<string>;
  readonly requestTimeoutMs?: number;
}

/** A server that listens. */
export interface RunningServer {
  readonly stores: OpenStores & Pick<AdministrationPorts, 'upstreamSetup' | 'webhookSetup'>;
  /** Where the proxy comes from; packs it where that was not done yet. */
  proxy(): Promise<ProxyReference>;
  /** Stops listening, lets calls finish for up to ten seconds, ends the rest. */
  close(): Promise<void>;
}

/** Marries the adapters to the decisions and listens. Rejects when it cannot, with nothing left open. */
export async function serve(options: ServeOptions): Promise<RunningServer> {
  const closers: (() => Promise<void>)[] = [];
  try {
    return await open(options, closers);
  } catch (error) {
    await closeAll(closers);
    throw error;
  }
}

/** The last opened first, as each stands on those before it. */
async function closeAll(closers: (() => Promise<void>)[]): Promise<void> {
  for (const close of closers.splice(0).toReversed()) await close();
}

async function open(
  options: ServeOptions,
  closers: (() => Promise<void>)[],
): Promise<RunningServer> {
  const { dataDir, base, clock, log } = options;
  const stores = await openStores(dataDir);
  closers.push(() => stores.close());

  const masterKeyFile = options.masterKeyFile ?? join(dataDir, 'master.key');
  const mayCreate = (await stores.signingKeys.list()).length === 0;
  const masterKey = readMasterKey(masterKeyFile, { mayCreate });
  const keys = await KeyRing.open(stores.signingKeys, {
    masterKey,
    clock,
    failed: (err) => log.error({ err }, 'signing keys not read'),
  });
  closers.push(async () => keys.close());
  const tokens = accessTokens(base, { keys, refreshKeys: () => keys.refresh(), clock });
  const endpointUrl = (serverPath: string) => `${base}/mcp/${serverPath}`;

  const usage = new UsageRecorder(stores.usage, (err) => log.error({ err }, 'last use not kept'));
  closers.push(() => usage.close());
  const used: UsageRecorder['used'] = (use, usedAt) => usage.used(use, usedAt);

  const failed = (err: unknown) => log.error({ err }, 'calls not counted yet');
  const meter = await CallMeter.open({ rollups: stores.rollups, clock, failed });
  closers.push(() => meter.close());

  const guard = {
    allowedHosts: options.outboundHosts ?? [],
    resolve: (host: string) => lookup(host, { all: true }),
  };
  const { directory, tunnels, upstreamOf, left, endedTokens } = await openUpstreams(
    options,
    { stores, masterKey, tokens, guard, endpointUrl },
    closers,
  );
  const notWritten = (err: unknown) => log.error({ err }, 'refusal not written down');
  const refusals = new CountedRefusals({ audit: stores.audit, clock, failed: notWritten });
  closers.push(() => refusals.flush());
  const admissions = sqliteAdmissions(stores.connection);
  const clientOf = clientsOf({ sealing: masterKey, guard, clock });
  const changes = sqliteChanges(stores.connection);
  const written = () => changes.written();
  const { endConnections } = openSenders(
    { stores, masterKey, guard, clientOf, endedTokens, written, clock, log },
    closers,
  );
  const administration = {
    ...stores,
    clock,
    refusals,
    upstreamSetup: upstreamSetup({ base, sealing: masterKey, guard }),
    webhookSetup: webhookSetup({ sealing: masterKey, guard, clock }),
  };
  const gateway = new Gateway({
    base,
    endpointUrl,
    tokens,
    clock,
    used,
    note: (call) => meter.note(call),
    admissions,
    mac: (text) => masterKey.mac('gateway', text),
    upstreamOf,
    left,
    eras: new TranslatedEras(clock),
    presentationOf: ({ organization, name }) =>
      stores.organizations.serverByName(organization, name),
    isAllowedOrigin: (origin) => isAllowedOrigin(origin, base, options.allowedOrigins),
    refused: (refusal, request, principal) => {
      const { code, details } = refusal;
      const { id } = request;
      const denied = auditedRefusal(refusal, request, principal);
      if (denied) refusals.note(denied).catch(notWritten);
      const level = code === 'fault' || code === 'unavailable' ? 'error' : 'info';
      log[level]({ id, code, detail: details.detail, err: details.cause }, 'call refused');
    },
  });
  closers.push(() => gateway.close());

  const proxyDownload = new ProxyDownload(options.proxy.version, options.proxy.source, {
    nodePath: options.nodePath,
    env: options.env ?? {},
    clock,
    failed: (err) => log.error({ err }, 'no copy of the proxy to hand out'),
  });
  closers.push(async () => proxyDownload.close());
  const proxy = () => proxyDownload.reference(base);
  const fetchDocument =
    options.fetchDocument ?? ((url: string) => fetchText(url, { ...clientDocument, ...guard }));
  const app = createApp({
    ...options,
    keys,
    gateway,
    people: {
      ...stores,
      hashing: passwordHashing(),
      sealing: masterKey,
      refusals,
      identityProvider:
        options.oidc &&
        openIdProvider({ ...options.oidc, redirectUri: base + providerCallbackPath }),
      grantsOf: accountGrantsOf(stores.grants, clock),
      clock,
    },
    administration,
    proxyDownload,
    agents: {
      directory,
      clock,
      refusals,
      hasRoomFor: (agentId) => tunnels.hasRoomFor(agentId),
      accept: socketAcceptor(tunnels),
      used: ({ keyId }) => used({ type: 'key', id: keyId }, clock.now()),
    },
    failedAttempts: new FailedAttempts(clock),
    ports: {
      ...stores,
      base,
      refusals,
      tokens,
      clock,
      endpointUrl,
      used,
      findClient: findClient({ ...stores, base, clock, fetchDocument }),
      isAdmitted: isAdmitted(base, admissions),
    },
    others: [
      (routes) =>
        serverSettingsRoutes(routes, {
          base,
          endpointUrl,
          tokens,
          clock,
          admissions,
          used,
          refusals,
          administration,
          isAllowedOrigin: (origin) => isAllowedOrigin(origin, base, options.allowedOrigins),
        }),
      (routes) =>
        dashboardRoutes(routes, {
          base,
          ports: {
            ...administration,
            sealing: masterKey,
            authorizationClientOf: clientOf,
            tellEnds: () => endConnections.tellNow(),
            changes: changesWithAgents(changes, tunnels),
            presenceOf: (agentId) => tunnels.presenceOf(agentId),
            callServer: consoleCalls(gateway),
            proxy,
          },
        }),
    ],
    ready: async () => void (await sql`select 1`.execute(stores.db)),
  });
  closers.push(() => app.close());
  await app.listen({ host: options.host, port: options.port });

  return {
    stores: {
      ...stores,
      upstreamSetup: administration.upstreamSetup,
      webhookSetup: administration.webhookSetup,
    },
    proxy,
    async close() {
      const late = setTimeout(() => {
        gateway.endAll();
        tunnels.close();
        app.server.closeAllConnections();
      }, drainMs);
      // A connection that becomes idle while others finish is nobody's reason to wait.
      const idle = setInterval(() => app.server.closeIdleConnections(), 200);
      gateway.endEndless();
      tunnels.drain();
      await closeAll(closers);
      clearTimeout(late);
      clearInterval(idle);
    },
  };
}

/** Whether the endpoint that a token is for would let it in, asked as the gateway asks. */
function isAdmitted(base: string, admissions: AdmissionStore) {
  return async (claims: AccessTokenClaims): Promise<boolean> => {
    const { id: tokenId, clientId, grantId, subject: userId, audience } = claims;
    const at = parseServerPath(audience.slice(`${base}/mcp/`.length));
    const grant = grantId === undefined ? undefined : { id: grantId, userId };
    return at
      ? (await admissions.byClient({ ...at, clientId, tokenId, grant })) !== undefined
      : false;
  };
}

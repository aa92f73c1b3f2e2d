import type { LineDestination } from '#activity/call-output';
import type { LocalBus } from '#nodes/local-bus';
import type { OidcOptions } from '#config/oidc-options';
import type { DocumentedClient } from '#db/clients';
import type { ProxySource } from '#download/proxy-download';
import type { Log } from '#log/log';
import type { MetricsAddress } from '#metrics/serve-metrics';
import type { SharedDatabase, SharedFolder } from './open-nodes.ts';
import type { UpstreamOptions } from './open-upstreams.ts';

/** `required`: a call is sent only after its beginning was recorded. */
export const callLogModes = ['on', 'off', 'required'] as const;

export interface CallLogOptions {
  readonly mode: (typeof callLogModes)[number];
  /** Whether lists, `initialize` and all other requests are recorded too. */
  readonly recordsAll: boolean;
  /** The name of this process among those that share the database. */
  readonly node: string;
  /** Where each recorded call is also written as a line of JSON. */
  readonly output?: LineDestination | undefined;
}

/** The options that the operator set, and the environment of the process. */
export interface ServeOptions extends Omit<UpstreamOptions, 'isOwner'> {
  /** The PostgreSQL database that several nodes share; without one, SQLite in `dataDir`. */
  readonly database?: SharedDatabase | undefined;
  /** Set if several processes share the SQLite database. */
  readonly sharedFolder?: SharedFolder | undefined;
  readonly localBus?: LocalBus | undefined;
  readonly log: Log;
  readonly metrics?: MetricsAddress | undefined;
  readonly masterKeyFile: string | undefined;
  readonly host: string;
  readonly port: number;
  readonly trustedProxies: readonly string[];
  readonly allowedOrigins: readonly string[];
  /** The organization of the first owner; if `undefined`, the owner chooses its name. */
  readonly firstOrganization: string | undefined;
  readonly oidc: OidcOptions | undefined;
  /** For how many days the audit log is kept; `undefined` means for ever. */
  readonly auditRetentionDays?: number | undefined;
  /** How calls are recorded for Activity. Default: none are. */
  readonly callLog?: CallLogOptions | undefined;
  readonly maxBodyBytes: number;
  readonly proxy: { readonly version: string; readonly source: ProxySource };
  /** Whether applications may register themselves as OAuth clients. */
  readonly dynamicRegistration?: boolean;
  /** Whether applications are told that a metadata document may describe them; default `true`. */
  readonly announcesClientDocuments?: boolean;
  /** Clients whose metadata documents the operator provided. */
  readonly clientDocuments?: readonly DocumentedClient[];
  /** Hosts inside this network that outbound requests may reach. */
  readonly outboundHosts?: readonly string[];
  /** Fetches a client metadata document; set only by tests. */
  readonly fetchDocument?: (url: string) => Promise<string>;
  readonly requestTimeoutMs?: number;
  /** How long a closing server continues to serve, while it reports that it is not ready. */
  readonly shutdownDelayMs?: number;
}

import type { Clock } from '#clock/clock';
import type { Scope } from '#credentials/scope';
import { UpstreamRefusal, type Upstream } from '#gateway/upstream';
import type { ServerRecord } from '#organizations/server-record';
import type { OutboundGuard } from '#outbound/checked-addresses';
import { guardedFetch, type GuardedFetch } from '#outbound/guarded-fetch';
import type { Sealing } from '#people/sealing';
import type { AccessTokens } from '#signing/access-token';
import { accountPath } from './account-path.ts';
import { authorizationClient, type AuthorizationClient } from './authorization-client.ts';
import { authorizedUpstream, type UpstreamCredentials } from './authorized-upstream.ts';
import { callerAssertion } from './caller-assertion.ts';
import type { EndedTokens } from './ended-tokens.ts';
import { PersonTokens } from './person-tokens.ts';
import { ServerTokens } from './server-tokens.ts';
import { secretPurpose, type UpstreamAccess, type UpstreamAccessStore } from './upstream-access.ts';
import type { UpstreamConnectionStore } from './upstream-connection.ts';

const limits = { timeoutMs: 10_000, maxBytes: 256 * 1024 };

/** Who asks an upstream for something. */
export interface UpstreamCaller {
  /** Absent for what acts for itself: an application with a secret, a key. */
  readonly userId?: string | undefined;
  readonly credentialId: string;
  readonly scopes: readonly Scope[];
}

export interface UpstreamAuthorizationsPorts {
  readonly base: string;
  readonly endpointUrl: (serverPath: string) => string;
  readonly accesses: UpstreamAccessStore;
  readonly connections: UpstreamConnectionStore;
  readonly sealing: Sealing;
  readonly tokens: Pick<AccessTokens, 'issue'>;
  readonly guard: OutboundGuard;
  readonly clock: Clock;
}

/** The fetch with which authorization servers are asked; `vouchedHosts` are those that the operator named. */
export function accessFetch(guard: OutboundGuard, vouchedHosts: readonly string[]): GuardedFetch {
  const allowedHosts = [...guard.allowedHosts, ...vouchedHosts];
  return guardedFetch({ ...limits, ...guard, allowedHosts });
}

/** We as the client of an access, its secret opened for this. */
export function clientsOf({
  sealing,
  guard,
  clock,
}: Pick<UpstreamAuthorizationsPorts, 'sealing' | 'guard' | 'clock'>) {
  return (access: UpstreamAccess): AuthorizationClient => {
    const { sealedClientSecret: sealed } = access;
    const secret = sealed === undefined ? undefined : sealing.open(secretPurpose(access), sealed);
    const ask = accessFetch(guard, access.vouchedHosts);
    return authorizationClient(access, secret, { ask, clock });
  };
}

interface AccessOfServer {
  readonly accessId: string;
  readonly url: string;
  readonly page: string;
  readonly server: ServerRecord;
}

/** Gives upstreams the credentials that they want, of the caller's own account or of ours. */
export class UpstreamAuthorizations {
  readonly #ports: UpstreamAuthorizationsPorts;
  readonly #persons: PersonTokens;
  readonly #servers: ServerTokens;

  constructor(ports: UpstreamAuthorizationsPorts) {
    this.#ports = ports;
    const clientOf = clientsOf(ports);
    this.#persons = new PersonTokens({ ...ports, clientOf });
    this.#servers = new ServerTokens({ ...ports, clientOf });
  }

  /** The same upstream, asked with what it wants; itself where it wants nothing. */
  authorized(upstream: Upstream, server: ServerRecord, caller: UpstreamCaller): Upstream {
    if (server.upstream.kind !== 'http') return upstream;
    const { url, accessId, tellsCallers, headers = [] } = server.upstream;
    if (accessId === undefined && !tellsCallers) return upstream;
    const page = this.#ports.base + accountPath(server);
    return authorizedUpstream(upstream, {
      page,
      isAuthorizationFixed: headers.some(({ name }) => name === 'authorization'),
      ...(tellsCallers && { assertion: () => this.#assertion(url, server, caller) }),
      ...(accessId !== undefined && this.#tokensOf({ accessId, url, page, server }, caller)),
    });
  }

  /** Tokens of ours for accesses that are not in force any more; they are forgotten here. */
  takeEnded(): Promise<readonly EndedTokens[]> {
    return this.#servers.takeEnded();
  }

  #tokensOf(
    { accessId, url, page, server }: AccessOfServer,
    { userId }: UpstreamCaller,
  ): Omit<UpstreamCredentials, 'page'> {
    return {
      token: async (rejected) => {
        const access = await this.#ports.accesses.byId(accessId);
        // A token goes to the URL that it was given for, and to no other, whatever the server's is now.
        if (access?.url !== url) throw new UpstreamRefusal('no_token', page);
        if (access.kind === 'client_credentials')
          return this.#servers.token(access, server, rejected);
        if (userId === undefined) throw new UpstreamRefusal('no_person', page);
        return this.#persons.token(access, userId, rejected);
      },
      stands: async () => {
        const access = await this.#ports.accesses.byId(accessId);
        if (access?.url !== url) return false;
        if (access.kind === 'client_credentials') return true;
        return userId !== undefined && this.#persons.isConnected(access, userId);
      },
    };
  }

  async #assertion(
    url: string,
    { organization, name }: ServerRecord,
    { userId, credentialId, scopes }: UpstreamCaller,
  ) {
    const endpoint = this.#ports.endpointUrl(`${organization}/${name}`);
    const subject = userId ?? credentialId;
    const caller = { subject, clientId: credentialId, scopes, endpoint };
    return callerAssertion(url, caller, this.#ports);
  }
}

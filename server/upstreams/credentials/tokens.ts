// Access tokens for upstreams: those of people, which are stored in the database, and those of servers, which exist only in memory.
import { setTimeout as delay } from 'node:timers/promises';
import {
  claimUpstreamConnection,
  findUpstreamConnection,
  releaseUpstreamConnection,
  renewUpstreamConnection,
  type UpstreamConnection,
} from '#db/upstream-connections';
import { isUpstreamAccessActive, type UpstreamAccess } from '#db/upstream-access';
import type { Db } from '#db/transaction';
import type { Clock, EpochSeconds } from '#model/clock';
import type { ServerRecord } from '#model/endpoints';
import type { Sealing } from '#secrets/master-key';
import { tokensPurpose, UpstreamAccessError } from './access.ts';
import {
  tokensSchema,
  type AuthorizationClient,
  type UpstreamTokens,
} from './authorization-client.ts';

/** Serializes tokens as the text that is sealed. */
export function tokensText({
  accessToken,
  refreshToken,
  renewAt,
  expiresAt,
}: UpstreamTokens): string {
  return JSON.stringify({ accessToken, refreshToken, renewAt, expiresAt });
}

export function readTokens(text: string): UpstreamTokens {
  return tokensSchema.parse(JSON.parse(text));
}

/** A token that expires sooner is not sent, because it could expire before the call arrives. */
const minimumSeconds = 2;

/** Whether it is too early to renew an access token. */
function isFresh({ renewAt }: UpstreamTokens, now: EpochSeconds): boolean {
  return renewAt === undefined || renewAt > now;
}

/** Whether an access token can still be sent. */
function isUsable({ expiresAt }: UpstreamTokens, now: EpochSeconds): boolean {
  return expiresAt === undefined || expiresAt > now + minimumSeconds;
}

/** Longer than a token request may take, so a claim expires only if its process has died. */
const claimSeconds = 30;
const timeoutMs = 20_000;
const pauseMs = 50;

export interface PersonTokensOptions {
  readonly db: Db;
  readonly sealing: Sealing;
  readonly clientOf: (access: UpstreamAccess) => AuthorizationClient;
  readonly clock: Clock;
}

/**
 * The access tokens of people at upstreams. They are looked up on every call, so that the end of a connection takes
 * effect on the next one. They are renewed ahead of their expiry, once for all callers in all processes, because a
 * rotating refresh token can be used only once.
 */
export class PersonTokens {
  readonly #options: PersonTokensOptions;
  readonly #renewing = new Map<string, Promise<unknown>>();

  constructor(options: PersonTokensOptions) {
    this.#options = options;
  }

  /**
   * Returns the person's access token. `rejected` is one that the upstream has just refused; it is not returned again.
   *
   * @throws {UpstreamAccessError} `not_connected`, `unreachable`, `refused`, …
   */
  async token(access: UpstreamAccess, userId: string, rejected?: string): Promise<string> {
    const { db, clock } = this.#options;
    const until = performance.now() + timeoutMs;
    for (;;) {
      const connection = await findUpstreamConnection(db, access.id, userId);
      if (!connection || connection.failedAt !== undefined) throw notConnected();
      const tokens = this.#open(connection);
      const now = clock.now();
      const isRejected = tokens.accessToken === rejected;
      if (!isRejected && isFresh(tokens, now)) return tokens.accessToken;
      const validToken = !isRejected && isUsable(tokens, now) ? tokens.accessToken : undefined;
      const renewed = await this.#renewOnce(access, connection, tokens, validToken !== undefined);
      if (renewed !== undefined) return renewed;
      if (validToken !== undefined) return validToken;
      if (performance.now() > until) {
        throw new UpstreamAccessError(
          'unreachable',
          `${access.metadata.issuer} did not respond in time`,
        );
      }
    }
  }

  async isConnected(access: Pick<UpstreamAccess, 'id'>, userId: string): Promise<boolean> {
    const connection = await findUpstreamConnection(this.#options.db, access.id, userId);
    return connection !== undefined && connection.failedAt === undefined;
  }

  #open(connection: UpstreamConnection): UpstreamTokens {
    return readTokens(
      this.#options.sealing.open(tokensPurpose(connection), connection.sealedTokens),
    );
  }

  /**
   * Renews the tokens and returns the new access token. Returns `undefined` if another caller is renewing them, if the renewal
   * failed while the old token is still valid, or if the connection has ended. Waits for another caller only if the old token is
   * no longer valid.
   */
  async #renewOnce(
    access: UpstreamAccess,
    connection: UpstreamConnection,
    tokens: UpstreamTokens,
    hasValidToken: boolean,
  ): Promise<string | undefined> {
    const { db, clock } = this.#options;
    const { id, version } = connection;
    const known = this.#renewing.get(id);
    if (known) {
      // The caller that renews the tokens reports a failure.
      if (!hasValidToken) await known.catch(() => undefined);
      return undefined;
    }
    const now = clock.now();
    if (!(await claimUpstreamConnection(db, { id, version }, { now, until: now + claimSeconds }))) {
      if (!hasValidToken) await delay(pauseMs);
      return undefined;
    }
    const renewing = this.#renew(access, connection, tokens);
    this.#renewing.set(id, renewing);
    try {
      return await renewing;
    } catch (error) {
      const isTransient = error instanceof UpstreamAccessError && error.code !== 'not_connected';
      if (hasValidToken && isTransient) return undefined;
      throw error;
    } finally {
      this.#renewing.delete(id);
    }
  }

  /** Only the holder of the claim calls this. */
  async #renew(
    access: UpstreamAccess,
    { id, version, ...of }: UpstreamConnection,
    { refreshToken }: UpstreamTokens,
  ): Promise<string | undefined> {
    const { db, sealing, clientOf, clock } = this.#options;
    const at = { id, version };
    if (refreshToken === undefined) {
      await releaseUpstreamConnection(db, at, clock.now());
      throw notConnected();
    }
    const client = clientOf(access);
    const renewed = await client.refresh(refreshToken).catch(async (error: unknown) => {
      const isEnded = error instanceof UpstreamAccessError && error.code === 'ended';
      await releaseUpstreamConnection(db, at, isEnded ? clock.now() : undefined);
      throw isEnded ? notConnected() : error;
    });
    const sealedTokens = sealing.seal(tokensPurpose(of), tokensText(renewed));
    if (await renewUpstreamConnection(db, at, { sealedTokens, now: clock.now() }))
      return renewed.accessToken;
    // The connection ended in the meantime: these tokens must not stay valid at the authorization server.
    await client.revoke(renewed).catch(() => undefined);
    return undefined;
  }
}

function notConnected(): UpstreamAccessError {
  return new UpstreamAccessError('not_connected', 'no account is connected');
}

/** Tokens of an upstream access that was removed or changed. They must be revoked. */
export interface EndedTokens {
  readonly access: UpstreamAccess;
  readonly tokens: UpstreamTokens;
  readonly organization: string | undefined;
  /** The server's name; its id once it is deleted. */
  readonly server: string;
  /** Absent for a server's own tokens. */
  readonly userId?: string | undefined;
}

interface CachedTokens {
  readonly access: UpstreamAccess;
  readonly server: Pick<ServerRecord, 'organization' | 'name'>;
  /** Changes with the access: another secret or scope needs another token. */
  readonly fingerprint: string;
  tokens: UpstreamTokens | undefined;
  request: Promise<UpstreamTokens> | undefined;
}

export type ServerTokensOptions = Omit<PersonTokensOptions, 'sealing'>;

/**
 * The tokens of servers, obtained with client credentials. They exist only in memory, because another one can always be
 * requested. One request, made before the old token expires, serves all callers.
 */
export class ServerTokens {
  readonly #options: ServerTokensOptions;
  readonly #cache = new Map<string, CachedTokens>();
  /** Tokens of upstream accesses that have changed since the tokens were issued. */
  readonly #outdated: CachedTokens[] = [];

  constructor(options: ServerTokensOptions) {
    this.#options = options;
  }

  /**
   * Returns an access token for calls to `server`. `rejected` is one that the upstream has just refused; it is not
   * returned again.
   *
   * @throws {UpstreamAccessError}
   */
  async token(
    access: UpstreamAccess,
    server: CachedTokens['server'],
    rejected?: string,
  ): Promise<string> {
    const cached = this.#cachedFor(access, server);
    if (rejected !== undefined && cached.tokens?.accessToken === rejected)
      cached.tokens = undefined;
    const { tokens } = cached;
    const now = this.#options.clock.now();
    if (tokens && isFresh(tokens, now)) return tokens.accessToken;
    const request = (cached.request ??= this.#request(access, cached));
    if (!tokens || !isUsable(tokens, now)) return (await request).accessToken;
    // The token is still valid, so this caller does not wait for the next one.
    request.catch(() => undefined);
    return tokens.accessToken;
  }

  /** Removes the tokens of upstream accesses that have changed or that no server uses any more. Returns those still valid. */
  async takeEnded(): Promise<EndedTokens[]> {
    const removed = this.#outdated.splice(0);
    for (const [id, cached] of this.#cache) {
      if (await isUpstreamAccessActive(this.#options.db, id)) continue;
      if (this.#cache.get(id) === cached) this.#cache.delete(id);
      removed.push(cached);
    }
    const ended = removed.map(async ({ access, server: at, request, tokens: known }) => {
      const tokens = (await request?.catch(() => undefined)) ?? known;
      if (!tokens || !isUsable(tokens, this.#options.clock.now())) return [];
      return [{ access, tokens, organization: at.organization, server: at.name }];
    });
    return (await Promise.all(ended)).flat();
  }

  #cachedFor(access: UpstreamAccess, server: CachedTokens['server']): CachedTokens {
    const { sealedClientSecret, clientId, scopes, resource, metadata } = access;
    const fingerprint = JSON.stringify([sealedClientSecret, clientId, scopes, resource, metadata]);
    const known = this.#cache.get(access.id);
    if (known?.fingerprint === fingerprint) return known;
    if (known) this.#outdated.push(known);
    const cached: CachedTokens = {
      access,
      server,
      fingerprint,
      tokens: undefined,
      request: undefined,
    };
    this.#cache.set(access.id, cached);
    return cached;
  }

  async #request(access: UpstreamAccess, cached: CachedTokens): Promise<UpstreamTokens> {
    try {
      cached.tokens = await this.#options.clientOf(access).own();
      return cached.tokens;
    } finally {
      cached.request = undefined;
    }
  }
}

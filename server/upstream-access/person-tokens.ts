import { setTimeout as delay } from 'node:timers/promises';

import type { Clock } from '#clock/clock';
import type { Sealing } from '#people/sealing';
import type { AuthorizationClient } from './authorization-client.ts';
import type { UpstreamAccess } from './upstream-access.ts';
import { UpstreamAccessError } from './upstream-access-error.ts';
import {
  tokensPurpose,
  type UpstreamConnection,
  type UpstreamConnectionStore,
} from './upstream-connection.ts';
import {
  isFresh,
  isUsable,
  readTokens,
  tokensText,
  type UpstreamTokens,
} from './upstream-tokens.ts';

/** Longer than a request for tokens takes: who claims and dies blocks nobody for good. */
const claimSeconds = 30;
const patienceMs = 20_000;
const pauseMs = 50;

export interface PersonTokensPorts {
  readonly connections: UpstreamConnectionStore;
  readonly sealing: Sealing;
  readonly clientOf: (access: UpstreamAccess) => AuthorizationClient;
  readonly clock: Clock;
}

/**
 * The access tokens of people at upstreams. Looked up at every call, so that whatever ends a connection counts at the
 * next; renewed ahead of their end, once for however many callers in however many processes, as rotation lets a
 * refresh token be used once.
 */
export class PersonTokens {
  readonly #ports: PersonTokensPorts;
  readonly #renewing = new Map<string, Promise<unknown>>();

  constructor(ports: PersonTokensPorts) {
    this.#ports = ports;
  }

  /**
   * The person's access token. `rejected` is one that the upstream has just refused: it is never handed out again.
   *
   * @throws {UpstreamAccessError} `not_connected`, `unreachable`, `refused`, …
   */
  async token(access: UpstreamAccess, userId: string, rejected?: string): Promise<string> {
    const { connections, clock } = this.#ports;
    const until = performance.now() + patienceMs;
    for (;;) {
      const connection = await connections.of(access.id, userId);
      if (!connection || connection.failedAt !== undefined) throw notConnected();
      const tokens = this.#open(connection);
      const now = clock.now();
      const isRejected = tokens.accessToken === rejected;
      if (!isRejected && isFresh(tokens, now)) return tokens.accessToken;
      const spare = !isRejected && isUsable(tokens, now) ? tokens.accessToken : undefined;
      const renewed = await this.#renewOnce(access, connection, tokens, spare !== undefined);
      if (renewed !== undefined) return renewed;
      if (spare !== undefined) return spare;
      if (performance.now() > until) {
        throw new UpstreamAccessError('unreachable', `${access.metadata.issuer} takes too long`);
      }
    }
  }

  /** Whether the person is connected at this moment. */
  async isConnected(access: Pick<UpstreamAccess, 'id'>, userId: string): Promise<boolean> {
    const connection = await this.#ports.connections.of(access.id, userId);
    return connection !== undefined && connection.failedAt === undefined;
  }

  #open(connection: UpstreamConnection): UpstreamTokens {
    return readTokens(this.#ports.sealing.open(tokensPurpose(connection), connection.sealedTokens));
  }

  /** `undefined`: somebody else renews them, look again. Who has a token that still counts waits for nobody. */
  async #renewOnce(
    access: UpstreamAccess,
    connection: UpstreamConnection,
    tokens: UpstreamTokens,
    hasSpare: boolean,
  ): Promise<string | undefined> {
    const { connections, clock } = this.#ports;
    const { id, version } = connection;
    const known = this.#renewing.get(id);
    if (known) {
      // Its failure is its caller's to tell.
      if (!hasSpare) await known.catch(() => undefined);
      return undefined;
    }
    const now = clock.now();
    if (!(await connections.claim({ id, version }, { now, until: now + claimSeconds }))) {
      if (!hasSpare) await delay(pauseMs);
      return undefined;
    }
    const renewing = this.#renew(access, connection, tokens);
    this.#renewing.set(id, renewing);
    try {
      return await renewing;
    } catch (error) {
      const isPassing = error instanceof UpstreamAccessError && error.code !== 'not_connected';
      if (hasSpare && isPassing) return undefined;
      throw error;
    } finally {
      this.#renewing.delete(id);
    }
  }

  /** By whoever holds the claim. */
  async #renew(
    access: UpstreamAccess,
    { id, version, ...of }: UpstreamConnection,
    { refreshToken }: UpstreamTokens,
  ): Promise<string | undefined> {
    const { connections, sealing, clientOf, clock } = this.#ports;
    const at = { id, version };
    if (refreshToken === undefined) {
      await connections.release(at, clock.now());
      throw notConnected();
    }
    const client = clientOf(access);
    const renewed = await client.refresh(refreshToken).catch(async (error: unknown) => {
      const isEnded = error instanceof UpstreamAccessError && error.code === 'ended';
      await connections.release(at, isEnded ? clock.now() : undefined);
      throw isEnded ? notConnected() : error;
    });
    const sealedTokens = sealing.seal(tokensPurpose(of), tokensText(renewed));
    if (await connections.renew(at, { sealedTokens, now: clock.now() })) return renewed.accessToken;
    // Disconnected meanwhile: what came too late must not go on counting there.
    await client.revoke(renewed).catch(() => undefined);
    return undefined;
  }
}

function notConnected(): UpstreamAccessError {
  return new UpstreamAccessError('not_connected', 'no account is connected');
}

import type { Clock } from '#clock/clock';
import type { ServerRecord } from '#organizations/server-record';
import type { AuthorizationClient } from './authorization-client.ts';
import type { EndedTokens } from './ended-tokens.ts';
import type { UpstreamAccess, UpstreamAccessStore } from './upstream-access.ts';
import { isFresh, isUsable, type UpstreamTokens } from './upstream-tokens.ts';

interface Kept {
  readonly access: UpstreamAccess;
  readonly server: Pick<ServerRecord, 'organization' | 'name'>;
  /** Of which access in which form: another secret or scope is another one. */
  readonly form: string;
  tokens: UpstreamTokens | undefined;
  asking: Promise<UpstreamTokens> | undefined;
}

export interface ServerTokensPorts {
  readonly clientOf: (access: UpstreamAccess) => AuthorizationClient;
  readonly accesses: Pick<UpstreamAccessStore, 'isInForce'>;
  readonly clock: Clock;
}

/**
 * Tokens that upstreams take from us ourselves: client credentials. Kept in memory alone, as another one is always
 * to be had; one request for however many callers, ahead of the old one's end.
 */
export class ServerTokens {
  readonly #ports: ServerTokensPorts;
  readonly #kept = new Map<string, Kept>();
  /** Of an access that has another form by now. */
  readonly #outdated: Kept[] = [];

  constructor(ports: ServerTokensPorts) {
    this.#ports = ports;
  }

  /**
   * An access token for calls to `server`. `rejected` is one that the upstream has just refused: it is never handed
   * out again.
   *
   * @throws {UpstreamAccessError}
   */
  async token(access: UpstreamAccess, server: Kept['server'], rejected?: string): Promise<string> {
    const kept = this.#keptFor(access, server);
    if (rejected !== undefined && kept.tokens?.accessToken === rejected) kept.tokens = undefined;
    const { tokens } = kept;
    const now = this.#ports.clock.now();
    if (tokens && isFresh(tokens, now)) return tokens.accessToken;
    const asking = (kept.asking ??= this.#ask(access, kept));
    if (!tokens || !isUsable(tokens, now)) return (await asking).accessToken;
    // It still counts: whoever waits for the next one is a later caller.
    asking.catch(() => undefined);
    return tokens.accessToken;
  }

  /** Tokens that still count there, of accesses that are not in force any more; they are forgotten here. */
  async takeEnded(): Promise<EndedTokens[]> {
    const over = this.#outdated.splice(0);
    for (const [id, kept] of this.#kept) {
      if (await this.#ports.accesses.isInForce(id)) continue;
      if (this.#kept.get(id) === kept) this.#kept.delete(id);
      over.push(kept);
    }
    const ended = over.map(async ({ access, server: at, asking, tokens: known }) => {
      const tokens = (await asking?.catch(() => undefined)) ?? known;
      if (!tokens || !isUsable(tokens, this.#ports.clock.now())) return [];
      return [{ access, tokens, organization: at.organization, server: at.name }];
    });
    return (await Promise.all(ended)).flat();
  }

  #keptFor(access: UpstreamAccess, server: Kept['server']): Kept {
    const { sealedClientSecret, clientId, scopes, resource, metadata } = access;
    const form = JSON.stringify([sealedClientSecret, clientId, scopes, resource, metadata]);
    const known = this.#kept.get(access.id);
    if (known?.form === form) return known;
    if (known) this.#outdated.push(known);
    const kept: Kept = { access, server, form, tokens: undefined, asking: undefined };
    this.#kept.set(access.id, kept);
    return kept;
  }

  async #ask(access: UpstreamAccess, kept: Kept): Promise<UpstreamTokens> {
    try {
      kept.tokens = await this.#ports.clientOf(access).own();
      return kept.tokens;
    } finally {
      kept.asking = undefined;
    }
  }
}

import type { Clock } from '#clock/clock';
import type { AuthorizationClient } from './authorization-client.ts';
import type { UpstreamAccess } from './upstream-access.ts';
import { isFresh, isUsable, type UpstreamTokens } from './upstream-tokens.ts';

interface Kept {
  /** Of which access in which form: another secret or scope is another one. */
  readonly form: string;
  tokens: UpstreamTokens | undefined;
  asking: Promise<UpstreamTokens> | undefined;
}

/**
 * Tokens that upstreams take from us ourselves: client credentials. Kept in memory alone, as another one is always
 * to be had; one request for however many callers, ahead of the old one's end.
 */
export class ServerTokens {
  readonly #clientOf: (access: UpstreamAccess) => AuthorizationClient;
  readonly #clock: Clock;
  readonly #kept = new Map<string, Kept>();

  constructor({
    clientOf,
    clock,
  }: {
    clientOf: (access: UpstreamAccess) => AuthorizationClient;
    clock: Clock;
  }) {
    this.#clientOf = clientOf;
    this.#clock = clock;
  }

  /**
   * An access token. `rejected` is one that the upstream has just refused: it is never handed out again.
   *
   * @throws {UpstreamAccessError}
   */
  async token(access: UpstreamAccess, rejected?: string): Promise<string> {
    const kept = this.#keptFor(access);
    if (rejected !== undefined && kept.tokens?.accessToken === rejected) kept.tokens = undefined;
    const { tokens } = kept;
    const now = this.#clock.now();
    if (tokens && isFresh(tokens, now)) return tokens.accessToken;
    const asking = (kept.asking ??= this.#ask(access, kept));
    if (!tokens || !isUsable(tokens, now)) return (await asking).accessToken;
    // It still counts: whoever waits for the next one is a later caller.
    asking.catch(() => undefined);
    return tokens.accessToken;
  }

  #keptFor(access: UpstreamAccess): Kept {
    const { sealedClientSecret, clientId, scopes, resource, metadata } = access;
    const form = JSON.stringify([sealedClientSecret, clientId, scopes, resource, metadata]);
    const known = this.#kept.get(access.id);
    if (known?.form === form) return known;
    const kept: Kept = { form, tokens: undefined, asking: undefined };
    this.#kept.set(access.id, kept);
    return kept;
  }

  async #ask(access: UpstreamAccess, kept: Kept): Promise<UpstreamTokens> {
    try {
      kept.tokens = await this.#clientOf(access).own();
      return kept.tokens;
    } finally {
      kept.asking = undefined;
    }
  }
}

import { createLocalJWKSet, errors, type JWTVerifyGetKey } from 'jose';
import { z } from 'zod';

import type { Clock, EpochSeconds } from '#model/clock';
import { LimitedMap } from '#model/limited-map';
import { isNamed, OutboundError, type OutboundGuard } from '#outbound/checked-addresses';
import { fetchText } from '#outbound/guarded-fetch';

/** Where the keys of an issuer are. */
export type KeySource =
  /** At the URL that the configuration of the issuer names. OpenID Connect Discovery §4, RFC 8414 §3 */
  | { readonly type: 'issuer'; readonly issuer: string }
  | { readonly type: 'url'; readonly url: string }
  /** A JWK set, as JSON text. */
  | { readonly type: 'inline'; readonly jwks: string };

type RemoteSource = Exclude<KeySource, { type: 'inline' }>;

/** The source of the keys of an issuer, as an organization configured it. */
export function keySource({
  issuer,
  keysUrl,
  jwks,
}: {
  readonly issuer: string;
  readonly keysUrl: string | undefined;
  readonly jwks?: string | undefined;
}): KeySource {
  if (jwks !== undefined) return { type: 'inline', jwks };
  return keysUrl === undefined ? { type: 'issuer', issuer } : { type: 'url', url: keysUrl };
}

const limits = { timeoutMs: 5000, maxBytes: 256 * 1024 };
const mostSources = 1000;
const mostKeys = 100;
/** A key that its issuer removed is accepted for this long at most, if the keys can be read again. */
const keyLifeSeconds = 600;
/** If the keys cannot be read again, the cached ones are used for this long. */
const staleLifeSeconds = 3600;
/** The shortest time between two reads of the same source because of an unknown key or a failure. */
const pauseSeconds = 30;

interface ReadKeys {
  readonly keyOf: JWTVerifyGetKey;
  readonly readAt: EpochSeconds;
}

interface Known {
  keys?: ReadKeys;
  reading?: Promise<ReadKeys>;
  failure?: { readonly error: unknown; readonly at: EpochSeconds };
}

/**
 * Reads the keys of issuers through the guard for outbound requests, and caches them. A token with an unknown key causes them to be
 * read again, for each source at most once in thirty seconds, and once for all who wait.
 *
 * RFC 7517 §5
 */
export function issuerKeys({
  guard,
  clock,
}: {
  readonly guard: OutboundGuard;
  readonly clock: Clock;
}) {
  const sources = new LimitedMap<string, Known>(mostSources);

  const fetchKeys = async (source: RemoteSource): Promise<ReadKeys> => {
    const url = source.type === 'url' ? source.url : await discover(source.issuer, guard);
    return { keyOf: keySet(await fetchJson(url, guard)), readAt: clock.now() };
  };

  const read = (known: Known, source: RemoteSource) => {
    const now = clock.now();
    const { failure } = known;
    if (!known.reading && failure && failure.at > now - pauseSeconds) throw failure.error;
    known.reading ??= fetchKeys(source)
      .then((keys) => {
        delete known.failure;
        return (known.keys = keys);
      })
      .catch((error: unknown) => {
        known.failure = { error, at: clock.now() };
        throw error;
      })
      .finally(() => delete known.reading);
    return known.reading;
  };

  const current = async (known: Known, source: RemoteSource): Promise<ReadKeys> => {
    const { keys } = known;
    const age = keys ? ageOf(keys) : Infinity;
    if (keys && age < keyLifeSeconds) return keys;
    try {
      return await read(known, source);
    } catch (error) {
      if (keys && age < staleLifeSeconds) return keys;
      throw error;
    }
  };

  const ageOf = ({ readAt }: ReadKeys) => clock.now() - readAt;

  return {
    /** An object that identifies the cached keys, with which `keyOf` needs no request. `undefined` if `keyOf` has to read keys first. */
    current(source: KeySource): object | undefined {
      const keys = sources.get(JSON.stringify(source))?.keys;
      return keys && ageOf(keys) < keyLifeSeconds ? keys : undefined;
    },

    /** Returns the key of a token's header, for `jwtVerify`. Rejects with `OutboundError` when the keys cannot be read. */
    keyOf(source: KeySource): JWTVerifyGetKey {
      if (source.type === 'inline') return keySet(JSON.parse(source.jwks));
      const name = JSON.stringify(source);
      const known = sources.get(name) ?? {};
      sources.set(name, known);
      return async (header, token) => {
        const keys = await current(known, source);
        try {
          return await keys.keyOf(header, token);
        } catch (error) {
          if (!(error instanceof errors.JWKSNoMatchingKey)) throw error;
          const isNew = (known.keys ?? keys).readAt > keys.readAt;
          if (!isNew && keys.readAt > clock.now() - pauseSeconds) throw error;
          const again = isNew ? (known.keys ?? keys) : await read(known, source);
          return again.keyOf(header, token);
        }
      };
    },
  };
}

/** The public keys of other issuers. */
export type IssuerKeys = ReturnType<typeof issuerKeys>;

async function fetchJson(text: string, guard: OutboundGuard): Promise<unknown> {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || (url.protocol !== 'https:' && !isNamed(url, guard.allowedHosts))) {
    throw new OutboundError('forbidden', 'keys are read over https only');
  }
  try {
    return JSON.parse(await fetchText(text, { ...limits, ...guard }));
  } catch (cause) {
    if (cause instanceof OutboundError) throw cause;
    throw new OutboundError('refused', `${url.hostname} did not respond with JSON`, { cause });
  }
}

const keySetSchema = z.object({
  keys: z.array(z.looseObject({ kty: z.string() })).max(mostKeys),
});

/** Keys that are not for asymmetric signatures are ignored. */
function keySet(document: unknown): JWTVerifyGetKey {
  const { success, data } = keySetSchema.safeParse(document);
  if (!success) throw new OutboundError('refused', 'the keys are not a JWK set');
  const keys = data.keys.filter(({ kty }) => kty === 'RSA' || kty === 'EC' || kty === 'OKP');
  return createLocalJWKSet({ keys });
}

const configurationSchema = z.looseObject({ issuer: z.string(), jwks_uri: z.string() });

/** The URL of the keys of an issuer. OpenID Connect Discovery §4.1, RFC 8414 §3.1 */
async function discover(issuer: string, guard: OutboundGuard): Promise<string> {
  const path = issuer.replace(/\/$/, '');
  const { origin, pathname } = new URL(path);
  const tail = pathname === '/' ? '' : pathname;
  const document = await fetchJson(`${path}/.well-known/openid-configuration`, guard).catch(
    (error: unknown) => {
      if (!(error instanceof OutboundError) || error.code !== 'refused') throw error;
      return fetchJson(`${origin}/.well-known/oauth-authorization-server${tail}`, guard);
    },
  );
  const { success, data } = configurationSchema.safeParse(document);
  if (success && data.issuer === issuer) return data.jwks_uri;
  throw new OutboundError('refused', 'the configuration of the issuer names another issuer');
}

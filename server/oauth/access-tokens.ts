import { hash, sign } from 'node:crypto';

import { jwtVerify } from 'jose';
import { z } from 'zod';

import type { Clock, EpochSeconds } from '#model/clock';
import { accessTokenLifeSeconds } from '#model/lifetimes';
import { LimitedMap } from '#model/limited-map';
import { isScope, scopeWords, formatScopes, type Scope } from '#model/scopes';
import type { SigningKeys } from './signing-keys.ts';

/** An access token's claims. RFC 9068 §2.2 */
export interface AccessTokenClaims {
  /** `jti` */
  readonly id: string;
  readonly subject: string;
  readonly clientId: string;
  /**
   * `grant_id`, a private claim: the grant of a person, or the bundle of grants if the token is for the list of servers. Absent when
   * the client acts on its own behalf.
   */
  readonly grantId?: string | undefined;
  /** Exactly one MCP endpoint URL, or the URL of the list of servers. */
  readonly audience: string;
  readonly scopes: readonly Scope[];
  /**
   * A private claim: the MCP endpoint through which another server is called. Present in identity assertions, never
   * read here.
   */
  readonly endpoint?: string | undefined;
  readonly issuedAt: EpochSeconds;
  readonly expiresAt: EpochSeconds;
}

export type Verdict =
  | { readonly outcome: 'valid'; readonly claims: AccessTokenClaims }
  | { readonly outcome: 'invalid'; readonly reason: string };

/** Issues and verifies access tokens: JWTs of type `at+jwt`, signed with Ed25519. RFC 9068 */
export interface AccessTokens {
  issue(claims: AccessTokenClaims): string;

  /** Checks signature and expiry, but neither revocation nor audience. Returns no promise for a token that was verified before. */
  verify(token: string): Verdict | Promise<Verdict>;
}

const maxTokenLength = 4096;
/** Asks the store for keys that another process has added. May do nothing if it asked recently. */
export type RefreshKeys = () => Promise<void>;

const maxRemembered = 10_000;
const canonicalJwt = /^[\w-]+\.[\w-]+\.[\w-]{85}[AQgw]$/;

export function accessTokens(
  issuer: string,
  { keys, refreshKeys, clock }: { keys: SigningKeys; refreshKeys?: RefreshKeys; clock: Clock },
): AccessTokens {
  const verified = new LimitedMap<
    string,
    { readonly kid: string; readonly claims: AccessTokenClaims }
  >(maxRemembered);
  /** The header of tokens, for the latest key. */
  let header = { kid: '', text: '' };

  async function check(token: string, digest: string): Promise<Verdict> {
    // A 64-byte signature in base64url leaves four bits of its last character unused. Of the sixteen spellings only
    // one is accepted, so that a revoked token cannot come back under another one.
    if (token.length > maxTokenLength) return { outcome: 'invalid', reason: 'too long' };
    if (!canonicalJwt.test(token)) return { outcome: 'invalid', reason: 'not a JWT of ours' };
    try {
      const { payload, protectedHeader } = await jwtVerify(
        token,
        async ({ kid = '' }) => {
          // Another process may have created this key a moment ago.
          if (!keys.publicKeys.has(kid)) await refreshKeys?.();
          const key = keys.publicKeys.get(kid);
          if (!key) throw new Error('unknown kid');
          return key;
        },
        {
          algorithms: ['EdDSA'],
          typ: 'at+jwt',
          issuer,
          currentDate: new Date(clock.now() * 1000),
        },
      );
      const claims = readClaims(payload);
      verified.set(digest, { kid: protectedHeader.kid ?? '', claims });
      return { outcome: 'valid', claims };
    } catch (error) {
      return { outcome: 'invalid', reason: error instanceof Error ? error.message : 'unreadable' };
    }
  }

  return {
    issue({ id, subject, clientId, grantId, audience, scopes, endpoint, issuedAt, expiresAt }) {
      const own = {
        ...(grantId !== undefined && { grant_id: grantId }),
        ...(endpoint !== undefined && { endpoint }),
      };
      const { kid, privateKey } = keys.current;
      const payload = {
        client_id: clientId,
        scope: formatScopes(scopes),
        ...own,
        iss: issuer,
        sub: subject,
        aud: audience,
        iat: issuedAt,
        exp: expiresAt,
        jti: id,
      };
      if (header.kid !== kid) header = { kid, text: encoded({ typ: 'at+jwt', alg: 'EdDSA', kid }) };
      const signed = `${header.text}.${encoded(payload)}`;
      return `${signed}.${sign(null, Buffer.from(signed), privateKey).toString('base64url')}`;
    },

    verify(token) {
      const digest = hash('sha256', token, 'base64url');
      const known = verified.get(digest);
      // A token does not outlive the key that signed it.
      if (known && keys.publicKeys.has(known.kid) && known.claims.expiresAt > clock.now())
        return { outcome: 'valid', claims: known.claims };
      verified.delete(digest);
      return check(token, digest);
    },
  };
}

/**
 * A part of a JWS. This module signs tokens itself, because `node:crypto` signs synchronously and in half the time of WebCrypto,
 * which `jose` uses. Verifying is left to `jose`. RFC 7515 §3.1, RFC 8037 §3.1
 */
function encoded(part: object): string {
  return Buffer.from(JSON.stringify(part)).toString('base64url');
}

const claimsSchema = z.object({
  jti: z.string(),
  sub: z.string(),
  client_id: z.string(),
  grant_id: z.string().optional(),
  aud: z.string(),
  scope: z.string(),
  iat: z.int(),
  exp: z.int(),
});

function readClaims(payload: unknown): AccessTokenClaims {
  const { jti, sub, client_id, grant_id, aud, scope, iat, exp } = claimsSchema.parse(payload);
  if (exp - iat > accessTokenLifeSeconds) throw new Error('issued for too long');
  return {
    id: jti,
    subject: sub,
    clientId: client_id,
    ...(grant_id !== undefined && { grantId: grant_id }),
    audience: aud,
    scopes: scopeWords(scope).filter(isScope),
    issuedAt: iat,
    expiresAt: exp,
  };
}

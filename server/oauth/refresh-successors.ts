import { hkdfSync } from 'node:crypto';

import { spendRefreshToken } from '#db/grants';
import { masterKey } from '#secrets/master-key';
import { hashSecret, mintSecret } from '#secrets/secrets';
import { OAuthError } from './oauth-error.ts';
import { refreshTokenLifeSeconds } from '#model/lifetimes';
import type { GrantContext } from './token-response.ts';

const graceSeconds = 30;

/**
 * Exchanges an existing refresh token for its successor. Within `graceSeconds` of the first use, the same successor is returned again.
 *
 * @returns `undefined` if a later use shows that the token was stolen
 * @throws {OAuthError} `invalid_grant` if the successor was used, too
 */
export async function successorOf(
  presented: string,
  { db, clock }: Pick<GrantContext, 'db' | 'clock'>,
): Promise<string | undefined> {
  const successor = mintSecret('rt_');
  const spending = await spendRefreshToken(
    db,
    hashSecret(presented),
    {
      hash: hashSecret(successor),
      sealed: sealSuccessor(successor, presented),
      expiresAt: clock.now() + refreshTokenLifeSeconds,
    },
    clock.now(),
  );
  if (spending.outcome === 'spent') return successor;
  if (clock.now() - spending.at > graceSeconds) return undefined;
  if (spending.successorUsed) throw invalidRefreshToken('its successor was already used');
  return openSuccessor(spending.sealedSuccessor, presented);
}

export function invalidRefreshToken(why: string): OAuthError {
  return new OAuthError('invalid_grant', `invalid refresh token: ${why}`);
}

const purpose = 'refresh token successor';

/**
 * Encrypts the successor under a key derived from its refresh token, so that only the holder of that token can read
 * it.
 */
function sealSuccessor(successor: string, refreshToken: string): string {
  return keyOf(refreshToken).seal(purpose, successor);
}

function openSuccessor(sealed: string, refreshToken: string): string {
  return keyOf(refreshToken).open(purpose, sealed);
}

/** RFC 5869. The token has 178 random bits, so it needs no salt. */
function keyOf(refreshToken: string) {
  return masterKey(new Uint8Array(hkdfSync('sha256', refreshToken, '', purpose, 32)));
}

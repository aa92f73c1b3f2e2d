import { hkdfSync } from 'node:crypto';

import { masterKey } from '#signing/master-key';

const purpose = 'refresh token successor';

/** Keeps a refresh token's successor so that only whoever has the token itself can read it. */
export function sealSuccessor(successor: string, refreshToken: string): string {
  return keyOf(refreshToken).seal(purpose, successor);
}

export function openSuccessor(sealed: string, refreshToken: string): string {
  return keyOf(refreshToken).open(purpose, sealed);
}

/** RFC 5869; the token is 178 random bits, so it needs no salt. */
function keyOf(refreshToken: string) {
  return masterKey(new Uint8Array(hkdfSync('sha256', refreshToken, '', purpose, 32)));
}

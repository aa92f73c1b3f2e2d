import { randomInt } from 'node:crypto';

import { hashSecret } from '#credentials/secret-format';

const howMany = 10;
const characters = 16;

/** No letter that is read as a digit, nor a digit that is read as a letter. Crockford's Base32 */
const alphabet = '0123456789abcdefghjkmnpqrstvwxyz';

/** Ten codes for when the authenticator is lost, 80 random bits each: `k3f9-…`. Shown once. */
export function mintRecoveryCodes(): string[] {
  return Array.from({ length: howMany }, () => {
    const code = Array.from({ length: characters }, () => alphabet[randomInt(alphabet.length)]);
    return code.join('').replaceAll(/(.{4})(?=.)/g, '$1-');
  });
}

/** What is kept of a code, however somebody types it; `undefined` for what cannot be one. */
export function recoveryHash(userId: string, typed: string): string | undefined {
  const code = typed
    .toLowerCase()
    .replaceAll(/[\s-]/g, '')
    .replaceAll('o', '0')
    .replaceAll(/[il]/g, '1');
  const isOne = code.length === characters && /^[0-9a-hjkmnp-tv-z]+$/.test(code);
  return isOne ? hashSecret(`recovery ${userId} ${code}`) : undefined;
}

import { readFileSync } from 'node:fs';

import { jwksField, jwksOf } from '#administration/jwks-field';
import { CommandError, UsageError } from '#config/usage-error';

/**
 * The JWK set in a file.
 *
 * @throws {CommandError} when the file cannot be read
 * @throws {UsageError} when it holds something else, or a private key
 */
export function readJwks(file: string): unknown {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (cause) {
    throw new CommandError(`--jwks ${file} cannot be read`, undefined, { cause });
  }
  const jwks = jwksOf(text);
  const { success, error } = jwksField.safeParse(jwks);
  if (success) return jwks;
  const secret = error.issues.find(({ code }) => code === 'custom');
  if (secret) throw new UsageError(`--jwks ${file}: ${secret.path.join('.')} ${secret.message}`);
  throw new UsageError(`--jwks ${file} is not a JWK set: {"keys":[…]}`);
}

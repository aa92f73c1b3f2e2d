// The public keys with which a client proves itself, as a field and as a file.

import { z } from 'zod';

import { readNamedFile } from '#config/named-file';
import { UsageError } from '#config/usage-error';
import { type FieldControl, surfaces } from './fields.ts';

const privateMembers = ['d', 'p', 'q', 'dp', 'dq', 'qi', 'oth', 'k'];

/** A JWK set of public keys. RFC 7517 §5 */
export const jwksField = z
  .object({
    keys: z
      .array(
        z.looseObject({ kty: z.string() }).superRefine((key, context) => {
          if (!privateMembers.some((member) => member in key)) return;
          context.addIssue({
            code: 'custom',
            message: 'is a private or shared key: provide only the public key',
          });
        }),
      )
      .min(1)
      .max(20),
  })
  .meta({ id: 'Jwks' });

/** The attributes of a control for code. */
export const codeAttributes = { class: 'code-like', spellcheck: 'false', autocapitalize: 'none' };

/** The keys of a new client, which can have a secret instead. */
export function clientKeysField(
  shown: Pick<FieldControl, 'help' | 'optional' | 'when'> & { readonly rows: number },
) {
  return jwksField
    .optional()
    .describe('The client’s public keys (private_key_jwt), instead of a secret')
    .register(surfaces, {
      option: {
        value: 'FILE',
        doc: 'the client’s public keys, instead of a secret',
        read: readJwks,
      },
      control: {
        ...shown,
        kind: 'textarea',
        label: 'Public keys',
        subject: 'The JWK set',
        attributes: codeAttributes,
        read: jwksOf,
      },
    });
}

/** Parses a text as a JWK set, which `jwksField` then validates. Returns the text itself if it is not JSON. */
export function jwksOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/**
 * Reads a JWK set from a file.
 *
 * @throws {CommandError} when the file cannot be read
 * @throws {UsageError} when it does not contain a JWK set, or contains a private key
 */
export function readJwks(file: string): unknown {
  const jwks = jwksOf(readNamedFile({ option: 'jwks', file }));
  const { success, error } = jwksField.safeParse(jwks);
  if (success) return jwks;
  const secret = error.issues.find(({ code }) => code === 'custom');
  if (secret) throw new UsageError(`--jwks ${file}: ${secret.path.join('.')} ${secret.message}`);
  throw new UsageError(`--jwks ${file} is not a JWK set: {"keys":[…]}`);
}

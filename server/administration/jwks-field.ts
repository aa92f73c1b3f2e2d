import { z } from 'zod';

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
            message: 'is a private or shared key: keep that to yourself, and give the public part',
          });
        }),
      )
      .min(1)
      .max(20),
  })
  .meta({ id: 'Jwks' });

/** The JWK set that a text holds, for `jwksField` to check; the text itself where it is no JSON. */
export function jwksOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

import { z } from 'zod';

import { checkRedirectUri } from '#credentials/redirect-uri';
import { allScopes } from '#credentials/scope';
import { slugPattern } from '#organizations/slug';

const slug = z
  .string()
  .regex(slugPattern, 'must be lower-case letters, digits and hyphens, at most 63');

/** A text of one line that a person typed, in any script. */
export function words(most: number) {
  return z
    .string()
    .trim()
    .max(most)
    .regex(/^\P{Cc}*$/u, 'may hold no line break or other control character');
}

/**
 * A whole number; a form and a query send it as text. What stands for nothing elsewhere, as `null` or an empty text, is
 * no zero here: a secret that ends in no days ends at once.
 */
export function wholeNumber(least?: number, most?: number) {
  const number = (value: unknown) =>
    typeof value === 'string' && value.trim() !== '' ? Number(value) : value;
  const { MIN_SAFE_INTEGER, MAX_SAFE_INTEGER } = Number;
  return z.preprocess(
    number,
    z
      .int()
      .min(least ?? MIN_SAFE_INTEGER)
      .max(most ?? MAX_SAFE_INTEGER),
  );
}

/** Fields that mean the same wherever they stand. */
export const fields = {
  organization: slug.describe('The name of the organization'),
  server: slug.describe('The name of the server'),
  agent: slug.describe('The name of the agent'),
  slug,
  name: words(200).min(1),
  clientId: z.string().max(2000),
  keyId: z.string().max(100),
  scopes: z
    .array(z.enum(allScopes))
    .min(1)
    .transform((scopes) => allScopes.filter((scope) => scopes.includes(scope))),
  redirectUris: z
    .array(
      z
        .string()
        .max(2000)
        .superRefine((uri, context) => {
          const problem = checkRedirectUri(uri);
          if (problem !== undefined) context.addIssue({ code: 'custom', message: problem });
        }),
    )
    .max(50)
    .transform((uris) => [...new Set(uris)]),
  /** Days from now. */
  days: (least: number, most: number) => wholeNumber(least, most),
  at: z.int().describe('Seconds since 1970'),
  maybeAt: z.int().nullable().describe('Seconds since 1970'),
} as const;

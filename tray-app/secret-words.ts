import type { ConnectionView } from '#contract';

/** What can be rotated of a connection, in words: whoever signs in may do so by a client with a secret. */
export function secretWords({ as }: Pick<ConnectionView, 'as'>): string {
  return as === 'api_key' ? 'API key' : 'client secret';
}

import type { FastifyRequest } from 'fastify';

/** A parameter of the URL that is there exactly once. */
export function queryText({ query }: FastifyRequest, name: string): string | undefined {
  if (typeof query !== 'object' || query === null) return undefined;
  const value: unknown = Reflect.get(query, name);
  return typeof value === 'string' ? value : undefined;
}

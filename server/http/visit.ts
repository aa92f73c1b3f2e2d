import type { FastifyRequest } from 'fastify';

import type { Visit } from '#people/visit';

/** Where a request came from. */
export function visitOf({ ip, id, headers }: FastifyRequest): Visit {
  return { address: ip, requestId: id, userAgent: headers['user-agent'] ?? '' };
}

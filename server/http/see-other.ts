import type { FastifyReply } from 'fastify';

/**
 * Leads the browser on to one of our own pages, by a GET whatever it sent. Never kept in a cache, as it answers what
 * a person just did.
 *
 * RFC 9110 §15.4.4
 */
export function seeOther(reply: FastifyReply, path: string): FastifyReply {
  return reply.header('Cache-Control', 'no-store').redirect(path, 303);
}

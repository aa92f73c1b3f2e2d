import type { FastifyRequest } from 'fastify';

import type { Actor } from '#administration/actor';
import type { CurrentPerson } from '#http/current-person';
import { visitOf } from '#http/visit';

/** A person who looks at a page, for `perform`. */
export function personActor({ user, session }: CurrentPerson, request: FastifyRequest): Actor {
  const { address, requestId } = visitOf(request);
  const { createdAt: provedAt, factors } = session;
  return { type: 'person', userId: user.id, provedAt, factors, address, requestId };
}

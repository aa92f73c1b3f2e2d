import type { FastifyReply, FastifyRequest } from 'fastify';

import type { CurrentPerson, CurrentPersonOf } from './current-person.ts';
import { seeOther } from './see-other.ts';

/**
 * Who looks at a page that is for people who are signed in. `undefined` when nobody is; then the reply is
 * a redirect to the sign-in page, and from there back to a page that was asked for by GET.
 */
export async function signedIn(
  request: FastifyRequest,
  reply: FastifyReply,
  currentPerson: CurrentPersonOf,
): Promise<CurrentPerson | undefined> {
  const person = await currentPerson(request);
  if (person) return person;
  const back = request.method === 'GET' ? request.url : '/account';
  void seeOther(reply, `/sign-in?next=${encodeURIComponent(back)}`);
  return undefined;
}

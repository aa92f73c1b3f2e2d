import type { FastifyReply, FastifyRequest } from 'fastify';

import type { AuditLog } from '#audit/audit-log';
import { dashboardPath } from '#pages/dashboard-frame';
import { errorPage, type ErrorPageData } from '#pages/error-page';
import { PeopleRefusal } from '#people/people-refusal';
import { currentPersonOf, type CurrentPersonPorts } from './current-person.ts';
import { pageErrorAnswer, toDashboard } from './page-error-answer.ts';
import { toSignIn } from './plain-error-page.ts';
import { sendPage, type PageOptions } from './send-page.ts';
import { visitOf } from './visit.ts';

/** Who looks at a page, and where it is. */
export type Surroundings = Pick<PageOptions, 'person' | 'scripts' | 'dashboard'>;

/** What stands around the page that says what went wrong; `undefined` where that is all. */
export type SurroundingsOf = (request: FastifyRequest) => Promise<Surroundings | undefined>;

export type PageErrorsPorts = CurrentPersonPorts & { readonly audit: Pick<AuditLog, 'append'> };

/**
 * Answers what went wrong on a page by a page, and to our scripts by its one sentence. A forged form is
 * noted for whom it was meant to harm; without anybody signed in it harms nobody, and could be sent
 * without end to fill the log. Nothing stands around the page unless `surroundingsOf` says so, which is not asked
 * about a fault of ours.
 */
export function pageErrors(
  base: string,
  ports: PageErrorsPorts,
  surroundingsOf: SurroundingsOf = () => Promise.resolve(undefined),
) {
  const { audit, clock } = ports;
  const currentPerson = currentPersonOf(base, ports);
  return async (
    error: unknown,
    request: FastifyRequest,
    reply: FastifyReply,
  ): Promise<FastifyReply> => {
    const { status, headers, page } = pageErrorAnswer(error);
    if (status >= 500) request.log.error({ err: error }, 'page failed');
    else request.log.info({ reason: String(error) }, 'page refused');
    const isForged = error instanceof PeopleRefusal && error.code === 'forged';
    const person = isForged ? await currentPerson(request) : undefined;
    if (person) {
      const { address, requestId } = visitOf(request);
      await audit.append({
        at: clock.now(),
        actor: `user:${person.user.id}`,
        organization: undefined,
        action: 'forged-form',
        target: request.routeOptions.url,
        address,
        requestId,
        outcome: 'refused',
      });
    }
    void reply.headers(headers);
    if (request.headers['content-type']?.startsWith('application/json')) {
      return reply.code(status).header('Cache-Control', 'no-store').send({ message: page.text });
    }
    const around = status < 500 ? await surroundingsOf(request) : undefined;
    const data = { ...page, next: nextFrom(page.next, around) };
    return sendPage(reply, errorPage, data, { ...around, status });
  };
}

/** Whoever is in an organization starts anew there, rather than in the first of theirs or by signing in again. */
function nextFrom(
  next: ErrorPageData['next'],
  around: Surroundings | undefined,
): ErrorPageData['next'] {
  const isStart = next === toDashboard || next === toSignIn;
  if (!isStart || !around?.dashboard) return next;
  return { ...toDashboard, href: dashboardPath(around.dashboard.organization) };
}

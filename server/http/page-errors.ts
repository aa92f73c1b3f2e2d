import type { FastifyReply, FastifyRequest } from 'fastify';

import type { AuditLog } from '#audit/audit-log';
import type { Clock } from '#clock/clock';
import { errorPage } from '#pages/error-page';
import { PeopleRefusal } from '#people/people-refusal';
import { pageErrorAnswer } from './errors.ts';
import { sendPage } from './send-page.ts';
import { visitOf } from './visit.ts';

/** Answers what went wrong on a page by a page, and to our scripts by its one sentence. */
export function pageErrors({ audit, clock }: { audit: Pick<AuditLog, 'append'>; clock: Clock }) {
  return async (
    error: unknown,
    request: FastifyRequest,
    reply: FastifyReply,
  ): Promise<FastifyReply> => {
    const { status, headers, page } = pageErrorAnswer(error);
    if (status >= 500) request.log.error({ err: error }, 'page failed');
    else request.log.info({ reason: String(error) }, 'page refused');
    if (error instanceof PeopleRefusal && error.code === 'forged') {
      const { address, requestId } = visitOf(request);
      await audit.append({
        at: clock.now(),
        actor: 'nobody',
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
    return sendPage(reply, errorPage, page, { status });
  };
}

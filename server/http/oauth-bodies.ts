import type { FastifyInstance } from 'fastify';

import { oauthErrorAnswer } from './oauth-error-answer.ts';

const maxBodyBytes = 16 * 1024;

/** What the OAuth endpoints have in common: a small body, read as bytes, and errors of RFC 6749 §5.2. */
export function oauthBodies(app: FastifyInstance): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser(
    '*',
    { parseAs: 'buffer', bodyLimit: maxBodyBytes },
    (_request, body, done) => done(null, body),
  );
  app.setErrorHandler((error, request, reply) => {
    const { status, headers, body } = oauthErrorAnswer(error);
    if (status >= 500) request.log.error({ err: error }, 'request failed');
    else request.log.info({ code: body.error, reason: body.error_description }, 'request refused');
    return reply.code(status).headers(headers).header('Cache-Control', 'no-store').send(body);
  });
}

import type { FastifyInstance } from 'fastify';

export interface HealthOptions {
  /** Resolves when a request could be served, rejects when not. */
  readonly ready: () => Promise<void>;
}

/** `/healthz`: the process lives. `/readyz`: it can serve. Neither says what is behind it. */
export function healthRoutes(app: FastifyInstance, { ready }: HealthOptions): void {
  app.get('/healthz', async () => ({ status: 'ok' }));

  app.get('/readyz', async (request, reply) => {
    try {
      await ready();
      return { status: 'ready' };
    } catch (error) {
      request.log.error({ err: error }, 'not ready');
      return reply.code(503).send({ status: 'unavailable' });
    }
  });
}

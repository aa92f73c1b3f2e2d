import type { FastifyInstance, FastifyRequest } from 'fastify';
import { adminApiRoutes, type AdminApiRoutesOptions } from '#http/admin-api-routes';
import { registryRoutes } from '#http/registry-routes';
import { accountGrantRoutes, type AccountGrantRoutesOptions } from '#web/account-routes';
import { scimRoutes, type ScimRoutesOptions } from '#scim/routes';
import { assetRoutes } from '#web/assets';
import { consentRoutes, type ConsentRoutesOptions } from '#web/consent';
import type { DashboardOptions } from '#web/dashboard/ports';
import { dashboardRoutes } from '#web/dashboard/routes';
import { downloadRoutes, type DownloadRoutesOptions } from '#web/download';
import { endpointPageRoutes } from '#web/endpoint-page';
import { errorPage } from '#web/messages';
import { nowherePage } from '#web/page-errors';
import { sendPage } from '#web/page-request';
import { peopleRoutes } from '#web/people-routes';
import type { PeopleRoutesOptions } from '#web/sign-in-routes';
import { newFastify, nothingHere, type ReceivingOptions, requestNames } from './http-app.ts';

export interface PagesOptions
  extends ReceivingOptions, PeopleRoutesOptions, AdminApiRoutesOptions, DownloadRoutesOptions {
  readonly ports: ConsentRoutesOptions['ports'] & AccountGrantRoutesOptions['ports'];
  readonly dashboard: DashboardOptions;
  readonly scimRate: ScimRoutesOptions['scimRate'];
}

/**
 * The routes for people and for administration. The HTTP server passes on the requests that it has checked and has no route of its
 * own for.
 */
export function createPages(options: PagesOptions): FastifyInstance {
  const app = newFastify(options, { answer: () => {} });
  app.addHook('onRequest', async (request, reply) => {
    requestNames.set(request.raw, { id: request.id, route: request.routeOptions.url });
    void reply.header('X-Request-Id', request.id);
  });
  app.setNotFoundHandler((request, reply) => {
    void reply.header('Vary', 'Accept');
    return asksForPage(request)
      ? sendPage(reply, errorPage, nowherePage(), { status: 404 })
      : reply.code(404).send(nothingHere);
  });
  const all: ((routes: FastifyInstance) => void)[] = [
    (routes) => assetRoutes(routes),
    (routes) => downloadRoutes(routes, options),
    (routes) => endpointPageRoutes(routes, options),
    (routes) => registryRoutes(routes, options),
    (routes) => peopleRoutes(routes, options),
    (routes) => accountGrantRoutes(routes, options),
    (routes) => consentRoutes(routes, options),
    (routes) => adminApiRoutes(routes, options),
    (routes) => scimRoutes(routes, { ...options, ports: options.administration }),
    (routes) => dashboardRoutes(routes, options.dashboard),
  ];
  for (const add of all) void app.register(async (routes) => add(routes));
  return app;
}

/** Whether a browser will show the response to a person: only then does `Accept` name HTML. */
function asksForPage({ method, headers }: FastifyRequest): boolean {
  return method === 'GET' && /\btext\/html\b/i.test(headers.accept ?? '');
}

import { takeRawBodies } from './body.ts';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { headerLines } from 'latchkey-mcp/headers';
import { fieldsInPath, filledPath, openApiDocument } from '#admin/openapi';
import {
  type Actor,
  type AdministrationPorts,
  type Operation,
  type OperationRoute,
  perform,
  tokenActor,
} from '#admin/operation';
import { operations } from '#admin/operations';
import { AdministrationRefusal } from '#admin/refusal';
import { fromWire, toWire, wireName } from '#admin/wire-names';
import type { FailedAttempts } from '#oauth/failed-attempts';
import { parseJsonObject } from '#oauth/forms';
import { OAuthError } from '#oauth/oauth-error';
import { membersOf } from 'latchkey-mcp/json-value';
import { adminErrorAnswer } from './error-answers.ts';
import { authenticated } from './guards.ts';

const root = '/api/admin';
const maxBodyBytes = 256 * 1024;

export interface AdminApiRoutesOptions {
  readonly base: string;
  readonly administration: AdministrationPorts;
  readonly failedAttempts: FailedAttempts;
}

/** `{base}/api/admin/…`: every operation that has a route, authenticated by a personal access token. */
export function adminApiRoutes(app: FastifyInstance, options: AdminApiRoutesOptions): void {
  const { base } = options;
  takeRawBodies(app, maxBodyBytes);
  app.addHook('onRequest', async (_request, reply) => {
    void reply.header('Cache-Control', 'no-store');
  });
  app.setErrorHandler((error, request, reply) => {
    const { status, headers, body } = adminErrorAnswer(error);
    if (status >= 500) request.log.error({ err: error }, 'request failed');
    else request.log.info({ code: body.error, reason: body.error_description }, 'request refused');
    return reply.code(status).headers(headers).send(body);
  });

  let document: ReturnType<typeof openApiDocument> | undefined;
  app.get(`${root}/openapi.json`, async () => (document ??= openApiDocument(base, operations)));
  for (const operation of operations) {
    const { route } = operation;
    if (route) serveOperation(app, operation, route, options);
  }
}

function serveOperation(
  app: FastifyInstance,
  operation: Operation,
  route: OperationRoute,
  options: AdminApiRoutesOptions,
): void {
  const { base, administration } = options;
  app.route({
    method: route.method,
    url: root + wireName(route.path).replaceAll(/\{(\w+)\}/g, ':$1'),
    exposeHeadRoute: false,
    async handler(request, reply) {
      const actor = await callerOf(request, options);
      const input = inputOf(request, route);
      const reading = new AbortController();
      reply.raw.once('close', () => reading.abort());
      const ports = { ...administration, signal: reading.signal };
      const output = await perform(operation, input, actor, ports);
      if (route.made !== undefined) {
        const path = filledPath(route.made, { ...input, ...output });
        void reply.code(201).header('Location', base + root + path);
      }
      addLinks(request, reply, base, output);
      return toWire(output);
    },
  });
}

/**
 * Authenticates the caller by a personal access token only. Cookies are ignored, so that no web page can make a
 * browser send a request.
 *
 * @throws {OAuthError} `invalid_client`, `slow_down`, `invalid_request`
 * @throws {AdministrationRefusal} `forbidden`
 */
async function callerOf(
  request: FastifyRequest,
  { base, administration, failedAttempts }: AdminApiRoutesOptions,
): Promise<Actor> {
  const { origin, authorization } = request.headers;
  if (origin !== undefined && origin !== base) {
    throw new AdministrationRefusal(
      'forbidden',
      'requests from pages of other sites are not allowed',
    );
  }
  if (headerLines(request.raw.rawHeaders, 'authorization').length > 1) {
    throw new OAuthError('invalid_request', 'the header authorization is repeated');
  }
  const token = /^Bearer +([\w-]+)$/i.exec(authorization ?? '')?.[1];
  const words = 'missing or invalid personal access token';
  if (authorization === undefined) throw new OAuthError('invalid_client', words);
  const from = { address: request.ip, requestId: request.id };
  const find = () => tokenActor(token ?? '', from, administration);
  const { refusals } = administration;
  const by = { attempts: failedAttempts, refusals, action: 'token.refused', words };
  return authenticated(request, find, by);
}

/** The input of an operation: path parameters, and the query or the JSON body. */
function inputOf(request: FastifyRequest, route: OperationRoute): Record<string, unknown> {
  const inQuery = route.method === 'GET' || route.method === 'DELETE';
  if (!inQuery && /[?#]/.test(request.raw.url ?? '')) {
    throw new OAuthError('invalid_request', 'send fields in the body, not in the URL');
  }
  const given = fromWire(membersOf(inQuery ? request.query : jsonOf(request)));
  const inPath = fieldsInPath(route.path);
  const twice = inPath.filter((name) => name in given);
  if (twice.length > 0) {
    const fields = twice.map((field) => ({ field, problem: 'is allowed only in the path' }));
    throw new AdministrationRefusal('invalid', 'a field of the path is repeated', { fields });
  }
  return { ...given, ...fromWire(membersOf(request.params)) };
}

/** @throws {OAuthError} `invalid_request` */
function jsonOf({ body, headers }: FastifyRequest): object {
  if (!Buffer.isBuffer(body) || body.length === 0) return {};
  const type = headers['content-type']?.split(';')[0]?.trim().toLowerCase();
  if (type !== 'application/json') {
    throw new OAuthError('invalid_request', 'the body must be application/json');
  }
  return parseJsonObject(body);
}

function addLinks(
  request: FastifyRequest,
  reply: FastifyReply,
  base: string,
  output: Readonly<Record<string, unknown>>,
): void {
  const { total, page, limit } = output;
  if (typeof total !== 'number' || typeof page !== 'number' || typeof limit !== 'number') return;
  const url = new URL(request.url, base);
  void reply.header('Link', pageLinks(url, { total, page, limit }));
}

/** The `Link` header of a page of a list: the first, previous, next and last page. RFC 8288 §3 */
function pageLinks(
  url: URL,
  { total, page, limit }: { total: number; page: number; limit: number },
): string {
  const last = Math.max(1, Math.ceil(total / limit));
  const to = (rel: string, number: number) => {
    const target = new URL(url);
    target.searchParams.set('page', String(number));
    return `<${target.href}>; rel="${rel}"`;
  };
  return [
    to('first', 1),
    ...(page > 1 ? [to('prev', Math.min(page - 1, last))] : []),
    ...(page < last ? [to('next', page + 1)] : []),
    to('last', last),
  ].join(', ');
}

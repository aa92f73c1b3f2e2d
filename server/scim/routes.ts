import { randomUUID } from 'node:crypto';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';

import { databaseFault } from '#db/faults';
import { noteScimFault, type ScimTenant, useScimToken } from '#db/scim-tokens';
import { takeRawBodies } from '#http/body';
import { frameworkStatus, frameworkWords } from '#http/error-answers';
import { authenticated } from '#http/guards';
import { redact } from 'latchkey-mcp/safe-text';
import { membersOf } from 'latchkey-mcp/json-value';
import type { FailedAttempts } from '#oauth/failed-attempts';
import { parseJsonObject } from '#oauth/forms';
import { OAuthError } from '#oauth/oauth-error';
import { hashSecret, isWellFormedSecret } from '#secrets/secrets';
import { type Endpoints, type ScimPorts, type ScimRequest, unauthorized } from './context.ts';
import * as groups from './groups.ts';
import {
  type ListQuery,
  listResponse,
  mostResults,
  readListQuery,
  readProjection,
  readSearch,
} from './listing.ts';
import { memberOf } from './patch.ts';
import type { RequestRate } from './request-rate.ts';
import {
  configurationResource,
  resourceTypeResources,
  schemaIds,
  schemaResources,
} from './schemas.ts';
import { ScimError } from './scim-error.ts';
import * as users from './users.ts';

const maxBodyBytes = 2 * 1024 * 1024;
const mostSubject = 200;
const contentType = 'application/scim+json; charset=utf-8';

export interface ScimRoutesOptions {
  readonly base: string;
  readonly ports: ScimPorts;
  readonly failedAttempts: FailedAttempts;
  readonly scimRate: Pick<RequestRate, 'take'>;
}

/** The facts known about a request. */
interface Known {
  readonly tenant: ScimTenant;
  /** The user or group that the request is about, as the directory named it, for the list of errors. */
  subject?: string;
}

/**
 * `{base}/scim/v2/{organization}/…`: SCIM 2.0 for the directory of one organization, authenticated by a token of that organization. An
 * unknown organization is answered like a known one with a wrong token.
 *
 * RFC 7644
 */
export function scimRoutes(app: FastifyInstance, options: ScimRoutesOptions): void {
  const known = new WeakMap<FastifyRequest, Known>();
  takeRawBodies(app, maxBodyBytes);
  app.addHook('onRequest', async (request, reply) => {
    void reply.header('Cache-Control', 'no-store');
    const tenant = await tenantOf(request, options);
    known.set(request, { tenant });
    const seconds = options.scimRate.take(tenant.organizationId);
    if (seconds > 0) {
      throw new ScimError(429, 'too many requests', { retryAfterSeconds: seconds });
    }
  });
  app.setErrorHandler((error, request, reply) =>
    sendError(error, { request, reply, known: known.get(request) }, options),
  );

  const route: Route = (method, path, answer) =>
    void app.route<{ Params: Record<string, string> }>({
      method,
      url: `/scim/v2/:organization${path}`,
      exposeHeadRoute: false,
      async handler(request, reply) {
        const of = known.get(request);
        if (!of) throw unauthorized();
        const at = handled(request, of, options);
        const { status = 200, resource, location } = await answer(at);
        if (location !== undefined) void reply.header('Location', location);
        void reply.code(status);
        if (resource === undefined) return reply.send();
        return reply.header('Content-Type', contentType).send(JSON.stringify(resource));
      },
    });
  resourceRoutes(route, options.ports);
  discoveryRoutes(route);
  route('POST', '/Bulk', async () => {
    throw new ScimError(501, 'bulk requests are not supported');
  });
  for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const) {
    route(method, '/*', async () => {
      throw new ScimError(404, 'there is no such endpoint');
    });
  }
}

/** The answer of an endpoint. Without `resource`, it has no content. */
interface Answer {
  readonly status?: number;
  readonly resource?: unknown;
  readonly location?: string;
}

/** A request as endpoints see it. */
interface Handled {
  readonly id: string;
  readonly query: Readonly<Record<string, unknown>>;
  readonly request: ScimRequest;
  /** The body. @throws {ScimError} 400, 415 */
  readonly body: () => Readonly<Record<string, unknown>>;
}

type Route = (
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE',
  path: string,
  answer: (at: Handled) => Promise<Answer>,
) => void;

const kinds: readonly (readonly [path: string, endpoints: Endpoints])[] = [
  [
    '/Users',
    {
      list: users.listUsers,
      get: users.getUser,
      create: users.createUser,
      replace: users.replaceUser,
      patch: users.patchUser,
      remove: users.removeUser,
    },
  ],
  [
    '/Groups',
    {
      list: groups.listGroups,
      get: groups.getGroup,
      create: groups.createGroup,
      replace: groups.replaceGroup,
      patch: groups.patchGroup,
      remove: groups.removeGroup,
    },
  ],
];

function resourceRoutes(route: Route, ports: ScimPorts): void {
  for (const [path, { list, get, create, replace, patch, remove }] of kinds) {
    const one = `${path}/:id`;
    route('GET', path, async ({ query, request }) => ({
      resource: await list(readListQuery(query), request, ports),
    }));
    route('POST', path, async ({ body, request }) => {
      const resource = await create(body(), request, ports);
      return { status: 201, resource, location: request.location(`${path}/${resource.id}`) };
    });
    route('POST', `${path}/.search`, async ({ body, request }) => ({
      resource: await list(readSearch(body()), request, ports),
    }));
    route('GET', one, async ({ id, query, request }) => ({
      resource: await get(id, readProjection(query), request, ports),
    }));
    route('PUT', one, async ({ id, body, request }) => ({
      resource: await replace(id, body(), request, ports),
    }));
    route('PATCH', one, async ({ id, body, request }) => {
      const resource = await patch(id, body(), request, ports);
      return resource ? { resource } : { status: 204 };
    });
    route('DELETE', one, async ({ id, request }) => {
      await remove(id, request, ports);
      return { status: 204 };
    });
  }
  route('POST', '/.search', async ({ body, request }) => ({
    resource: await searchAll(readSearch(body()), request, ports),
  }));
}

/** Users and groups in one list, users first. RFC 7644 §3.4.2.1, §3.4.3 */
async function searchAll(query: ListQuery, request: ScimRequest, ports: ScimPorts) {
  const { startIndex, count } = query;
  const ofUsers = await users.listUsers(query, request, ports);
  const rest = {
    ...query,
    startIndex: Math.max(1, startIndex - ofUsers.totalResults),
    count: count - ofUsers.Resources.length,
  };
  const ofGroups = await groups.listGroups(rest, request, ports);
  const resources = [...ofUsers.Resources, ...ofGroups.Resources];
  const total = ofUsers.totalResults + ofGroups.totalResults;
  return listResponse(resources, { total, startIndex });
}

/** The endpoints that describe this server to the directory. RFC 7644 §4 */
function discoveryRoutes(route: Route): void {
  route('GET', '/ServiceProviderConfig', async ({ request: { location } }) => ({
    resource: configurationResource(location, mostResults),
  }));
  const lists = { '/Schemas': schemaResources, '/ResourceTypes': resourceTypeResources };
  for (const [path, resourcesAt] of Object.entries(lists)) {
    route('GET', path, async ({ request: { location } }) => {
      const resources = resourcesAt(location);
      return { resource: listResponse(resources, { total: resources.length, startIndex: 1 }) };
    });
    route('GET', `${path}/:id`, async ({ id, request: { location } }) => {
      const resource = resourcesAt(location).find(
        (one) => one.id.toLowerCase() === id.toLowerCase(),
      );
      if (!resource) throw new ScimError(404, 'there is no such resource');
      return { resource };
    });
  }
}

function handled(
  request: FastifyRequest<{ Params: Record<string, string> }>,
  known: Known,
  { base }: ScimRoutesOptions,
): Handled {
  const { id = '' } = request.params;
  if (id !== '') known.subject = id;
  const root = `${base}/scim/v2/${known.tenant.organization}`;
  return {
    id,
    query: membersOf(request.query),
    request: {
      tenant: known.tenant,
      location: (path) => root + path,
      address: request.ip,
      requestId: request.id,
    },
    body() {
      const read = bodyOf(request);
      const named = ['userName', 'displayName', 'externalId'].map((name) => memberOf(read, name));
      const subject = named.find((value) => typeof value === 'string');
      if (typeof subject === 'string') known.subject = subject;
      return read;
    },
  };
}

/** @throws {ScimError} 400, 415 */
function bodyOf({ body, headers }: FastifyRequest): Readonly<Record<string, unknown>> {
  const type = headers['content-type']?.split(';')[0]?.trim().toLowerCase();
  if (type !== 'application/scim+json' && type !== 'application/json') {
    throw new ScimError(415, 'the body must be application/scim+json');
  }
  try {
    return parseJsonObject(body);
  } catch (error) {
    if (!(error instanceof OAuthError)) throw error;
    throw new ScimError(400, error.message, { scimType: 'invalidSyntax', cause: error });
  }
}

/**
 * The organization in the path, if the token belongs to it.
 *
 * @throws {ScimError} 401, whatever is wrong
 * @throws {OAuthError} `slow_down`
 */
async function tenantOf(
  request: FastifyRequest,
  { ports, failedAttempts }: ScimRoutesOptions,
): Promise<ScimTenant> {
  const { organization: named } = membersOf(request.params);
  const organization = typeof named === 'string' ? named : '';
  const token = /^Bearer +([\w-]+)$/i.exec(request.headers.authorization ?? '')?.[1] ?? '';
  const { db, clock, refusals } = ports;
  const find = async () => {
    if (!isWellFormedSecret('scim_', token)) return undefined;
    return useScimToken(db, { organization, hash: hashSecret(token), now: clock.now() });
  };
  if (request.headers.authorization === undefined) throw unauthorized();
  const words = 'missing or invalid token';
  const by = { attempts: failedAttempts, refusals, action: 'scim.refused', words };
  try {
    return await authenticated(request, find, by);
  } catch (error) {
    if (error instanceof OAuthError && error.code === 'invalid_client') throw unauthorized();
    throw error;
  }
}

/** Sends an error as SCIM does, and lists it for the administrators of the organization. RFC 7644 §3.12 */
async function sendError(
  error: unknown,
  {
    request,
    reply,
    known,
  }: { request: FastifyRequest; reply: FastifyReply; known?: Known | undefined },
  { ports }: ScimRoutesOptions,
): Promise<FastifyReply> {
  const { status, message, scimType, retryAfterSeconds } = scimErrorOf(error);
  if (status >= 500) request.log.error({ err: error }, 'request failed');
  else request.log.info({ status, reason: redact(message) }, 'request refused');
  if (known && isListed(request, status)) await noteFault(request, known, message, ports);
  if (status === 401) void reply.header('WWW-Authenticate', 'Bearer realm="latchkey"');
  if (retryAfterSeconds !== undefined) void reply.header('Retry-After', String(retryAfterSeconds));
  return reply
    .code(status)
    .header('Content-Type', contentType)
    .send(
      JSON.stringify({
        schemas: [schemaIds.error],
        status: String(status),
        ...(scimType !== undefined && { scimType }),
        detail: message,
      }),
    );
}

/** A `GET` that finds nothing is not listed, because directories check that way whether a resource exists. Neither are 401 and 429. */
function isListed({ method }: FastifyRequest, status: number): boolean {
  return status !== 401 && status !== 429 && (method !== 'GET' || status !== 404);
}

async function noteFault(
  request: FastifyRequest,
  { tenant, subject = '' }: Known,
  problem: string,
  { db, clock }: ScimPorts,
): Promise<void> {
  const [, , , , kind = ''] = new URL(request.url, 'http://localhost').pathname.split('/');
  try {
    await noteScimFault(db, tenant.organizationId, {
      id: `fault_${randomUUID()}`,
      request: `${request.method} ${kind}`.slice(0, mostSubject),
      subject: redact(subject).slice(0, mostSubject),
      problem: redact(problem).slice(0, mostSubject),
      at: clock.now(),
    });
  } catch (err) {
    // The directory gets its answer anyway.
    request.log.error({ err }, 'an error of a directory could not be listed');
  }
}

function scimErrorOf(error: unknown): ScimError {
  if (error instanceof ScimError) return error;
  if (error instanceof OAuthError && error.code === 'slow_down') {
    const { retryAfterSeconds } = error;
    return new ScimError(429, error.message, {
      ...(retryAfterSeconds !== undefined && { retryAfterSeconds }),
    });
  }
  const status = frameworkStatus(error);
  if (status !== undefined) return new ScimError(status, frameworkWords(status));
  if (databaseFault(error) !== undefined) {
    return new ScimError(503, 'the database is not available; try again later', {
      retryAfterSeconds: 1,
    });
  }
  return new ScimError(500, 'internal error; see the server log');
}

import { createHash } from 'node:crypto';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';

import { findPublished, listAllPublished, listPublished } from '#db/deployment';
import type { Db } from '#db/transaction';
import {
  aiCatalogue,
  cardType,
  cataloguePath,
  catalogueType,
  publicVersion,
  registryEntry,
  registryName,
  registryPage,
  serverCard,
} from '#deployment/registry-entries';
import type { Clock } from '#model/clock';
import { networkOf } from '#model/networks';
import { SlidingWindow } from '#model/sliding-window';
import { isSlug } from '#model/slug';

export interface RegistryRoutesOptions {
  readonly base: string;
  readonly administration: { readonly db: Db; readonly clock: Clock };
}

/** The number of servers on a page, unless the client asks for fewer or more. */
const usualLimit = 30;
const mostLimit = 100;
/** Requests of one network are limited, because each answer reads the database for a caller without any credential. */
const maxPerMinute = 600;
const minute = { seconds: 60, maxNames: 10_000 };
const cacheSeconds = 300;
const registryPath = '/registry/:organization/v0.1/servers';

type Params = Readonly<Record<string, string | undefined>>;
interface Answer {
  readonly status: number;
  readonly body: object;
  readonly type?: string;
}

const json = 'application/json; charset=utf-8';
// The same answer for a server that does not exist and for one that is not published, so that it does not reveal which it is.
const noServer: Answer = { status: 404, body: { error: 'Server not found' } };

/**
 * Serves to anyone, without credentials, what owners published: `{base}/registry/{organization}/v0.1/servers` (MCP registry API v0.1, the
 * routes that read), `{base}/mcp/{organization}/{server}/server-card` (SEP-2127) and the AI catalog.
 */
export function registryRoutes(app: FastifyInstance, options: RegistryRoutesOptions): void {
  const { base, administration } = options;
  const { db, clock } = administration;
  const requests = new SlidingWindow(clock, minute);

  const publish = (
    path: string,
    answer: (params: Params, query: URLSearchParams) => Promise<Answer>,
  ) => {
    app.get<{ Params: Params }>(path, async (request, reply) => {
      void reply.headers(corsHeaders);
      const network = networkOf(request.ip);
      const retryAfter = requests.secondsUntilFree(network, maxPerMinute);
      if (retryAfter > 0) {
        void reply.code(429).headers({ 'Retry-After': retryAfter, 'Cache-Control': 'no-store' });
        return { error: 'Too many requests from this address' };
      }
      requests.count(network, maxPerMinute);
      const { searchParams } = new URL(request.url, base);
      return send(request, reply, await answer(request.params, searchParams));
    });
    app.options(path, async (_request, reply) =>
      reply
        .headers({ ...corsHeaders, 'Access-Control-Max-Age': '86400' })
        .code(204)
        .send(),
    );
  };

  const ofRegistry = async ({ organization = '', serverName = '' }: Params) => {
    const server = serverName.slice(serverName.lastIndexOf('.') + 1);
    if (!isSlug(organization) || !isSlug(server)) return undefined;
    const found = await findPublished(db, organization, server);
    return found && registryName(base, found) === serverName ? found : undefined;
  };

  publish(registryPath, async ({ organization = '' }, query) => {
    const wanted = queryOf(query);
    if ('problem' in wanted) return { status: 400, body: { error: wanted.problem } };
    const servers = isSlug(organization) ? await listPublished(db, organization) : [];
    return { status: 200, body: registryPage(base, servers, wanted) };
  });

  publish(`${registryPath}/:serverName/versions`, async (params) => {
    const server = await ofRegistry(params);
    if (!server) return noServer;
    return {
      status: 200,
      body: { servers: [registryEntry(base, server)], metadata: { count: 1 } },
    };
  });

  publish(`${registryPath}/:serverName/versions/:version`, async (params) => {
    const server = await ofRegistry(params);
    if (!server) return noServer;
    const isThis = params['version'] === 'latest' || params['version'] === publicVersion(server);
    return isThis ? { status: 200, body: registryEntry(base, server) } : noServer;
  });

  publish('/mcp/:organization/:server/server-card', async ({ organization = '', server = '' }) => {
    const isNamed = isSlug(organization) && isSlug(server);
    const found = isNamed ? await findPublished(db, organization, server) : undefined;
    return found ? { status: 200, body: serverCard(base, found), type: cardType } : noServer;
  });

  publish(cataloguePath, async () => {
    const servers = await listAllPublished(db);
    return { status: 200, body: aiCatalogue(base, servers), type: catalogueType };
  });
}

/** All answers are public and need no credential. SEP-2127 "CORS Requirements"; VS Code and Copilot send the other headers. */
const corsHeaders = {
  'Access-Control-Allow-Origin': '*',
  'Access-Control-Allow-Methods': 'GET',
  'Access-Control-Allow-Headers': 'Authorization, Content-Type, If-None-Match',
  'Access-Control-Expose-Headers': 'ETag',
};

function send(
  request: FastifyRequest,
  reply: FastifyReply,
  { status, body, type = json }: Answer,
): FastifyReply {
  const text = JSON.stringify(body);
  void reply.code(status).headers({
    'Content-Type': type,
    'Cache-Control': status === 200 ? `public, max-age=${cacheSeconds}` : 'no-cache',
    'X-Content-Type-Options': 'nosniff',
  });
  if (status !== 200) return reply.send(text);
  const tag = `"${createHash('sha256').update(text).digest('base64url').slice(0, 22)}"`;
  void reply.header('ETag', tag);
  const known = request.headers['if-none-match']?.split(',').map((one) => one.trim()) ?? [];
  const isKnown = known.some((one) => one === '*' || one.replace(/^W\//, '') === tag);
  return isKnown ? reply.code(304).send() : reply.send(text);
}

/** The query of a list. Parameters that the specification does not have are ignored. */
function queryOf(query: URLSearchParams) {
  const limit = query.get('limit') ?? String(usualLimit);
  if (!/^[1-9]\d{0,8}$/.test(limit)) return { problem: 'limit must be a positive whole number' };
  const since = query.get('updated_since');
  const at = since === null ? undefined : Date.parse(since);
  if (since !== null && !isRfc3339(since)) {
    return { problem: 'updated_since must be a date and time (RFC 3339)' };
  }
  return {
    limit: Math.min(Number(limit), mostLimit),
    cursor: query.get('cursor') || undefined,
    search: query.get('search') ?? undefined,
    version: query.get('version') || undefined,
    // Times are stored in whole seconds.
    updatedSince: at === undefined ? undefined : Math.floor(at / 1000),
  };
}

function isRfc3339(text: string): boolean {
  const form = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)$/i;
  return form.test(text) && !Number.isNaN(Date.parse(text));
}

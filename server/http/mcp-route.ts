import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';

import type { Gateway } from '#gateway/gateway';
import { isSlug } from '#model/slug';
import { breakOff } from './closed-response.ts';
import { IncomingCall } from './incoming-call.ts';
import { sendAnswer } from './send-answer.ts';

/** The name of this route in the framework and the log. */
export const mcpRoutePath = '/mcp/:organization/:server';

interface Place {
  Params: { organization: string; server: string };
}

export interface McpRouteOptions {
  readonly gateway: Pick<Gateway, 'handle'>;
  readonly maxBodyBytes: number;
  readonly allowedOrigins: readonly string[];
  /** Passes a request to the routes for people. */
  readonly toPages: (request: FastifyRequest, reply: FastifyReply) => Promise<void>;
}

/**
 * `{base}/mcp/{organization}/{server}`: passes the request to the gateway and sends its answer.
 * `front.ts` does the same for ordinary calls.
 */
export function mcpRoute(
  app: FastifyInstance,
  { gateway, maxBodyBytes, allowedOrigins, toPages }: McpRouteOptions,
): void {
  // Answered in the first hook, because the gateway reads the body itself, after it has authenticated the caller.
  const onRequest = async (request: FastifyRequest<Place>, reply: FastifyReply) => {
    const { organization, server } = request.params;
    if (!isEndpointPath(request.url, organization, server)) return reply.callNotFound();
    if (isOpenedByPerson(request)) return toPages(request, reply);
    const { raw: response } = reply;
    const cors = corsHeaders(request, allowedOrigins);
    const { id, ip: address } = request;
    const details = { id, organization, server, maxBodyBytes, address };
    reply.hijack();
    try {
      if (request.method === 'OPTIONS' && cors) {
        return await sendAnswer(response, { status: 204, headers: cors });
      }
      const answer = await gateway.handle(new IncomingCall(request.raw, response, details));
      const headers = { ...answer.headers, ...cors, 'X-Request-Id': request.id };
      await sendAnswer(response, { ...answer, headers });
    } catch (err) {
      // The framework answers nothing from here on, and would leave the connection open.
      request.log.error({ err }, 'an answer could not be sent');
      breakOff(response);
    }
  };
  app.all<Place>(mcpRoutePath, { onRequest }, (_request, reply) => reply);
}

/**
 * Whether this is the one spelling of an endpoint's URL: names of the allowed form, nothing percent-encoded.
 * Another spelling could pass a rule of a proxy in front that this spelling does not pass.
 */
function isEndpointPath(url: string, organization: string, server: string): boolean {
  const [path = ''] = url.split('?', 1);
  return isSlug(organization) && isSlug(server) && path.endsWith(`/mcp/${organization}/${server}`);
}

/**
 * Whether a person opened the URL in a browser. The gateway would refuse this `GET` with 405, whatever the server and the credential, and
 * the page keeps the status. A client's `GET` names `text/event-stream`.
 */
function isOpenedByPerson({ method, headers }: FastifyRequest<Place>): boolean {
  const { accept = '' } = headers;
  return (
    method === 'GET' &&
    headers['mcp-session-id'] === undefined &&
    headers.origin === undefined &&
    /\btext\/html\b/i.test(accept) &&
    !/\btext\/event-stream\b|\bapplication\/json\b/i.test(accept)
  );
}

/** The CORS headers for pages of the origins that the operator listed. */
function corsHeaders(
  { headers }: FastifyRequest<Place>,
  allowedOrigins: readonly string[],
): Record<string, string> | undefined {
  if (headers.origin === undefined || !allowedOrigins.includes(headers.origin)) return undefined;
  return {
    'Access-Control-Allow-Origin': headers.origin,
    'Access-Control-Allow-Methods': 'POST, GET, DELETE',
    'Access-Control-Allow-Headers':
      'Authorization, X-API-Key, Content-Type, Accept, Mcp-Session-Id, MCP-Protocol-Version, Mcp-Method, Mcp-Name, Last-Event-ID',
    'Access-Control-Expose-Headers': 'Mcp-Session-Id, WWW-Authenticate, X-Request-Id, Retry-After',
    'Access-Control-Max-Age': '600',
    Vary: 'Origin',
  };
}

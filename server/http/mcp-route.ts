import type { ServerResponse } from 'node:http';

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';

import type { GatewayAnswer } from '#gateway/exchange';
import type { Gateway } from '#gateway/gateway';
import { isSlug } from '#organizations/slug';
import { readBody } from './body.ts';

interface Place {
  Params: { organization: string; server: string };
}

export interface McpRouteOptions {
  readonly gateway: Gateway;
  readonly maxBodyBytes: number;
  readonly allowedOrigins: readonly string[];
}

/**
 * `{base}/mcp/{organization}/{server}`: hands the bare request to the gateway and sends what it answers,
 * as fast as the caller takes it.
 */
export function mcpRoute(
  app: FastifyInstance,
  { gateway, maxBodyBytes, allowedOrigins }: McpRouteOptions,
): void {
  // Answered in the first hook: the body is the gateway's to read, after it knows who is asking.
  const onRequest = async (request: FastifyRequest<Place>, reply: FastifyReply) => {
    const { organization, server } = request.params;
    if (!isEndpointPath(request.url, organization, server)) return reply.callNotFound();
    const { raw: response } = reply;
    const { raw: incoming } = request;
    const gone = new AbortController();
    response.on('close', () => {
      if (!response.writableFinished) gone.abort();
    });
    reply.hijack();
    const cors = corsHeaders(request, allowedOrigins);
    if (request.method === 'OPTIONS' && cors) {
      return send(response, { status: 204, headers: cors });
    }
    const answer = await gateway.handle({
      id: request.id,
      method: request.method,
      organization,
      server,
      address: request.ip,
      headers: incoming.headers,
      rawHeaders: incoming.rawHeaders,
      readBody: () => readBody(incoming, maxBodyBytes),
      gone: gone.signal,
    });
    const headers = { ...answer.headers, ...cors, 'X-Request-Id': request.id };
    await send(response, { ...answer, headers });
  };
  app.all<Place>('/mcp/:organization/:server', { onRequest }, (_request, reply) => reply);
}

/**
 * Whether this is the one spelling of an endpoint's URL: names of the allowed form, nothing percent-encoded.
 * Another spelling could pass a rule of a proxy in front that this one does not.
 */
function isEndpointPath(url: string, organization: string, server: string): boolean {
  const [path = ''] = url.split('?', 1);
  return isSlug(organization) && isSlug(server) && path.endsWith(`/mcp/${organization}/${server}`);
}

async function send(response: ServerResponse, answer: GatewayAnswer): Promise<void> {
  const { status, headers, body } = answer;
  if (body === undefined || typeof body === 'string' || body instanceof Uint8Array) {
    const length = status === 204 ? {} : { 'Content-Length': Buffer.byteLength(body ?? '') };
    response.writeHead(status, { ...headers, ...length });
    // As a string it goes out in one write with the headers.
    if (body instanceof Uint8Array) response.end(Buffer.from(body).toString('latin1'), 'latin1');
    else response.end(body);
    return;
  }
  try {
    response.writeHead(status, headers);
    if (headers['Content-Type'] === 'text/event-stream') response.flushHeaders();
    // A caller that left is no reason to stop reading: whether the call goes on is the gateway's to say.
    for await (const chunk of body) {
      if (!response.destroyed && !response.write(chunk)) await drained(response);
    }
    response.end();
  } catch {
    response.destroy();
  }
}

async function drained(response: ServerResponse): Promise<void> {
  await new Promise<void>((resolve) => {
    const settle = () => {
      response.off('drain', settle).off('close', settle);
      resolve();
    };
    response.on('drain', settle).on('close', settle);
  });
}

/** For pages of the origins that the operator listed, and for nobody else. */
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

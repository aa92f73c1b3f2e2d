import type { UpstreamRequest } from './upstream.ts';

/**
 * A request to an MCP server in this process. Its signal is the given one itself: the one that Node would make follows it only until
 * the request is garbage, which it may be while its answer is still a stream.
 */
export function inProcessRequest({ method, headers, body, signal }: UpstreamRequest): Request {
  const content = body && { body: new Uint8Array(body) };
  const request = new Request('http://here.invalid/mcp', { method, headers, ...content });
  return Object.defineProperty(request, 'signal', { value: signal });
}

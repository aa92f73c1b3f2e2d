import { abortSignal } from '#model/ending';
import type { UpstreamRequest } from './upstream.ts';

/**
 * A request to an MCP server in this process. Its `signal` is the given one itself. The signal that Node derives from
 * it would no longer abort once the request is garbage-collected, which may happen while the answer is still streaming.
 */
export function inProcessRequest({ method, headers, body, signal }: UpstreamRequest): Request {
  const content = body && { body: new Uint8Array(body) };
  const request = new Request('http://here.invalid/mcp', { method, headers, ...content });
  return Object.defineProperty(request, 'signal', { value: abortSignal(signal) });
}

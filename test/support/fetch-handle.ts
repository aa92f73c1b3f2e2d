import { toNodeHandler } from '@modelcontextprotocol/node';
import type { Handle } from './recording-server.ts';

/** Adapts an MCP handler with a `fetch` method to a handler of Node requests. */
export function fetchHandle(handler: { fetch(request: Request): Promise<Response> }): Handle {
  const handle = toNodeHandler(handler);
  return ({ method = 'GET', url = '/', headers }, res, body) => {
    // The body is read already; if it is no JSON, the handler sees an empty body.
    const request = { method, url, headers, async *[Symbol.asyncIterator]() {} };
    return handle(request, res, body);
  };
}

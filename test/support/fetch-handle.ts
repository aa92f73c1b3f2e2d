import { toNodeHandler } from '@modelcontextprotocol/node';
import type { Handle } from './recording-server.ts';

/** Answers with what a fetch-shaped MCP handler answers. */
export function fetchHandle(handler: { fetch(request: Request): Promise<Response> }): Handle {
  const handle = toNodeHandler(handler);
  return ({ method = 'GET', url = '/', headers }, res, body) => {
    // The body is read already; where it is no JSON the handler sees an empty one.
    const request = { method, url, headers, async *[Symbol.asyncIterator]() {} };
    return handle(request, res, body);
  };
}

import { randomBytes } from 'node:crypto';

import { createRequestStateCodec, McpServer } from '@modelcontextprotocol/server';

import { suiteInputs } from './suite-inputs.ts';
import { suiteOffers } from './suite-offers.ts';
import { suiteQuestions, suiteTools } from './suite-tools.ts';

const codec = createRequestStateCodec<number>({ key: randomBytes(32) });

/** An MCP server that offers what the suite's server scenarios ask for, for a client of that era. */
export function suiteServer(era: 'legacy' | 'modern'): McpServer {
  const capabilities = {
    logging: {},
    completions: {},
    resources: { subscribe: true, listChanged: true },
  };
  const server = new McpServer(
    { name: 'suite', version: '1.0.0' },
    { capabilities, requestState: { verify: (state, context) => codec.verify(state, context) } },
  );
  suiteTools(server);
  suiteOffers(server);
  if (era === 'modern') suiteInputs(server, codec);
  else {
    suiteQuestions(server);
    server.server.setRequestHandler('resources/subscribe', () => ({}));
    server.server.setRequestHandler('resources/unsubscribe', () => ({}));
  }
  return server;
}

import { randomBytes, randomUUID } from 'node:crypto';

import { NodeStreamableHTTPServerTransport } from '@modelcontextprotocol/node';
import {
  createMcpHandler,
  createRequestStateCodec,
  isInitializeRequest,
  McpServer,
} from '@modelcontextprotocol/server';

import { fetchHandle } from '#support/fetch-handle';
import { recordingServer, type RecordingServer } from '#support/recording-server';
import { suiteInputs } from './suite-inputs.ts';
import { suiteOffers } from './suite-offers.ts';
import { suiteQuestions, suiteTools } from './suite-tools.ts';

/** An MCP server that offers what the suite's server scenarios ask for, in both eras, with sessions in the older. */
export async function suiteUpstream(): Promise<RecordingServer> {
  const codec = createRequestStateCodec<number>({ key: randomBytes(32) });
  const sessions = new Map<string, NodeStreamableHTTPServerTransport>();
  const capabilities = {
    logging: {},
    completions: {},
    resources: { subscribe: true, listChanged: true },
  };
  const made = (era: 'legacy' | 'modern') => {
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
  };
  const modern = fetchHandle(createMcpHandler(() => made('modern'), { legacy: 'reject' }));
  const open = async () => {
    const transport = new NodeStreamableHTTPServerTransport({
      sessionIdGenerator: () => randomUUID(),
      onsessioninitialized: (id) => void sessions.set(id, transport),
      onsessionclosed: (id) => void sessions.delete(id),
    });
    await made('legacy').connect(transport);
    return transport;
  };
  return recordingServer(async (request, response, body) => {
    const { host = '', origin } = request.headers;
    if (!isLocal(`http://${host}`) || (origin !== undefined && !isLocal(origin))) {
      response.writeHead(403).end();
      return;
    }
    const id = request.headers['mcp-session-id'];
    const isModern = request.headers['mcp-protocol-version'] === '2026-07-28';
    const hasMeta = JSON.stringify(body ?? {}).includes('io.modelcontextprotocol/protocolVersion');
    if (id === undefined && (isModern || hasMeta)) return modern(request, response, body);
    const known = sessions.get(String(id));
    if (known) return known.handleRequest(request, response, body);
    if (isInitializeRequest(body)) return (await open()).handleRequest(request, response, body);
    response.writeHead(id === undefined ? 405 : 404).end();
  });
}

function isLocal(url: string): boolean {
  return URL.canParse(url) && ['127.0.0.1', 'localhost', '[::1]'].includes(new URL(url).hostname);
}

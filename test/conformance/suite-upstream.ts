import { randomUUID } from 'node:crypto';

import { NodeStreamableHTTPServerTransport } from '@modelcontextprotocol/node';
import { createMcpHandler, isInitializeRequest } from '@modelcontextprotocol/server';

import { fetchHandle } from '#support/fetch-handle';
import { recordingServer, type RecordingServer } from '#support/recording-server';
import { suiteServer } from './suite-server.ts';

/** The suite's MCP server over HTTP, in both eras, with sessions in the older. */
export async function suiteUpstream(): Promise<RecordingServer> {
  const sessions = new Map<string, NodeStreamableHTTPServerTransport>();
  const modern = fetchHandle(createMcpHandler(() => suiteServer('modern'), { legacy: 'reject' }));
  const open = async () => {
    const transport = new NodeStreamableHTTPServerTransport({
      sessionIdGenerator: () => randomUUID(),
      onsessioninitialized: (id) => void sessions.set(id, transport),
      onsessionclosed: (id) => void sessions.delete(id),
    });
    await suiteServer('legacy').connect(transport);
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

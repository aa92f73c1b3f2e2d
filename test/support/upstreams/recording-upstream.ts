import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';

import { listen } from '../loopback.ts';

/** A request as it arrived. */
export interface Recorded {
  readonly method: string;
  readonly headers: IncomingMessage['headers'];
  readonly body: Buffer;
}

export type Answer = (request: Recorded, response: ServerResponse) => void;

/** A bare `node:http` server that records every request and answers as the test says. */
export interface RecordingUpstream extends AsyncDisposable {
  readonly url: string;
  readonly requests: Recorded[];
  /** The `requests` for callers, without those of the gateway itself, which may check at any time whether the server answers. */
  readonly calls: () => Recorded[];
  /** How many answers the other side gave up before their end. */
  readonly lost: () => number;
  /** Answers the next requests; by default as a legacy server without sessions. */
  answer: Answer;
}

export async function recordingUpstream(): Promise<RecordingUpstream> {
  const requests: Recorded[] = [];
  let lost = 0;
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const { method = '', headers } = request;
      const recorded = { method, headers, body: Buffer.concat(chunks) };
      requests.push(recorded);
      response.on('close', () => {
        if (!response.writableFinished) lost += 1;
      });
      upstream.answer(recorded, response);
    });
  });
  const port = await listen(server);
  const upstream: RecordingUpstream = {
    url: `http://127.0.0.1:${port}/mcp`,
    requests,
    calls: () => requests.filter(({ body }) => !isOfGateway(body.toString())),
    lost: () => lost,
    answer: legacyAnswer,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return upstream;
}

/** Whether a message belongs to a handshake of the gateway, or is the `ping` of a later health check. */
function isOfGateway(body: string): boolean {
  return (
    body.includes('"clientInfo":{"name":"latchkey-server"') ||
    body.includes('"io.modelcontextprotocol/clientInfo":{"name":"latchkey-server"') ||
    /^\{"jsonrpc":"2\.0",("id":\d+,"method":"ping"|"method":"notifications\/initialized")\}$/.test(
      body,
    )
  );
}

/** The answer of a legacy server without sessions; the id of a request comes back byte for byte. */
export const legacyAnswer: Answer = ({ method, body }, response) => {
  if (method !== 'POST') return void response.writeHead(405).end();
  const text = body.toString();
  const id = /"id"\s*:\s*("[^"]*"|[-+.\deE]+)/.exec(text)?.[1];
  if (id === undefined) return void response.writeHead(202).end();
  if (text.includes('server/discover')) {
    return sendJson(
      response,
      `{"jsonrpc":"2.0","id":${id},"error":{"code":-32601,"message":"no"}}`,
    );
  }
  const result = text.includes('"initialize"')
    ? '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"r","version":"1"}}'
    : '{"tools":[{"name":"echo","inputSchema":{"type":"object"}},{"name":"secret","inputSchema":{"type":"object"}}]}';
  sendJson(response, `{"jsonrpc":"2.0","id":${id},"result":${result}}`);
};

/** Makes the upstream keep sessions: a call without a session that it opened gets 404. */
export function answerInSessions(upstream: RecordingUpstream): void {
  const sessions = new Set<string>();
  upstream.answer = (request, response) => {
    if (request.body.includes('"initialize"')) {
      const id = `session-${sessions.size + 1}`;
      sessions.add(id);
      response.setHeader('mcp-session-id', id);
    } else if (!sessions.has(String(request.headers['mcp-session-id']))) {
      const isCall = request.method === 'POST' && !request.body.includes('server/discover');
      if (isCall) return void response.writeHead(404).end();
    }
    legacyAnswer(request, response);
  };
}

/** The answer of a server that speaks the modern era as well. */
export const bothErasAnswer: Answer = (request, response) => {
  const text = request.body.toString();
  if (!text.includes('"server/discover"')) return legacyAnswer(request, response);
  const id = /"id"\s*:\s*("[^"]*"|[-+.\deE]+)/.exec(text)?.[1] ?? 'null';
  const result =
    '{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"serverInfo":{"name":"r","version":"1"}}';
  sendJson(response, `{"jsonrpc":"2.0","id":${id},"result":${result}}`);
};

export function sendJson(response: ServerResponse, json: string): void {
  response.writeHead(200, { 'content-type': 'application/json' }).end(json);
}

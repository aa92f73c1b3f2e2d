import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';

import { bodyOf } from '../counted-server.ts';
import { listen } from '../loopback.ts';

/** A server of the legacy era, on plain HTTP, that talks unasked and whose streams and sessions end when a test says so. */
export interface TalkingUpstream extends AsyncDisposable {
  readonly url: string;
  /** How many streams are open, and how many were requested in all. */
  readonly open: () => number;
  readonly asked: () => number;
  /** How many of the known sessions have had a stream. Health checks open sessions too, but never listen. */
  readonly listened: () => number;
  /** Sends this text on every stream, as a log message. */
  readonly say: (text: string) => void;
  /** Announces on every stream that lists have changed. */
  readonly changed: (...lists: ('tools' | 'resources')[]) => void;
  /** Ends all streams. */
  readonly end: () => void;
  /** Forgets all sessions, as after a restart; with `leave`, the streams stay open, but receive nothing more. */
  readonly forget: (streams?: 'end' | 'leave') => void;
  /** The status that answers a GET instead of a stream, until it is `undefined` again. */
  refusal: number | undefined;
}

const events = { 'content-type': 'text/event-stream' };
const json = { 'content-type': 'application/json' };

export async function talkingUpstream(): Promise<TalkingUpstream> {
  const sessions = new Set<string>();
  const listened = new Set<string>();
  let streams: ServerResponse[] = [];
  let asked = 0;
  let refusal: number | undefined;

  function stream(request: IncomingMessage, response: ServerResponse): void {
    asked += 1;
    const { 'mcp-session-id': id } = request.headers;
    const status = refusal ?? (sessions.has(String(id)) ? 200 : 404);
    if (refusal !== undefined || status !== 200)
      return void response.writeHead(status, json).end('{}');
    listened.add(String(id));
    response.writeHead(200, events).flushHeaders();
    streams.push(response);
    response.on('close', () => (streams = streams.filter((one) => one !== response)));
  }

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const text = await bodyOf(request);
    if (request.method === 'GET') return stream(request, response);
    if (request.method === 'DELETE') return void response.writeHead(204).end();
    const { id, method, params }: Record<string, unknown> = JSON.parse(text);
    const answer = (result: object, headers: object = {}) =>
      response
        .writeHead(200, { ...json, ...headers })
        .end(JSON.stringify({ jsonrpc: '2.0', id, result }));
    if (method === 'initialize') {
      const session = randomUUID();
      sessions.add(session);
      const { protocolVersion } = Object(params);
      const changing = { listChanged: true };
      const capabilities = { tools: changing, resources: changing, logging: {} };
      const serverInfo = { name: 'talking', version: '1' };
      const result = { protocolVersion, capabilities, serverInfo };
      return void answer(result, { 'mcp-session-id': session });
    }
    if (!sessions.has(String(request.headers['mcp-session-id'])))
      return void response.writeHead(404, json).end('{}');
    if (id === undefined) return void response.writeHead(202).end();
    answer({ tools: [] });
  }

  function tell(what: string, params?: object): void {
    const message = { jsonrpc: '2.0', method: `notifications/${what}`, params };
    for (const one of streams) one.write(`data: ${JSON.stringify(message)}\n\n`);
  }

  const server = createServer((request, response) => {
    serve(request, response).catch(() => response.destroy());
  });
  const port = await listen(server);
  const end = () => streams.splice(0).forEach((one) => one.end());
  return {
    url: `http://127.0.0.1:${port}/mcp`,
    open: () => streams.length,
    asked: () => asked,
    listened: () => listened.size,
    say: (data) => tell('message', { level: 'info', data }),
    changed: (...lists) => lists.forEach((list) => tell(`${list}/list_changed`)),
    end,
    forget(left = 'end') {
      sessions.clear();
      listened.clear();
      if (left === 'end') end();
      else streams = [];
    },
    get refusal() {
      return refusal;
    },
    set refusal(status) {
      refusal = status;
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/**
 * The MCP server that every contender talks to: as little work as `node:http` allows, in a process of
 * its own.
 *
 *     POST /mcp         initialize, tools/list, tools/call; whatever the credential
 *     POST /session     the same, in a session
 *     POST /modern      the same, in the modern era: it answers server/discover
 *     POST /signed-in   the same, but 401 without an Authorization header
 *     POST /api/oauth/token, GET /.well-known/…   just enough OAuth to sign in to /signed-in
 *     GET /count        requests so far, this one not counted
 *
 * The tools `sse` and `large` answer as an event stream, every other one as JSON; `large` and `large-json` with 10 MB.
 */
import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { listen } from '#support/loopback';

interface Message {
  readonly id?: number | string;
  readonly method?: string;
  readonly params?: { readonly name?: string; readonly protocolVersion?: string };
}

/** All tools are listed, because a collection knows no others. */
const tools = ['echo', 'json', 'sse', 'large', 'large-json'].map((name) => ({
  name,
  inputSchema: { type: 'object' },
}));
const called = { content: [{ type: 'text', text: 'x'.repeat(200) }] };
const calledLarge = { content: [{ type: 'text', text: 'x'.repeat(10_000_000) }] };
const discovered = {
  resultType: 'complete',
  supportedVersions: ['2026-07-28'],
  capabilities: { tools: {} },
};
let requests = 0;

const server = createServer((request, response) => {
  const path = request.url ?? '';
  if (path === '/count') return json(response, 200, requests);
  requests += 1;
  if (path.startsWith('/.well-known/')) return metadata(path, response);
  if (path === '/api/oauth/token') {
    request.resume();
    return json(response, 200, { access_token: 'token', token_type: 'Bearer', expires_in: 3600 });
  }
  if (path === '/signed-in' && !request.headers.authorization) {
    const resource = `${origin}/.well-known/oauth-protected-resource/signed-in`;
    response.setHeader('www-authenticate', `Bearer resource_metadata="${resource}"`);
    return json(response, 401, {});
  }
  if (request.method !== 'POST') return json(response, 405, {});
  read(request, (message) => {
    if (path === '/session' && message.method === 'initialize') {
      response.setHeader('mcp-session-id', randomUUID());
    }
    if (path === '/modern' && message.method === 'server/discover') {
      return json(response, 200, { jsonrpc: '2.0', id: message.id, result: discovered });
    }
    answer(message, response);
  });
});

const origin = `http://127.0.0.1:${await listen(server)}`;
console.log(`listening on ${origin}`);

function answer({ id, method, params }: Message, response: ServerResponse): void {
  if (id === undefined) {
    response.writeHead(202).end();
    return;
  }
  const isLarge = params?.name === 'large' || params?.name === 'large-json';
  const result = isLarge ? calledLarge : resultOf(method, params);
  const error = { code: -32601, message: 'method not found' };
  const reply = { jsonrpc: '2.0', id, ...(result ? { result } : { error }) };
  if (params?.name === 'sse' || params?.name === 'large') {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.end(`event: message\ndata: ${JSON.stringify(reply)}\n\n`);
  } else {
    json(response, 200, reply);
  }
}

function resultOf(method: string | undefined, params: Message['params']): object | undefined {
  if (method === 'tools/call') return called;
  if (method === 'tools/list') return { tools };
  if (method === 'ping') return {};
  if (method !== 'initialize') return undefined;
  return {
    protocolVersion: params?.protocolVersion ?? '2025-06-18',
    capabilities: { tools: {} },
    serverInfo: { name: 'target', version: '1' },
  };
}

function metadata(path: string, response: ServerResponse): void {
  if (path === '/.well-known/oauth-protected-resource/signed-in') {
    json(response, 200, { resource: `${origin}/signed-in`, authorization_servers: [origin] });
  } else if (path === '/.well-known/oauth-authorization-server') {
    json(response, 200, {
      issuer: origin,
      authorization_endpoint: `${origin}/oauth/consent`,
      token_endpoint: `${origin}/api/oauth/token`,
      response_types_supported: ['code'],
      grant_types_supported: ['client_credentials', 'authorization_code'],
      code_challenge_methods_supported: ['S256'],
      token_endpoint_auth_methods_supported: ['client_secret_basic', 'client_secret_post'],
    });
  } else {
    json(response, 404, {});
  }
}

function json(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

function read(request: IncomingMessage, done: (message: Message) => void): void {
  let text = '';
  request.setEncoding('utf8');
  request.on('data', (part: string) => (text += part));
  request.on('end', () => done(JSON.parse(text)));
}

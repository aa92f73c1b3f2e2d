/** The answer of an MCP endpoint to one request. */
export interface McpAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** The JSON-RPC error code, where there is one. */
  readonly errorCode: number | undefined;
}

export interface McpCall {
  readonly key?: string;
  readonly token?: string;
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** A whole body; by default `tools/list` with the id 1. */
  readonly body?: string | Uint8Array;
}

/** A session id that Latchkey issues: on several nodes, it begins with the instance of its node. */
export const ownSessionId = /^(?:[0-9A-Za-z]{16}\.)?[\w-]{32}$/;

export const toolsList = '{"jsonrpc":"2.0","id":1,"method":"tools/list"}';

/** The JSON text of a request. */
export function rpc(method: string, params?: object, id: number | string = 1): string {
  return JSON.stringify({ jsonrpc: '2.0', id, method, ...(params && { params }) });
}

/** The media types that a client of either era accepts. */
export const acceptsBoth = 'application/json, text/event-stream';

/** The request that opens a legacy session. */
export function initialize(protocolVersion = '2025-06-18'): string {
  const clientInfo = { name: 'test', version: '1' };
  return rpc('initialize', { protocolVersion, capabilities: {}, clientInfo });
}

/** A modern request with the `_meta` and the headers that go with it. */
export function modern(method: string, params: Record<string, unknown> = {}, id = 1) {
  const meta = {
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientCapabilities': {},
  };
  const name = params['name'] ?? params['uri'];
  return {
    body: rpc(method, { ...params, _meta: meta }, id),
    headers: {
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': method,
      accept: acceptsBoth,
      ...(typeof name === 'string' && { 'mcp-name': name }),
    },
  };
}

/** Calls an MCP endpoint as any HTTP client would. */
export async function mcpCall(
  endpoint: string,
  { key, token, method = 'POST', headers = {}, body = toolsList }: McpCall = {},
): Promise<McpAnswer> {
  const response = await fetch(endpoint, {
    method,
    redirect: 'manual',
    headers: {
      'content-type': 'application/json',
      ...(key !== undefined && { 'x-api-key': key }),
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
      ...headers,
    },
    ...(method !== 'GET' && method !== 'HEAD' && { body: Buffer.from(body) }),
  });
  const text = await response.text();
  const code = /"error":\{"code":(-\d+)/.exec(text)?.[1];
  return {
    status: response.status,
    headers: response.headers,
    text,
    errorCode: code === undefined ? undefined : Number(code),
  };
}

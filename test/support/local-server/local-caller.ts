import { chunksOf, type LocalAnswer, type LocalServer } from '#proxy/agent/local-server';

export type Said = {
  id?: unknown;
  method?: string;
  params?: Record<string, unknown>;
  result?: Record<string, unknown>;
  error?: { code: number; message: string };
};

const both = 'application/json, text/event-stream';

/** All messages of an answer: its one JSON body, or its events. */
export async function saidIn({ headers, body }: LocalAnswer): Promise<Said[]> {
  const chunks: Buffer[] = [];
  for await (const chunk of chunksOf(body)) chunks.push(chunk);
  const text = Buffer.concat(chunks).toString();
  if (headers['content-type']?.startsWith('text/event-stream'))
    return text
      .split('\n')
      .filter((line) => line.startsWith('data: '))
      .map((line): Said => JSON.parse(line.slice(6)));
  return text === '' ? [] : [JSON.parse(text)];
}

/** The messages of an answer as they come. */
export async function* messagesIn({ body }: LocalAnswer): AsyncGenerator<Said> {
  let rest = '';
  for await (const chunk of chunksOf(body)) {
    const lines = (rest + chunk.toString()).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) if (line.startsWith('data: ')) yield JSON.parse(line.slice(6));
  }
}

/** A caller that talks to a local server as the gateway does. */
export function localCaller(server: LocalServer, caller = 'dana') {
  let lastId = 0;
  let session: string | undefined;
  const send = async (
    message: object | undefined,
    {
      method = 'POST',
      signal = new AbortController().signal,
      id = session,
    }: {
      method?: 'POST' | 'GET' | 'DELETE';
      signal?: AbortSignal;
      id?: string | undefined;
    } = {},
  ) =>
    server.send({
      method,
      headers: {
        accept: both,
        ...(message && { 'content-type': 'application/json' }),
        ...(id !== undefined && { 'mcp-session-id': id }),
      },
      ...(message && { body: Buffer.from(JSON.stringify({ jsonrpc: '2.0', ...message })) }),
      caller,
      signal,
    });
  const open = async (method: string, params?: unknown, signal?: AbortSignal) => {
    lastId += 1;
    return send({ id: lastId, method, params }, signal ? { signal } : {});
  };
  return {
    send,
    open,
    session: () => session,
    /** The response to a request: the last message of its answer. */
    async ask(method: string, params?: unknown): Promise<Said> {
      const said = await saidIn(await open(method, params));
      return said.at(-1) ?? {};
    },
    async call(name: string, args: object = {}): Promise<Said> {
      return this.ask('tools/call', { name, arguments: args });
    },
    async initialize(capabilities: object = { sampling: {} }): Promise<Said> {
      const clientInfo = { name: 'test', version: '1' };
      const params = { protocolVersion: '2025-11-25', capabilities, clientInfo };
      const answer = await open('initialize', params);
      session = answer.headers['mcp-session-id'];
      const [said = {}] = await saidIn(answer);
      if (session !== undefined) await send({ method: 'notifications/initialized' });
      return said;
    },
  };
}

/** The first text in the answer of `call`. */
export function textOf({ result }: Said): string {
  const [first] = Array.isArray(result?.['content']) ? result['content'] : [];
  return String(first?.text);
}

const version = { 'io.modelcontextprotocol/protocolVersion': '2026-07-28' };
/** The `_meta` of a request of the modern era. */
export const modernMeta = {
  ...version,
  'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
  'io.modelcontextprotocol/clientCapabilities': {},
};

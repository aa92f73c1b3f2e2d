import type { ServerResponse } from 'node:http';
import { bodyOf, countedServer, type CountedServer } from '#support/counted-server';
import type { Said } from '#support/scripted-upstream';

export type SseServer = CountedServer & {
  url: URL;
  /** Every message that was posted, in order. */
  posted: Said[];
  /** Sends a message on the latest stream. */
  say: (message: Said) => void;
  /** Breaks off every stream; with `forgetting`, it also forgets the sessions. */
  breakOff: (forgetting?: boolean) => void;
};

export type SseServerOptions = {
  /** The address in the first event of a session; by default that of the session, `''` for no event. */
  endpoint?: (session: number) => string;
  /** The answer to a request; by default an empty result. */
  answer?: (asked: Said) => Said | undefined;
};

/** A server of MCP 2024-11-05: a stream by GET, messages by POST to an address of that stream. */
export async function sseServer({
  endpoint = (session) => `/messages?session=${session}`,
  answer = ({ id }) => ({ id, result: {} }),
}: SseServerOptions = {}): Promise<SseServer> {
  const posted: Said[] = [];
  const streams = new Map<number, ServerResponse>();
  let sessions = 0;
  const send = (stream: ServerResponse | undefined, message: Said) =>
    stream?.write(`event: message\ndata: ${JSON.stringify({ jsonrpc: '2.0', ...message })}\n\n`);
  const server = await countedServer(async (request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? '', server.origin);
    if (request.method === 'GET' && pathname === '/sse') {
      sessions += 1;
      streams.set(sessions, response);
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      const named = endpoint(sessions);
      response.write(named === '' ? ': hello\n\n' : `event: endpoint\ndata: ${named}\n\n`);
      return;
    }
    const stream = streams.get(Number(searchParams.get('session')));
    if (request.method !== 'POST' || pathname !== '/messages' || !stream)
      return void response.writeHead(404).end();
    const message: Said = JSON.parse(await bodyOf(request));
    posted.push(message);
    response.writeHead(202).end();
    const said = message.id === undefined || !message.method ? undefined : answer(message);
    if (said) send(stream, said);
  });
  return Object.assign(server, {
    url: new URL(`${server.origin}/sse`),
    posted,
    say: (message: Said) => void send(streams.get(sessions), message),
    breakOff(forgetting = false) {
      streams.forEach((stream) => stream.destroy());
      if (forgetting) streams.clear();
    },
  });
}

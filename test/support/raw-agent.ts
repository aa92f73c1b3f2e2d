import { once } from 'node:events';
import { WebSocket } from 'ws';

import { head, hello, parsed, types, wireFrame, type WireFrame } from './wire-frames.ts';

export interface RawAgentOptions {
  readonly key?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly subprotocols?: readonly string[];
  /** The servers that its HELLO names; with `undefined` it sends no HELLO. */
  readonly servers?: readonly string[] | undefined;
  /** More members of HELLO. */
  readonly hello?: object;
  /** Receives every frame; by default it answers each request with the result of `reply`. */
  readonly onFrame?: (frame: WireFrame, agent: RawAgent) => void;
  /** The JSON text that answers a request's body. */
  readonly reply?: (body: string, open: WireFrame) => string;
}

/** An agent that does what a test says, over a real WebSocket. */
export interface RawAgent extends AsyncDisposable {
  readonly socket: WebSocket;
  readonly frames: readonly WireFrame[];
  readonly say: (...frames: Uint8Array[]) => void;
  /** Resolves with the first frame of that kind, now or later. */
  readonly frame: (is: (frame: WireFrame) => boolean) => Promise<WireFrame>;
  /** The close code, once there is one. */
  readonly closed: Promise<number>;
}

/**
 * Dials, and resolves once BOUND came, or, without a HELLO, once the socket is open. The agent answers
 * `server/discover` itself, as a server of the modern era; the frames of such a request do not reach the test.
 */
export async function rawAgent(base: string, options: RawAgentOptions): Promise<RawAgent> {
  const { servers, hello: more, onFrame = answering(options.reply) } = options;
  const socket = dial(base, options);
  const frames: WireFrame[] = [];
  const waiting = new Set<() => void>();
  const closed = new Promise<number>((resolve) => socket.once('close', resolve));
  const agent: RawAgent = {
    socket,
    frames,
    closed,
    say: (...said) => said.forEach((frame) => socket.send(frame)),
    frame: (is) =>
      new Promise((resolve) => {
        const look = () => {
          const found = frames.find(is);
          if (!found) return;
          waiting.delete(look);
          resolve(found);
        };
        waiting.add(look);
        look();
      }),
    async [Symbol.asyncDispose]() {
      socket.terminate();
      await closed;
    },
  };
  const tellsEra = tellingEra();
  socket.on('message', (data: Buffer) => {
    const frame = parsed(data);
    if (tellsEra(frame, agent)) return;
    frames.push(frame);
    onFrame(frame, agent);
    for (const look of waiting) look();
  });
  await once(socket, 'open');
  // A server may also refuse by resetting the connection.
  socket.on('error', () => undefined);
  if (servers) {
    agent.say(hello(servers, more));
    await Promise.race([agent.frame(({ type }) => type === types.bound), closed]);
  }
  return agent;
}

/** The status with which the server refuses a dial; 101 if it accepts. */
export function refusedDial(base: string, options: RawAgentOptions): Promise<number> {
  const socket = dial(base, options);
  return new Promise((resolve) => {
    socket.on('error', () => undefined);
    socket.once('open', () => {
      resolve(101);
      socket.terminate();
    });
    socket.once('unexpected-response', (request, response) => {
      resolve(response.statusCode ?? 0);
      request.destroy();
    });
  });
}

function dial(base: string, { key, headers = {}, subprotocols }: RawAgentOptions): WebSocket {
  const url = `${base.replace('http', 'ws')}/api/agents/connect`;
  return new WebSocket(url, [...(subprotocols ?? ['latchkey-agent-1'])], {
    headers: { ...(key !== undefined && { 'X-API-Key': key }), ...headers },
    perMessageDeflate: false,
  });
}

/** Answers `server/discover` on its stream; returns whether a frame belongs to such a request. */
function tellingEra() {
  const asked = new Map<number, string>();
  return ({ type, stream, payload, json }: WireFrame, { say }: RawAgent): boolean => {
    if (type === types.open && JSON.stringify(json).includes('"server/discover"'))
      asked.set(stream, '');
    const body = asked.get(stream);
    if (body === undefined) return false;
    if (type === types.data) asked.set(stream, body + payload.toString());
    if (type === types.end) {
      const { id } = Object(JSON.parse(body));
      const serverInfo = { name: 'raw', version: '1' };
      const result = { supportedVersions: ['2026-07-28'], capabilities: { tools: {} }, serverInfo };
      const text = JSON.stringify({ jsonrpc: '2.0', id, result });
      say(head(stream), wireFrame(types.data, stream, text), wireFrame(types.end, stream));
    }
    return true;
  };
}

/** Answers each request once its body is whole. */
function answering(reply: RawAgentOptions['reply'] = echoed) {
  const asked = new Map<number, { open: WireFrame; body: string }>();
  return (frame: WireFrame, agent: RawAgent) => {
    const { type, stream, payload } = frame;
    const request = asked.get(stream);
    if (type === types.open) asked.set(stream, { open: frame, body: '' });
    else if (type === types.data && request) request.body += payload.toString();
    else if (type === types.reset) asked.delete(stream);
    else if (type === types.end && request) {
      asked.delete(stream);
      const text = reply(request.body, request.open);
      agent.say(head(stream), wireFrame(types.data, stream, text), wireFrame(types.end, stream));
    }
  };
}

/** A JSON-RPC response whose result is the request's params. */
export function echoed(body: string): string {
  const { id, params } = Object(JSON.parse(body));
  return JSON.stringify({ jsonrpc: '2.0', id, result: { ...params } });
}

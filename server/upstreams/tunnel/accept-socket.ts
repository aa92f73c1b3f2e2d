import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { closeCode, FrameWriter, maxFrameBytes, subprotocol } from 'latchkey-mcp/tunnel-frames';
import { WebSocketServer, type WebSocket } from 'ws';
import type { AdmittedAgent } from '#db/agent-directory';
import type { AgentTunnels } from './agent-tunnels.ts';
import type { Tunnel, TunnelSocket } from './tunnel.ts';

const closeTimeoutMs = 1000;
/** A connection with more unsent bytes is ended: the streams of a tunnel may not have so many, so the agent has stopped reading. */
const maxUnsentBytes = 64 * 1024 * 1024;

export interface AcceptedRequest {
  readonly request: IncomingMessage;
  readonly socket: Duplex;
  /** Bytes that arrived after the request. */
  readonly head: Buffer;
}

/** Returns a function that completes the WebSocket upgrade of an admitted agent and opens its tunnel. */
export function socketAcceptor(tunnels: AgentTunnels) {
  const server = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    autoPong: false,
    perMessageDeflate: false,
    maxPayload: maxFrameBytes,
    handleProtocols: () => subprotocol,
  });
  return (agent: AdmittedAgent, { request, socket, head }: AcceptedRequest): void => {
    server.handleUpgrade(request, socket, head, (webSocket) => {
      attach(webSocket, socket, tunnels, (tunnelSocket) => tunnels.add(agent, tunnelSocket));
    });
  };
}

function attach(
  webSocket: WebSocket,
  connection: Duplex,
  tunnels: AgentTunnels,
  add: (socket: TunnelSocket) => Tunnel,
): void {
  const writer = new FrameWriter(connection, (message) => webSocket.send(message));
  const whileOpen = (action: () => void) => {
    if (webSocket.readyState !== webSocket.OPEN) return;
    if (webSocket.bufferedAmount > maxUnsentBytes) webSocket.terminate();
    else action();
  };
  const tunnel = add({
    send: (frame) => whileOpen(() => writer.send(frame)),
    joinFrames: () => writer.joinFrames(),
    ping: () => whileOpen(() => webSocket.ping()),
    close(code, reason) {
      writer.flush();
      webSocket.close(code, reason);
      writer.release();
      // The other end may never answer the close.
      setTimeout(() => webSocket.terminate(), closeTimeoutMs).unref();
    },
    terminate: () => webSocket.terminate(),
  });
  webSocket.on('message', (data, isBinary) => {
    if (!isBinary) return tunnel.end(closeCode.notBinary, 'frames are binary');
    if (Buffer.isBuffer(data)) tunnel.receive(data);
  });
  webSocket.on('pong', () => tunnel.noteActivity());
  webSocket.on('ping', (data) => {
    tunnel.noteActivity();
    whileOpen(() => {
      // The pong tells the agent that it has received everything that was sent before.
      writer.flush();
      webSocket.pong(data);
    });
  });
  webSocket.on('close', () => tunnels.remove(tunnel));
  // `ws` has closed it with the right code, such as 1009 for a frame that is too long; `close` follows.
  webSocket.on('error', () => undefined);
}

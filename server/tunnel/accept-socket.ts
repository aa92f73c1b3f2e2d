import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';

import { WebSocketServer, type WebSocket } from 'ws';

import type { AdmittedAgent } from './agent-directory.ts';
import type { AgentTunnels } from './agent-tunnels.ts';
import { maxFrameBytes } from './frame.ts';
import { framesOfATurn } from './frames-of-a-turn.ts';
import { closeCode, type TunnelSocket } from './tunnel-socket.ts';
import type { Tunnel } from './tunnel.ts';

/** The one that both ends must name. */
export const subprotocol = 'latchkey-agent-1';

const goodbyeMs = 1000;
/** More than all its streams together are allowed, so its other end reads nothing. */
const maxUnsentBytes = 64 * 1024 * 1024;

export interface AcceptedRequest {
  readonly request: IncomingMessage;
  readonly socket: Duplex;
  /** What came behind the request already. */
  readonly head: Buffer;
}

/** Completes the upgrade of agents that were let in, each a tunnel from then on. */
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
      attach(webSocket, socket, tunnels, (below) => tunnels.add(agent, below));
    });
  };
}

function attach(
  webSocket: WebSocket,
  connection: Duplex,
  tunnels: AgentTunnels,
  add: (socket: TunnelSocket) => Tunnel,
): void {
  const frames = framesOfATurn(connection);
  const whileOpen = (act: () => void) => {
    if (webSocket.readyState !== webSocket.OPEN) return;
    if (webSocket.bufferedAmount > maxUnsentBytes) webSocket.terminate();
    else act();
  };
  const tunnel = add({
    send: (frame) =>
      whileOpen(() => {
        frames.hold();
        webSocket.send(frame);
      }),
    ping: () => whileOpen(() => webSocket.ping()),
    close(code, reason) {
      webSocket.close(code, reason);
      frames.release();
      // Who does not say goodbye is let go all the same.
      setTimeout(() => webSocket.terminate(), goodbyeMs).unref();
    },
    terminate: () => webSocket.terminate(),
  });
  webSocket.on('message', (data, isBinary) => {
    if (!isBinary) return tunnel.end(closeCode.notBinary, 'frames are binary');
    if (Buffer.isBuffer(data)) tunnel.got(data);
  });
  webSocket.on('pong', () => tunnel.heard());
  webSocket.on('ping', (data) => {
    tunnel.heard();
    whileOpen(() => webSocket.pong(data));
  });
  webSocket.on('close', () => tunnels.remove(tunnel));
  // `ws` has closed it with the code that fits, 1009 for a frame that is too long; `close` follows.
  webSocket.on('error', () => undefined);
}

import { randomBytes } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { socketOptions } from '#transport/company-proxy';
import { HttpError, platformCode } from '#transport/http-error';
import type { NetworkSettings } from '#transport/network-settings';
import { certificateProblem, isUnknownIssuer } from '#transport/tls';
import { closeCode, FrameWriter, maxFrameBytes, subprotocol } from 'latchkey-mcp/tunnel-frames';
import type { ClientOptions, WebSocket } from 'ws';
import { TunnelError, type Dial, type SocketEvents, type TunnelSocket } from './tunnel.ts';

export type DialOptions = {
  /** `wss:`, or `ws:` on a loopback host. */
  url: URL;
  /** Called for every connection, because the key may change. @throws {TunnelError} */
  readKeySecret: () => Promise<string>;
  settings: NetworkSettings;
  /** How to replace a refused key; part of an error message. */
  newKey: string;
};

const connectTimeoutMs = 20_000;
const closingMs = 2_000;
/** How much the socket may buffer before senders wait. */
const backlogBytes = 1024 * 1024;

/** Connects to the server over WebSocket. Redirects are not followed. `docs/tunnel.md`, "Connecting" */
export function dialWebSocket({ url, readKeySecret, settings, newKey }: DialOptions): Dial {
  let trustsSystem = false;

  async function connect(events: SocketEvents, signal: AbortSignal): Promise<TunnelSocket> {
    const { WebSocket: Socket } = await import('ws');
    const keySecret = await readKeySecret();
    const network = await socketOptions(url, settings, { trustsSystem, connectTimeoutMs });
    const options: ClientOptions = {
      ...network,
      headers: { 'x-api-key': keySecret, 'user-agent': 'latchkey' },
      perMessageDeflate: false,
      maxPayload: maxFrameBytes,
      handshakeTimeout: connectTimeoutMs,
      followRedirects: false,
    };
    const socket = new Socket(url, [subprotocol], options);
    const abort = () => socket.terminate();
    signal.addEventListener('abort', abort, { once: true });
    try {
      return await opened(socket, events, { url, newKey });
    } finally {
      signal.removeEventListener('abort', abort);
    }
  }

  return async (events, signal) => {
    try {
      return await connect(events, signal);
    } catch (error) {
      if (signal.aborted) throw new TunnelError('aborted', 'aborted');
      if (error instanceof TunnelError) throw error;
      if (!isUnknownIssuer(error) || trustsSystem) throw unreachable(error, url);
      trustsSystem = true;
      return connect(events, signal).catch((again: unknown) => {
        throw again instanceof TunnelError ? again : unreachable(again, url);
      });
    }
  };
}

type Target = Pick<DialOptions, 'url' | 'newKey'>;

async function opened(
  socket: WebSocket,
  events: SocketEvents,
  target: Target,
): Promise<TunnelSocket> {
  let writer: FrameWriter | undefined;
  await new Promise<void>((resolve, reject) => {
    socket.once('upgrade', (response) => {
      writer = new FrameWriter(response.socket, (message) => socket.send(message, ignoreError));
    });
    socket.once('open', resolve);
    socket.on('error', reject);
    socket.once('unexpected-response', (request, response: IncomingMessage) => {
      reject(refusal(response, target));
      request.destroy();
    });
    // The first frame may arrive together with the handshake.
    socket.on('message', (data, isBinary) => {
      if (!isBinary) return socket.close(closeCode.notBinary, 'frames are binary');
      events.frame(Buffer.isBuffer(data) ? data : Buffer.concat([data].flat().map(bytesOf)));
    });
    socket.on('ping', events.alive);
    socket.on('pong', events.alive);
    socket.on('close', (code, reason) => events.closed(code, reason.toString().slice(0, 200)));
  });
  return {
    async send(frame) {
      if (socket.readyState !== socket.OPEN) return;
      if (socket.bufferedAmount <= backlogBytes) return writer?.send(frame);
      writer?.release();
      await new Promise<void>((resolve) => socket.send(frame, () => resolve()));
    },
    joinFrames: () => writer?.joinFrames(),
    async settled() {
      writer?.flush();
      await answeredPing(socket);
    },
    close(code, reason) {
      writer?.flush();
      socket.close(code, reason);
      writer?.release();
      setTimeout(() => socket.terminate(), closingMs).unref();
    },
    terminate: () => socket.terminate(),
  };
}

/** Ignores a failure to send a frame: the connection is lost then, and the `close` event reports that. */
function ignoreError(): void {}

/**
 * Resolves when the server has answered a ping, or when the socket is not open. After an answer, the server has received
 * all frames that were sent before the ping, and all frames that the server sent before the pong have arrived.
 *
 * RFC 6455 §5.5.3
 */
async function answeredPing(socket: WebSocket): Promise<void> {
  const mark = randomBytes(8);
  await new Promise<void>((resolve) => {
    if (socket.readyState !== socket.OPEN) return resolve();
    const onPong = (data: Buffer) => {
      if (!mark.equals(data)) return;
      socket.off('pong', onPong);
      resolve();
    };
    socket.on('pong', onPong);
    socket.once('close', () => resolve());
    socket.ping(mark);
  });
}

function bytesOf(data: Buffer | ArrayBuffer): Buffer {
  return Buffer.isBuffer(data) ? data : Buffer.from(data);
}

function refusal(
  { statusCode = 0, headers }: IncomingMessage,
  { url: { host }, newKey }: Target,
): TunnelError {
  const seconds = Number(/^\d{1,5}$/.exec(headers['retry-after'] ?? '')?.[0] ?? 0);
  switch (statusCode) {
    case 401:
      return new TunnelError('refused', `${host} does not accept the agent's key`, {
        remedy: `the key may be revoked or belong to another server; ${newKey}`,
      });
    case 403:
      return new TunnelError('forbidden', `${host} refused the connection (403)`, {
        remedy: 'check whether a proxy in between adds headers such as Origin',
      });
    case 429:
    case 503:
      return new TunnelError('busy', `${host} does not accept agents right now (${statusCode})`, {
        retryAfterSeconds: seconds,
      });
    default:
      return new TunnelError(
        'protocol',
        `${host} answered ${statusCode} instead of opening a tunnel`,
        {
          remedy: 'check --server-url, and that the server and the agent have the same version',
        },
      );
  }
}

function unreachable(error: unknown, { host }: URL): TunnelError {
  if (error instanceof HttpError)
    return new TunnelError('unreachable', error.message, {
      remedy: error.remedy ?? '',
      cause: error,
    });
  const { problem, remedy } = certificateProblem(error) ?? {};
  if (problem !== undefined)
    return new TunnelError('unreachable', `${host}: ${problem}`, {
      remedy: remedy ?? '',
      cause: error,
    });
  const reason =
    (error instanceof Error && error.message) || platformCode(error) || 'no connection';
  return new TunnelError('unreachable', `${host}: ${reason}`, {
    remedy: 'check the network, and that the server is running',
    cause: error,
  });
}

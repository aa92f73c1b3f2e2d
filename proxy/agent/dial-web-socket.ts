import { randomBytes } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { ClientOptions, WebSocket } from 'ws';
import { certificateProblem, isUnknownIssuer } from '#transport/tls';
import { HttpError, platformCode, type NetworkSettings } from '#transport/http-client';
import { socketWay } from '#transport/company-proxy';
import { maxFrameBytes } from './frame.ts';
import { framesOfATurn, type FramesOfATurn } from './frames-of-a-turn.ts';
import { TunnelError } from './tunnel-error.ts';
import type { Dial, SocketHears, TunnelSocket } from './tunnel-socket.ts';

export type DialOptions = {
  /** `wss:`, or `ws:` on a loopback host. */
  url: URL;
  /** Asked at every dial, as it may have been replaced. @throws {TunnelError} */
  readKeySecret: () => Promise<string>;
  settings: NetworkSettings;
  /** What is to be done about a key that is refused. */
  newKey: string;
};

const subprotocol = 'latchkey-agent-1';
const connectTimeoutMs = 20_000;
const goodbyeMs = 2_000;
/** What may wait in the socket before those who send have to. */
const backlogBytes = 1024 * 1024;

/** Dials the server over WebSocket; redirects are not followed. `docs/tunnel.md`, "Dialling" */
export function dialWebSocket({ url, readKeySecret, settings, newKey }: DialOptions): Dial {
  let trustsSystem = false;

  async function connect(hears: SocketHears, signal: AbortSignal): Promise<TunnelSocket> {
    const { WebSocket: Socket } = await import('ws');
    const keySecret = await readKeySecret();
    const way = await socketWay(url, settings, { trustsSystem, connectTimeoutMs });
    const options: ClientOptions = {
      ...way,
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
      return await opened(socket, hears, { url, newKey });
    } finally {
      signal.removeEventListener('abort', abort);
    }
  }

  return async (hears, signal) => {
    try {
      return await connect(hears, signal);
    } catch (error) {
      if (signal.aborted) throw new TunnelError('aborted', 'aborted');
      if (error instanceof TunnelError) throw error;
      if (!isUnknownIssuer(error) || trustsSystem) throw unreachable(error, url);
      trustsSystem = true;
      return connect(hears, signal).catch((again: unknown) => {
        throw again instanceof TunnelError ? again : unreachable(again, url);
      });
    }
  };
}

type Dialled = Pick<DialOptions, 'url' | 'newKey'>;

async function opened(
  socket: WebSocket,
  hears: SocketHears,
  dialled: Dialled,
): Promise<TunnelSocket> {
  let frames: FramesOfATurn | undefined;
  await new Promise<void>((resolve, reject) => {
    socket.once('upgrade', (response) => (frames = framesOfATurn(response.socket)));
    socket.once('open', resolve);
    socket.on('error', reject);
    socket.once('unexpected-response', (request, response: IncomingMessage) => {
      reject(refusal(response, dialled));
      request.destroy();
    });
    // The first frame may come with the handshake's answer.
    socket.on('message', (data, isBinary) => {
      if (!isBinary) return socket.close(1003, 'frames are binary');
      hears.frame(Buffer.isBuffer(data) ? data : Buffer.concat([data].flat().map(bytesOf)));
    });
    socket.on('ping', hears.alive);
    socket.on('pong', hears.alive);
    socket.on('close', (code, reason) => hears.closed(code, reason.toString().slice(0, 200)));
  });
  return {
    send: async (frame) =>
      new Promise((resolve) => {
        if (socket.readyState !== socket.OPEN) return resolve();
        const isBehind = socket.bufferedAmount > backlogBytes;
        frames?.hold();
        socket.send(frame, () => resolve());
        if (!isBehind) resolve();
      }),
    settled: async () => answeredPing(socket),
    close(code, reason) {
      socket.close(code, reason);
      frames?.release();
      setTimeout(() => socket.terminate(), goodbyeMs).unref();
    },
    terminate: () => socket.terminate(),
  };
}

/** A pong comes behind whatever was sent before it, in both directions. RFC 6455 §5.5.3 */
async function answeredPing(socket: WebSocket): Promise<void> {
  const mark = randomBytes(8);
  await new Promise<void>((resolve) => {
    if (socket.readyState !== socket.OPEN) return resolve();
    const hear = (data: Buffer) => {
      if (!mark.equals(data)) return;
      socket.off('pong', hear);
      resolve();
    };
    socket.on('pong', hear);
    socket.once('close', () => resolve());
    socket.ping(mark);
  });
}

function bytesOf(data: Buffer | ArrayBuffer): Buffer {
  return Buffer.isBuffer(data) ? data : Buffer.from(data);
}

function refusal(
  { statusCode = 0, headers }: IncomingMessage,
  { url: { host }, newKey }: Dialled,
): TunnelError {
  const seconds = Number(/^\d{1,5}$/.exec(headers['retry-after'] ?? '')?.[0] ?? 0);
  switch (statusCode) {
    case 401:
      return new TunnelError('refused', `${host} does not accept the agent's key`, {
        remedy: `it may be revoked, or the key of another server; ${newKey}`,
      });
    case 403:
      return new TunnelError('forbidden', `${host} forbids agents to connect this way (403)`, {
        remedy: 'look whether something in between adds headers, as an Origin',
      });
    case 429:
    case 503:
      return new TunnelError('busy', `${host} takes no agent just now (${statusCode})`, {
        retryAfterSeconds: seconds,
      });
    default:
      return new TunnelError('protocol', `${host} answered ${statusCode} instead of a tunnel`, {
        remedy: 'check --server-url, and whether server and agent are of one version',
      });
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
  const said = (error instanceof Error && error.message) || platformCode(error) || 'no connection';
  return new TunnelError('unreachable', `${host}: ${said}`, {
    remedy: 'check the network and whether the server runs',
    cause: error,
  });
}

import { randomBytes, timingSafeEqual } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import {
  Agent,
  type IncomingMessage,
  request as httpRequest,
  type Server,
  type ServerResponse,
} from 'node:http';
import { connect, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { pipeline } from 'node:stream';

// Of the processes that share SQLite, one is the owner and has whatever exists only once. The others forward to it the requests that
// they do not answer themselves, each caller's connection over a connection of its own. That connection begins with a line that proves
// its origin and names the caller's address, and that no request can contain. The requests follow.

const pipes = '\\\\.\\pipe\\';

/** Where the owner receives forwarded requests. */
export interface OwnerSocket {
  /** A Unix socket in a folder that only this user may enter; on Windows a named pipe. */
  readonly path: string;
  /** Proves that a connection comes from a process of this server. */
  readonly secret: string;
}

/** Creates a socket for the owner. The caller must remove it with `removeOwnerSocket`. */
export function newOwnerSocket(platform: NodeJS.Platform): OwnerSocket {
  const secret = randomBytes(32).toString('base64url');
  const path =
    platform === 'win32'
      ? `${pipes}latchkey-${randomBytes(16).toString('hex')}`
      : join(mkdtempSync(join(tmpdir(), 'latchkey-')), 'owner');
  return { path, secret };
}

export function removeOwnerSocket({ path }: OwnerSocket): void {
  if (!isPipe(path)) rmSync(dirname(path), { recursive: true, force: true });
}

/** Whether the path is a named pipe, which Windows removes when its process ends. */
function isPipe(path: string): boolean {
  return path.startsWith(pipes);
}

/**
 * Passes forwarded requests to `server`, each with the address of its caller, as if the caller had connected directly.
 *
 * @returns a function that stops listening, and resolves when the last of these connections has ended
 */
export async function acceptForwarded(
  server: Server,
  { path, secret }: OwnerSocket,
): Promise<() => Promise<void>> {
  const proof = Buffer.from(secret);
  const listener = createServer({ allowHalfOpen: true }, (socket) => {
    socket.once('error', () => socket.destroy());
    // The line always arrives in the first chunk, because a local socket delivers much longer pieces whole.
    socket.once('data', (chunk: Buffer) => {
      socket.pause();
      const end = chunk.indexOf('\n');
      const proved = chunk.subarray(0, proof.length);
      if (end < proof.length || !timingSafeEqual(proved, proof)) return socket.destroy();
      const remoteAddress = chunk.toString('latin1', proof.length + 1, end) || undefined;
      Object.defineProperty(socket, 'remoteAddress', { value: remoteAddress });
      socket.unshift(chunk.subarray(end + 1));
      server.emit('connection', socket);
      socket.resume();
    });
  });
  // An owner that was killed has left its socket behind.
  if (!isPipe(path)) rmSync(path, { force: true });
  // Without `exclusive`, the workers of `node:cluster` would share the socket.
  listener.listen({ path, exclusive: true });
  await once(listener, 'listening');
  return () => new Promise((resolve) => listener.close(() => resolve()));
}

/** The connection of a request to upgrade, and the bytes that arrived after the request. */
interface Upgrade {
  readonly socket: Socket;
  readonly head: Buffer;
}

export class Forwarder {
  readonly #owner: OwnerSocket;
  /** The connections to the owner, by the connections of callers. */
  readonly #agents = new WeakMap<Socket, Agent>();
  readonly #failed: (error: unknown) => void;

  /** `failed` is called when the owner did not answer. */
  constructor(owner: OwnerSocket, failed: (error: unknown) => void) {
    this.#owner = owner;
    this.#failed = failed;
  }

  /**
   * Forwards a request whose body has not been read, and streams the answer back. Answers 503 with `Retry-After` when nothing was
   * sent, and 502 when the owner may have acted on the request.
   */
  forward(request: IncomingMessage, response: ServerResponse): void {
    const { method, url: path, socket } = request;
    const headers = forwardedHeaders(request);
    const onward = httpRequest({ method, path, headers, agent: this.#agentFor(socket) });
    let wasSent = false;
    onward.once('socket', (connection) => {
      if (!connection.connecting) wasSent = true;
      else connection.once('connect', () => (wasSent = true));
    });
    onward.once('response', (answer) => {
      const { statusCode = 502, statusMessage, rawHeaders } = answer;
      response.writeHead(statusCode, statusMessage, without(ofAnswer, rawHeaders));
      // A stream may be silent for long after its head.
      if (answer.headers['content-length'] === undefined) response.flushHeaders();
      pipeline(answer, response, () => {});
    });
    onward.on('error', (error) => {
      if (response.headersSent || response.destroyed) return void response.destroy();
      this.#failed(error);
      refuse(response, wasSent);
    });
    onward.once('close', () => {
      // The owner may answer before it has read the whole request.
      request.unpipe(onward);
      request.resume();
    });
    response.once('close', () => {
      if (!response.writableFinished || !request.complete) onward.destroy();
    });
    request.pipe(onward);
    // Node delays the head until the body begins, but the owner may answer a head without a body.
    setImmediate(() => onward.flushHeaders());
  }

  /** Forwards a request to upgrade, and all bytes that either side sends after it. */
  forwardUpgrade(request: IncomingMessage, { socket, head }: Upgrade): void {
    const connection = this.#connect(socket);
    const { method, url, httpVersion, rawHeaders } = request;
    let lines = `${method} ${url} HTTP/${httpVersion}\r\n`;
    for (let at = 0; at < rawHeaders.length; at += 2) {
      lines += `${rawHeaders[at]}: ${rawHeaders[at + 1]}\r\n`;
    }
    connection.write(`${lines}\r\n`, 'latin1');
    connection.write(head);
    pipeline(socket, connection, socket, (error) => {
      if (error && error.code !== 'ERR_STREAM_PREMATURE_CLOSE') this.#failed(error);
      socket.destroy();
      connection.destroy();
    });
  }

  #agentFor(socket: Socket): Agent {
    const known = this.#agents.get(socket);
    if (known) return known;
    // One request at a time, so that answers keep their order.
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    agent.createConnection = () => this.#connect(socket);
    this.#agents.set(socket, agent);
    socket.once('close', () => agent.destroy());
    return agent;
  }

  #connect({ remoteAddress = '' }: Socket): Socket {
    const { path, secret } = this.#owner;
    const connection = connect({ path, allowHalfOpen: true });
    connection.write(`${secret} ${remoteAddress}\n`);
    return connection;
  }
}

/** Headers of an answer that apply to its connection only. */
const ofAnswer: ReadonlySet<string> = new Set(['connection', 'keep-alive', 'transfer-encoding']);
/** Headers of a request that are not forwarded. Node throws for a `Trailer` without a chunked body, and the owner does not read trailers. */
const ofRequest: ReadonlySet<string> = new Set(['connection', 'keep-alive', 'expect', 'trailer']);

/** The headers with which the owner receives the same request. */
function forwardedHeaders({ headers, rawHeaders }: IncomingMessage): string[] {
  const forwarded = [...without(ofRequest, rawHeaders), 'Connection', 'keep-alive'];
  const { host, 'content-length': length, 'transfer-encoding': coding } = headers;
  // Only HTTP/1.0 has requests without `Host`.
  if (host === undefined) forwarded.push('Host', '');
  // Without a length, Node would announce a body of unknown length.
  if (length === undefined && coding === undefined) forwarded.push('Content-Length', '0');
  return forwarded;
}

/** The headers except `names`. In `rawHeaders` and the result, names and values alternate. */
function without(names: ReadonlySet<string>, rawHeaders: readonly string[]): string[] {
  return rawHeaders.filter((_, at) => !names.has(rawHeaders[at - (at % 2)]?.toLowerCase() ?? ''));
}

function refuse(response: ServerResponse, wasSent: boolean): void {
  const description = wasSent
    ? 'the process that has this broke off: it may have taken effect'
    : 'the process that has this is starting: try again';
  const body = JSON.stringify({
    error: 'temporarily_unavailable',
    error_description: description,
  });
  const headers = { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) };
  if (wasSent) response.writeHead(502, headers);
  else response.writeHead(503, { ...headers, 'Retry-After': '1' });
  response.end(body);
}

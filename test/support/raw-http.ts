import { connect } from 'node:net';
import { patient } from './patient.ts';

export interface RawHttpOptions {
  readonly host?: string;
  /** How long to listen to a server that keeps the connection open; a minute unless given. */
  readonly timeoutMs?: number;
  /** Stops listening once this returns true for the text so far; by default only the server or the timeout ends it. */
  readonly until?: (text: string) => boolean;
}

export interface RawAnswer {
  /** The answer byte for byte, as Latin-1: one character a byte. */
  readonly text: string;
  /** The status of each response on the connection; two after one request mean that one was smuggled. */
  readonly statuses: readonly number[];
  /** Whether the server closed the connection, rather than the time running out. */
  readonly closed: boolean;
}

/**
 * Sends `bytes` over a fresh TCP connection, as they are, and returns what came back. Strings go out
 * as Latin-1. Each element of a list is a write of its own, 20 ms apart, so that it arrives separately.
 * Without `Connection: close` or `until`, it waits until the time runs out, if the server keeps the connection open.
 */
export function rawHttp(
  port: number,
  bytes: string | Uint8Array | readonly (string | Uint8Array)[],
  { host = '127.0.0.1', timeoutMs = patient.timeout, until }: RawHttpOptions = {},
): Promise<RawAnswer> {
  return new Promise((resolve, reject) => {
    let text = '';
    let connected = false;
    const socket = connect({ host, port, noDelay: true });
    const finish = (closed: boolean) => {
      clearTimeout(timer);
      socket.destroy();
      const statuses = [...text.matchAll(/HTTP\/1\.[01] (\d{3}) [^\r\n]*\r\n/g)].map((match) =>
        Number(match[1]),
      );
      resolve({ text, statuses, closed });
    };
    const timer = setTimeout(() => finish(false), timeoutMs);
    const send = (rest: readonly (string | Uint8Array)[]) => {
      const [first, ...others] = rest;
      if (first === undefined || socket.destroyed) return;
      socket.write(typeof first === 'string' ? Buffer.from(first, 'latin1') : first);
      if (others.length > 0) setTimeout(() => send(others), 20);
    };
    socket.setEncoding('latin1');
    socket.on('connect', () => {
      connected = true;
      send(typeof bytes === 'string' || bytes instanceof Uint8Array ? [bytes] : bytes);
    });
    socket.on('data', (part: string) => {
      text += part;
      if (until?.(text)) finish(false);
    });
    socket.on('close', () => finish(true));
    socket.on('error', (error) => {
      // A server that resets the connection has refused the request: an answer, not a failure.
      if (connected) return;
      clearTimeout(timer);
      reject(error);
    });
  });
}

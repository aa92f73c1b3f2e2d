import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';

/**
 * Says which requests a proxy in front could read otherwise than we do: with a transfer coding besides
 * `chunked`, any of it in HTTP/1.0, or not one `Host`. What else is ambiguous the HTTP parser refuses.
 * Whatever follows on such a connection is as suspect, and has been read already. RFC 9112 §3.2, §6.1
 */
export function framingGuard(): (request: IncomingMessage) => boolean {
  const suspect = new WeakSet<Socket>();
  return (request) => {
    if (!suspect.has(request.socket) && !isAmbiguous(request)) return false;
    suspect.add(request.socket);
    return true;
  };
}

function isAmbiguous({ headers, rawHeaders, httpVersion }: IncomingMessage): boolean {
  const isOld = httpVersion === '1.0';
  const coding = headers['transfer-encoding'];
  if (coding !== undefined && (coding.toLowerCase() !== 'chunked' || isOld)) return true;
  let hosts = 0;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index];
    if (name?.length === 4 && name.toLowerCase() === 'host') hosts += 1;
  }
  return isOld ? hosts > 1 : hosts !== 1;
}

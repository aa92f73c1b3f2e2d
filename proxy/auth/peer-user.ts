import { readFileSync } from 'node:fs';
import { endianness, userInfo } from 'node:os';

/** The two ends of a connection over IPv4, as our socket names them. */
export type LocalConnection = {
  remoteAddress?: string | undefined;
  remotePort?: number | undefined;
  localAddress?: string | undefined;
  localPort?: number | undefined;
};

/** Whose program is at the other end: this user's, another user's, or we cannot tell. */
export type PeerUser = 'same' | 'other' | 'unknown';

/** A program may reach an IPv4 address with a socket of IPv6, too. */
const tables = ['/proc/net/tcp', '/proc/net/tcp6'];

/**
 * Which user of this machine opened a connection to us, from the kernel's own table. Only Linux has one that
 * everybody may read.
 *
 * proc_pid_net(5)
 */
export function peerUser(
  { remoteAddress, remotePort, localAddress, localPort }: LocalConnection,
  readText: (path: string) => string = (path) => readFileSync(path, 'utf8'),
  ownId: number = userInfo().uid,
): PeerUser {
  const from = inTable(remoteAddress, remotePort);
  const to = inTable(localAddress, localPort);
  const rows = tables.flatMap((path) => rowsOf(path, readText));
  const row = rows.find(([, local, remote]) => local?.endsWith(from) && remote?.endsWith(to));
  const id = Number(row?.[7] ?? Number.NaN);
  if (id === ownId) return 'same';
  // The kernel shows 0 also for a connection that its program has closed, and for relays such as WSL's.
  return Number.isNaN(id) || id === 0 ? 'unknown' : 'other';
}

function rowsOf(path: string, readText: (path: string) => string): string[][] {
  try {
    return readText(path)
      .split('\n')
      .map((line) => line.trim().split(/\s+/));
  } catch {
    return [];
  }
}

/** `0100007F:1F90` for 127.0.0.1:8080: the address in the machine's byte order, the port in the network's. */
function inTable(address = '', port = 0): string {
  const bytes = address.split('.').map((part) => hex(Number(part), 2));
  if (endianness() === 'LE') bytes.reverse();
  return `${bytes.join('')}:${hex(port, 4)}`;
}

function hex(value: number, digits: number): string {
  return value.toString(16).toUpperCase().padStart(digits, '0');
}

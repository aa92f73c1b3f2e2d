import { createSocket } from 'node:dgram';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** A name server that knows a few IPv4 addresses, and never answers about names that end in `.silent.test`. */
export interface NameServer extends AsyncDisposable {
  /** Names that were asked for, in order. */
  readonly asked: readonly string[];
}

/** Listens at port 53 of a loopback address, which takes root. RFC 1035 */
export async function nameServer(
  address: string,
  known: Readonly<Record<string, string>>,
): Promise<NameServer> {
  const asked: string[] = [];
  const socket = createSocket('udp4', (message, from) => {
    const { name, end } = nameIn(message);
    const isIpv4 = message.readUInt16BE(end) === 1;
    asked.push(name);
    if (name.endsWith('.silent.test')) return;
    const found = known[name];
    const records = found !== undefined && isIpv4 ? 1 : 0;
    const header = Buffer.alloc(12);
    message.copy(header, 0, 0, 2);
    header.writeUInt16BE(found === undefined ? 0x8583 : 0x8580, 2);
    header.writeUInt16BE(1, 4);
    header.writeUInt16BE(records, 6);
    const record = Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
    const bytes = Buffer.from((found ?? '').split('.').map(Number));
    const answer = records === 1 ? [record, bytes] : [];
    const question = message.subarray(12, end + 4);
    socket.send(Buffer.concat([header, question, ...answer]), from.port, from.address);
  });
  await new Promise<void>((resolve, reject) => {
    socket.once('error', reject);
    socket.bind(53, address, resolve);
  });
  return {
    asked,
    [Symbol.asyncDispose]: () => new Promise((resolve) => socket.close(() => resolve())),
  };
}

/** The name in the question of a message, and where it ends. */
function nameIn(message: Buffer): { name: string; end: number } {
  const labels: string[] = [];
  let at = 12;
  for (let length = message[at] ?? 0; length > 0; length = message[at] ?? 0) {
    labels.push(message.toString('latin1', at + 1, at + 1 + length));
    at += 1 + length;
  }
  return { name: labels.join('.').toLowerCase(), end: at + 1 };
}

/**
 * The words before a command that run it with these files instead of `/etc/hosts` and `/etc/resolv.conf`; no other process
 * sees them. Needs the requirement `mountNamespaces`.
 */
export function withNames(
  folder: string,
  { hosts, resolver }: { hosts: string; resolver: string },
): readonly [command: string, ...args: string[]] {
  const files = [join(folder, 'hosts'), join(folder, 'resolv.conf')] as const;
  writeFileSync(files[0], hosts);
  writeFileSync(files[1], resolver);
  const mount = 'mount --bind "$1" /etc/hosts && mount --bind "$2" /etc/resolv.conf';
  const script = `${mount} && shift 2 && exec "$@"`;
  return ['unshare', '--mount', '--propagation', 'private', 'sh', '-c', script, 'sh', ...files];
}

import { connect, createServer, type Socket } from 'node:net';
import { endianness, platform } from 'node:os';
import { expect, test } from 'vitest';
import { peerUser } from '#proxy/auth/redirect-listener';
import { listen } from '#support/loopback';

const heading =
  '  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode';
/** From 127.0.0.1:40000 to 127.0.0.1:8080, in the byte order of this machine. */
const [local, remote] = endianness() === 'LE' ? ['0100007F', '0100007F'] : ['7F000001', '7F000001'];
const row = (uid: number, from = '9C40', to = '1F90', prefix = '') =>
  `   1: ${prefix}${local}:${from} ${prefix}${remote}:${to} 01 00000000:00000000 00:00000000 00000000  ${uid}        0 77 1 0 20 4 30 10 -1`;
const connection = {
  remoteAddress: '127.0.0.1',
  remotePort: 40_000,
  localAddress: '127.0.0.1',
  localPort: 8_080,
};
const mapped = '0000000000000000FFFF0000';

test.each<[string, Record<string, string>, string]>([
  ['our own', { '/proc/net/tcp': `${heading}\n${row(1000)}\n` }, 'same'],
  ['another’s', { '/proc/net/tcp': `${heading}\n${row(1001)}\n` }, 'other'],
  [
    'another’s over IPv6',
    { '/proc/net/tcp': heading, '/proc/net/tcp6': row(1001, undefined, undefined, mapped) },
    'other',
  ],
  ['one that was closed', { '/proc/net/tcp': row(0) }, 'unknown'],
  ['our own end of it', { '/proc/net/tcp': row(1001, '1F90', '9C40') }, 'unknown'],
  ['one of another port', { '/proc/net/tcp': row(1001, '9C41') }, 'unknown'],
  ['a machine without the table', {}, 'unknown'],
])('peer user of a connection: %s', (_, files, user) => {
  const read = (path: string) => {
    const text = files[path];
    if (text === undefined) throw new Error('ENOENT');
    return text;
  };

  expect(peerUser(connection, read, 1000)).toBe(user);
});

test('peer user of a connection: on Linux, a connection of this process belongs to its user', async () => {
  const { promise, resolve } = Promise.withResolvers<Socket>();
  const server = createServer(resolve);
  const port = await listen(server);
  const client = connect(port, '127.0.0.1');
  const socket = await promise;

  const user = peerUser(socket);

  client.destroy();
  socket.destroy();
  server.close();
  expect(user).toBe(platform() === 'linux' ? 'same' : 'unknown');
});

import { connect } from 'node:net';

const limitMs = 3000;

/** Whether a host accepts a connection for https within three seconds. Nothing is sent. */
export function acceptsConnection(host: string): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const socket = connect({ host, port: 443 });
  const late = setTimeout(() => socket.destroy(), limitMs);
  socket.once('connect', () => {
    resolve(true);
    socket.destroy();
  });
  socket
    .once('error', () => resolve(false))
    .once('close', () => {
      clearTimeout(late);
      resolve(false);
    });
  return promise;
}

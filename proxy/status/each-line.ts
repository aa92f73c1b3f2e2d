import type { Socket } from 'node:net';

/** Hands over the lines that come; a line over the limit ends the connection. */
export function eachLine(socket: Socket, longestBytes: number, take: (line: string) => void): void {
  let rest = '';
  socket.setEncoding('utf8');
  socket.on('data', (text: string) => {
    const lines = (rest + text).split('\n');
    rest = lines.pop() ?? '';
    if (rest.length > longestBytes) return void socket.destroy();
    lines.forEach(take);
  });
}

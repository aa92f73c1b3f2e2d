import { connect, createServer, type Socket } from 'node:net';

import { listen } from './loopback.ts';

/** A network in front of a server. Some of its connections can be cut off and joined again. */
export interface CutNetwork extends AsyncDisposable {
  readonly port: number;
  /** Sets the port of 127.0.0.1 to which the network forwards. */
  lead(port: number): void;
  /**
   * From now on nothing passes, in either direction, on connections whose first bytes begin with `start`, including
   * new ones. Neither end notices: bytes wait, and so does the close of the other end.
   */
  cut(start: string): void;
  /** Lets everything pass that waits, and everything after it. */
  join(): void;
  /** How many connections so far begin with `start`. */
  count(start: string): number;
}

export async function cutNetwork(): Promise<CutNetwork> {
  const open = new Set<Socket>();
  const starts: string[] = [];
  let target = 0;
  const cutOff: { start?: string | undefined } = {};
  let joined = Promise.resolve();
  let join = () => {};

  /** Resolves when bytes of a connection that begins with `start` may pass. */
  const passable = async (start: string) => {
    while (cutOff.start !== undefined && start.startsWith(cutOff.start)) await joined;
  };

  async function pump(from: Socket, to: Socket, start: string): Promise<void> {
    try {
      for await (const chunk of from) {
        await passable(start);
        if (to.destroyed) break;
        if (!to.write(chunk)) await drained(to);
      }
    } catch {
      // The connection was reset, which is one way to end.
    }
    await passable(start);
    to.destroy();
  }

  async function lead(near: Socket): Promise<void> {
    open.add(near.on('error', () => undefined));
    const first = await new Promise<Buffer | undefined>((resolve) => {
      near.once('data', (chunk: Buffer) => {
        near.pause();
        resolve(chunk);
      });
      near.once('close', () => resolve(undefined));
    });
    if (!first) return;
    const start = first.toString('latin1');
    starts.push(start);
    await passable(start);
    const far = connect(target, '127.0.0.1');
    open.add(far.on('error', () => near.destroy()));
    far.write(first);
    await Promise.all([pump(near, far, start), pump(far, near, start)]);
    open.delete(near);
    open.delete(far);
  }

  const server = createServer((socket) => void lead(socket));
  const port = await listen(server);
  return {
    port,
    lead: (to) => (target = to),
    cut(start) {
      cutOff.start = start;
      ({ promise: joined, resolve: join } = Promise.withResolvers<void>());
    },
    join() {
      cutOff.start = undefined;
      join();
    },
    count: (start) => starts.filter((one) => one.startsWith(start)).length,
    async [Symbol.asyncDispose]() {
      cutOff.start = undefined;
      join();
      for (const socket of open) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function drained(socket: Socket): Promise<void> {
  return new Promise((resolve) => {
    socket.once('drain', resolve);
    socket.once('close', () => resolve());
  });
}

import { connect, createServer, type AddressInfo, type Socket } from 'node:net';

/** A TCP proxy between a program and a server on this machine, whose traffic a test can stall and cut. */
export interface WireProxy extends AsyncDisposable {
  readonly port: number;
  /** The same URL, through the proxy. */
  through(url: string): string;
  /** Keeps all bytes back, in both directions, until `resume`. New connections are accepted, and wait too. */
  stall(): void;
  resume(): void;
  /** Ends all connections, and refuses new ones until `mend`. */
  cut(): Promise<void>;
  mend(): Promise<void>;
}

/** Opens a proxy to a port on loopback. */
export async function wireProxy(target: { host: string; port: number }): Promise<WireProxy> {
  const sockets = new Set<Socket>();
  let isStalled = false;
  const keep = (socket: Socket) => {
    sockets.add(socket);
    if (isStalled) socket.pause();
    socket.once('close', () => sockets.delete(socket)).on('error', () => socket.destroy());
  };
  const server = createServer((near) => {
    const far = connect(target);
    for (const socket of [near, far]) keep(socket);
    near.on('data', (bytes) => void far.write(bytes)).once('close', () => far.destroy());
    far.on('data', (bytes) => void near.write(bytes)).once('close', () => near.destroy());
    if (isStalled) for (const socket of [near, far]) socket.pause();
  });
  const listen = (at: number) =>
    new Promise<void>((resolve, reject) => {
      server.once('error', reject).listen(at, '127.0.0.1', resolve);
    });
  await listen(0);
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion
  const { port } = server.address() as AddressInfo;
  const close = () =>
    new Promise<void>((resolve) => {
      server.close(() => resolve());
      for (const socket of sockets) socket.destroy();
    });
  return {
    port,
    through(url) {
      const changed = new URL(url);
      changed.hostname = '127.0.0.1';
      changed.port = String(port);
      return changed.href;
    },
    stall() {
      isStalled = true;
      for (const socket of sockets) socket.pause();
    },
    resume() {
      isStalled = false;
      for (const socket of sockets) socket.resume();
    },
    cut: close,
    mend: () => listen(port),
    async [Symbol.asyncDispose]() {
      if (server.listening) await close();
    },
  };
}

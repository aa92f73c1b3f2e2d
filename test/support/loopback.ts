import { createServer, type Server } from 'node:net';

/** Lets `server`, of `node:net` or `node:http`, listen on a free port of `host`; the port. */
export function listen(server: Server, host = '127.0.0.1'): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(0, host, () => {
      const address = server.address();
      resolve(typeof address === 'object' && address ? address.port : 0);
    });
  });
}

/**
 * A port of 127.0.0.1 that nothing listens on, for a program that must be told its port before it starts.
 *
 * It lies below the ports that the system assigns (from 32768 on Linux, 49152 elsewhere), and each worker
 * of a run has a thousand of its own, so that no other test and no connection takes it before the program does. Runs
 * that take place at the same time begin at different thousands, unless their process ids differ by a multiple of 20.
 */
export async function freePort(): Promise<number> {
  const worker = Number(process.env['VITEST_POOL_ID'] ?? 0);
  const first = 12_000 + 1000 * ((process.ppid + worker) % 20);
  for (let attempt = 0; attempt < 1000; attempt += 1) {
    const port = first + ((process.pid + taken) % 1000);
    taken += 1;
    if (await isFree(port)) return port;
  }
  throw new Error(`no port from ${first} to ${first + 999} is free`);
}

/** How many ports this process has tried. */
let taken = 0;

function isFree(port: number): Promise<boolean> {
  const server = createServer();
  return new Promise((resolve) => {
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}

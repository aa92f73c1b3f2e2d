import { createServer } from 'node:http';
import { join } from 'node:path';

import { bodyOf } from './counted-server.ts';
import { listen } from './loopback.ts';

/** Takes the addresses that a program wants to show somebody, so that a test's browser opens them. */
export interface BrowserHandover extends AsyncDisposable {
  /** For every program that opens a browser by itself. */
  readonly env: Readonly<Record<string, string>>;
  /** The next address, in the order they came. */
  next(): Promise<string>;
  /** How many nobody has asked for. */
  readonly left: number;
}

export async function browserHandover(): Promise<BrowserHandover> {
  const came: string[] = [];
  const waiting: ((address: string) => void)[] = [];
  const take = (address: string) => {
    const first = waiting.shift();
    if (first) first(address);
    else came.push(address);
  };
  const server = createServer((request, response) => {
    void bodyOf(request).then((address) => {
      response.end();
      take(address);
    });
  });
  const port = await listen(server);
  return {
    env: {
      BROWSER: join(import.meta.dirname, 'handing-browser.mjs'),
      HAND_TO: `http://127.0.0.1:${port}`,
    },
    get left() {
      return came.length;
    },
    async next() {
      const address = came.shift();
      return address ?? new Promise((resolve) => waiting.push(resolve));
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
    },
  };
}

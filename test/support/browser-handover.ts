import { createServer } from 'node:http';
import { join } from 'node:path';

import { bodyOf } from './counted-server.ts';
import { listen } from './loopback.ts';

/** Receives the addresses that a program wants to open in a browser, so that the test opens them. */
export interface BrowserHandover extends AsyncDisposable {
  /** The environment of every program that opens a browser. */
  readonly env: Readonly<Record<string, string>>;
  /** The next address, in the order they came. */
  next(): Promise<string>;
  /** How many addresses were not read with `next`. */
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

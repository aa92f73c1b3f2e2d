import { setImmediate } from 'node:timers/promises';
import type { Child } from '#proxy/agent/child-process';
import type { Said } from './local-caller.ts';

export type FakeChild = Child & {
  /** All messages that were written to the child. */
  readonly heard: Said[];
  /** Resolves with the first message of that method, once it is written to the child. */
  hears(method: string): Promise<Said>;
  /** Prints a line: text as it is, anything else as a JSON-RPC message. */
  says(line: unknown): void;
  /** Ends unprompted. */
  dies(how?: string): void;
  readonly isEnded: boolean;
};

/** A child whose output a test writes. */
export function fakeChild(): FakeChild {
  const heard: Said[] = [];
  const queue: Buffer[] = [];
  const end = Promise.withResolvers<string>();
  let isEnded = false;
  let news = Promise.withResolvers<void>();

  async function* lines(): AsyncGenerator<Buffer> {
    for (;;) {
      const line = queue.shift();
      if (line) yield line;
      else if (isEnded) return;
      else {
        news = Promise.withResolvers<void>();
        await news.promise;
      }
    }
  }
  const dies = (how = 'ended with code 1') => {
    isEnded = true;
    end.resolve(how);
    news.resolve();
  };
  return {
    heard,
    lines: lines(),
    ended: end.promise,
    get isEnded() {
      return isEnded;
    },
    async write(line) {
      heard.push(JSON.parse(line.toString()));
    },
    async hears(method) {
      for (;;) {
        const found = heard.find((message) => message.method === method);
        if (found) return found;
        await setImmediate();
      }
    },
    says(line) {
      const text = typeof line === 'string' ? line : JSON.stringify({ jsonrpc: '2.0', ...line! });
      queue.push(Buffer.from(text));
      news.resolve();
    },
    dies,
    async end() {
      dies('was killed by SIGTERM');
    },
  };
}

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { inherited, proxyLauncher } from './programs.ts';

export const launcher = proxyLauncher;

export type Answer = {
  id?: unknown;
  method?: string;
  params?: Record<string, unknown>;
  result?: Record<string, unknown>;
  error?: { code: number; message: string; data?: Record<string, unknown> };
};

/** A running proxy, spoken to in raw lines. */
export type ProxyProcess = {
  pid: number;
  /** Sends a line: text as it is, anything else as JSON. */
  send(line: unknown): void;
  /** The next line of stdout, parsed. */
  next(): Promise<Answer>;
  /** The next line of stdout as it came. */
  nextLine(): Promise<string>;
  /** Sends a request and returns its answer; lines in between are left for `next`. */
  request(method: string, params?: unknown): Promise<Answer>;
  handshake(): Promise<Answer>;
  /** Ends stdin, as an assistant does. */
  hangUp(): void;
  /** Closes the test's end of the proxy's stdout. */
  stopReading(): void;
  /** Leaves the proxy's output in the pipe until `goOnReading`. */
  pauseReading(): void;
  goOnReading(): void;
  kill(signal: NodeJS.Signals): void;
  /** The exit code, once it has ended and all of its output has been read. */
  ended: Promise<number | null>;
  stderr(): string;
  /** Lines of stdout that were not read yet. */
  unread(): string[];
  [Symbol.asyncDispose](): Promise<void>;
};

export type ProxyOptions = {
  args: string[];
  /** The program that an assistant's entry names, instead of Node with `launcher`. */
  command?: string;
  env?: Record<string, string | undefined>;
};

const initialize = {
  protocolVersion: '2025-11-25',
  capabilities: {},
  clientInfo: { name: 'test', version: '1' },
};

/** Starts the real proxy, from its launcher. It is killed by its own pid when the test is over. */
export function proxyProcess({ args, command, env = {} }: ProxyOptions): ProxyProcess {
  const words: [string, string[]] =
    command === undefined ? [process.execPath, [launcher, ...args]] : [command, args];
  const home = mkdtempSync(join(tmpdir(), 'home-'));
  const child = spawn(...words, {
    env: { ...inherited, HOME: home, ...env },
    stdio: 'pipe',
  });
  // Removed at the exit of the process, because some tests do not dispose of it, but only wait until it has ended.
  child.once('exit', () => rmSync(home, { recursive: true, force: true }));
  const lines: string[] = [];
  const waiting: ((line: string) => void)[] = [];
  let stderr = '';
  let nextId = 1;
  const printed = createInterface({ input: child.stdout });
  printed.on('line', (line) => {
    const first = waiting.shift();
    if (first) first(line);
    else lines.push(line);
  });
  child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
  child.stdin.on('error', () => undefined);
  const exited = once(child, 'exit');
  // Only at `close` has all of its output been read.
  const ended = once(child, 'close').then(([code]: (number | null)[]) => code ?? null);

  const nextLine = async () => {
    const line = lines.shift();
    if (line !== undefined) return line;
    const arrived = new Promise<string>((resolve) => waiting.push(resolve));
    const gone = ended.then((code) => {
      throw new Error(`the proxy ended with ${code}: ${stderr}`);
    });
    return Promise.race([arrived, gone]);
  };
  const next = async () => parse(await nextLine());
  const send = (line: unknown) =>
    void child.stdin.write(`${typeof line === 'string' ? line : JSON.stringify(line)}\n`);

  async function request(method: string, params?: unknown): Promise<Answer> {
    const id = nextId++;
    send({ jsonrpc: '2.0', id, method, params });
    const others: string[] = [];
    for (;;) {
      const line = await nextLine();
      const answer = parse(line);
      if (answer.id === id && answer.method === undefined) {
        lines.unshift(...others);
        return answer;
      }
      others.push(line);
    }
  }

  return {
    pid: child.pid ?? 0,
    send,
    next,
    nextLine,
    request,
    async handshake() {
      const answer = await request('initialize', initialize);
      send({ jsonrpc: '2.0', method: 'notifications/initialized' });
      return answer;
    },
    hangUp: () => void child.stdin.end(),
    stopReading: () => void child.stdout.destroy(),
    pauseReading: () => void printed.pause(),
    goOnReading: () => void printed.resume(),
    kill: (signal) => void child.kill(signal),
    ended,
    stderr: () => stderr,
    unread: () => lines,
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL');
      await exited;
    },
  };
}

function parse(line: string): Answer {
  const answer: Answer = JSON.parse(line);
  return answer;
}

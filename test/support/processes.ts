import { spawn, type ChildProcessByStdio } from 'node:child_process';
import type { Readable, Writable } from 'node:stream';

export interface ProgramOptions {
  readonly args?: readonly string[];
  /** Added to this process's environment; `undefined` takes a variable away. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly cwd?: string;
  /** How long `end` waits after SIGTERM before it sends SIGKILL. */
  readonly endLimitMs?: number;
}

export interface LineOptions {
  readonly stream?: 'stdout' | 'stderr';
  readonly timeoutMs?: number;
}

export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

const running = new Set<Program>();

/** Kills the programs of a test worker that exits. */
function killAll(): void {
  for (const program of running) program.kill('SIGKILL');
}

/** A real program started by a test; ended, by its own pid, when its `await using` scope ends. */
export class Program {
  /** All output so far. */
  stdout = '';
  stderr = '';
  readonly exited: Promise<Exit>;
  readonly #child: ChildProcessByStdio<Writable, Readable, Readable>;
  readonly #command: string;
  readonly #endLimitMs: number;
  readonly #listeners = new Set<() => void>();
  #exit: Exit | undefined;

  constructor(command: string, { args = [], env = {}, cwd, endLimitMs = 30_000 }: ProgramOptions) {
    this.#command = [command, ...args].join(' ');
    this.#endLimitMs = endLimitMs;
    this.#child = spawn(command, args, {
      env: { ...process.env, ...env },
      cwd,
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    for (const stream of ['stdout', 'stderr'] as const) {
      this.#child[stream].setEncoding('utf8').on('data', (text: string) => {
        this[stream] += text;
        this.#tell();
      });
    }
    // A program that stopped reading is noticed by its exit, not by an error of `write`.
    this.#child.stdin.on('error', () => {});
    this.exited = new Promise((resolve) => {
      const exit = (code: number | null, signal: NodeJS.Signals | null) => {
        this.#exit ??= { code, signal };
        running.delete(this);
        this.#tell();
        resolve(this.#exit);
      };
      this.#child.on('close', exit).on('error', (error) => {
        this.stderr += `${error.message}\n`;
        exit(null, null);
      });
    });
    if (running.size === 0) process.off('exit', killAll).on('exit', killAll);
    running.add(this);
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  write(text: string): void {
    this.#child.stdin.write(text);
  }

  /** Hands over each whole line of stdout from now on, without its line break. */
  onLine(listener: (line: string) => void): void {
    // Only new text is searched: a line may be megabytes long.
    let parts: string[] = [];
    this.#child.stdout.on('data', (text: string) => {
      const [first = '', ...others] = text.split('\n');
      parts.push(first);
      for (const next of others) {
        listener(parts.join(''));
        parts = [next];
      }
    });
  }

  /** Closes the program's stdin, as an assistant that quits does. */
  endInput(): void {
    this.#child.stdin.end();
  }

  kill(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  /**
   * The first match of `pattern` in what the program has printed since it started.
   *
   * @throws {Error} with all its output, when it exits first or the time is over
   */
  async line(
    pattern: RegExp,
    { stream = 'stdout', timeoutMs = 60_000 }: LineOptions = {},
  ): Promise<RegExpExecArray> {
    const deadline = performance.now() + timeoutMs;
    for (;;) {
      const match = pattern.exec(this[stream]);
      if (match) return match;
      const leftMs = deadline - performance.now();
      if (this.#exit || leftMs <= 0) {
        const why = this.#exit ? `exited with ${JSON.stringify(this.#exit)}` : `${timeoutMs} ms`;
        const output = `stdout: ${this.stdout}\nstderr: ${this.stderr}`;
        throw new Error(`no ${String(pattern)} from '${this.#command}': ${why}\n${output}`);
      }
      await this.#told(leftMs);
    }
  }

  /** Sends SIGTERM, then SIGKILL if the program has not exited within `endLimitMs`. */
  async end(): Promise<Exit> {
    if (!this.#exit) this.kill('SIGTERM');
    const timer = setTimeout(() => this.kill('SIGKILL'), this.#endLimitMs);
    const exit = await this.exited;
    clearTimeout(timer);
    return exit;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.end();
  }

  #tell(): void {
    for (const listener of this.#listeners) listener();
  }

  #told(limitMs: number): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer);
        this.#listeners.delete(done);
        resolve();
      };
      const timer = setTimeout(done, limitMs);
      this.#listeners.add(done);
    });
  }
}

export function startProgram(command: string, options: ProgramOptions = {}): Program {
  return new Program(command, options);
}

/** Runs a program to its end, without input. It is killed, and `code` is `null`, after `timeoutMs`. */
export async function runProgram(
  command: string,
  { timeoutMs = 60_000, ...options }: ProgramOptions & { readonly timeoutMs?: number } = {},
): Promise<Exit & { readonly stdout: string; readonly stderr: string }> {
  const program = startProgram(command, options);
  const timer = setTimeout(() => program.kill('SIGKILL'), timeoutMs);
  program.endInput();
  const exit = await program.exited;
  clearTimeout(timer);
  return { ...exit, stdout: program.stdout, stderr: program.stderr };
}

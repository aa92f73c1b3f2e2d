import { spawn } from 'node:child_process';
import {
  answerQueries,
  queryAnswer,
  type Query,
  type QueryAnswer,
  superviseQueries,
} from './query-child.ts';

const maxWaiting = 16;
const maxAnswerBytes = 256 * 1024;
/** A busy host starts processes slowly; a program that takes longer is not Node. */
const startTimeoutMs = 30_000;
const maxMemoryBytes = 300 * 1024 * 1024;

export type QueryOutcome =
  | QueryAnswer
  | { outcome: 'too slow' }
  | { outcome: 'cancelled' }
  /** Too many queries are waiting. */
  | { outcome: 'busy' }
  /** The child exited on its own: out of memory, or `nodePath` is not Node. */
  | { outcome: 'ended' };

export interface QueryProcessOptions {
  /** The Node that runs the child. */
  nodePath: string;
  /** The database. */
  file: string;
  /** How long a query may run. */
  timeoutMs: number;
}

/**
 * Runs queries one after the other in a child process that stays warm between them. SQLite cannot be
 * interrupted from another thread, so a query that takes too long, or is cancelled, is stopped by
 * killing the child; the next child is started immediately.
 */
export class QueryProcess {
  readonly #options: QueryProcessOptions;
  readonly #waiting: ((hasTurn: boolean) => void)[] = [];
  #child: ReturnType<typeof startChild> | undefined;
  #isBusy = false;
  #isClosed = false;

  constructor(options: QueryProcessOptions) {
    this.#options = options;
  }

  async run(query: Query, signal: AbortSignal): Promise<QueryOutcome> {
    if (this.#isBusy && this.#waiting.length >= maxWaiting) return { outcome: 'busy' };
    if (!(await this.#turn(signal)) || this.#isClosed) return { outcome: 'cancelled' };
    const child = this.#child?.isAlive ? this.#child : this.#start();
    const outcome = await child.ask(query, { timeoutMs: this.#options.timeoutMs, signal });
    // A child that ended on its own may do so again: only the next query starts another.
    if (!child.isAlive && outcome.outcome !== 'ended' && !this.#isClosed) this.#start();
    const next = this.#waiting.shift();
    if (next) next(true);
    else this.#isBusy = false;
    return outcome;
  }

  close(): void {
    this.#isClosed = true;
    this.#child?.kill();
    for (const settle of this.#waiting.splice(0)) settle(false);
  }

  #start() {
    return (this.#child = startChild(this.#options));
  }

  /** Waits until no other query runs; false when `signal` aborted or the process was closed first. */
  async #turn(signal: AbortSignal): Promise<boolean> {
    if (signal.aborted || this.#isClosed) return false;
    if (!this.#isBusy) return (this.#isBusy = true);
    return new Promise((resolve) => {
      const settle = (hasTurn: boolean) => {
        signal.removeEventListener('abort', leave);
        resolve(hasTurn);
      };
      const leave = () => {
        this.#waiting.splice(this.#waiting.indexOf(settle), 1);
        settle(false);
      };
      this.#waiting.push(settle);
      signal.addEventListener('abort', leave);
    });
  }
}

/**
 * Starts a Node process with an empty environment that answers one query at a time. It runs the source text of functions, so it works
 * the same from sources and in a bundle.
 */
function startChild({ nodePath, file }: QueryProcessOptions) {
  const child = spawn(nodePath, ['--input-type=commonjs', '-e', source(file)], {
    env: {},
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    serialization: 'json',
    windowsHide: true,
  });
  let isAlive = true;
  let settle = (_outcome: QueryOutcome) => {};
  const kill = () => {
    isAlive = false;
    child.kill('SIGKILL');
  };
  const ended = () => {
    isAlive = false;
    settle({ outcome: 'ended' });
  };
  child.once('exit', ended);
  child.once('disconnect', ended);
  child.on('error', ended);
  // An idle child ends with this process, and does not keep it from ending.
  child.unref();
  child.channel?.unref();

  const ready = new Promise<void>((resolve) => {
    const late = setTimeout(kill, startTimeoutMs).unref();
    child.once('message', () => {
      clearTimeout(late);
      child.on('message', (message) => {
        const { data } = queryAnswer.safeParse(message);
        if (data) settle(data);
        else kill();
      });
      resolve();
    });
  });

  return {
    get isAlive() {
      return isAlive;
    },
    kill,
    async ask(query: Query, { timeoutMs, signal }: { timeoutMs: number; signal: AbortSignal }) {
      let limit: NodeJS.Timeout | undefined;
      const cancel = () => settle({ outcome: 'cancelled' });
      child.ref();
      const outcome = await new Promise<QueryOutcome>((resolve) => {
        settle = resolve;
        signal.addEventListener('abort', cancel);
        if (signal.aborted) cancel();
        else if (!isAlive) ended();
        void ready.then(() => {
          if (!isAlive) return;
          limit = setTimeout(() => resolve({ outcome: 'too slow' }), timeoutMs);
          child.send(query);
        });
      });
      child.unref();
      clearTimeout(limit);
      signal.removeEventListener('abort', cancel);
      if (outcome.outcome === 'too slow' || outcome.outcome === 'cancelled') kill();
      return outcome;
    },
  };
}

function source(file: string): string {
  const builtin = (module: string) => `process.getBuiltinModule('node:${module}')`;
  const worker = `(${String(answerQueries)})(${builtin('worker_threads')}.parentPort, ${builtin('sqlite')}, ${JSON.stringify(file)}, ${maxAnswerBytes})`;
  return `(${String(superviseQueries)})(process, ${builtin('worker_threads')}, ${JSON.stringify(worker)}, ${maxMemoryBytes})`;
}

import type { Query } from './query-answer.ts';
import { queryProcess } from './query-process.ts';
import type { QueryOutcome, QueryProcess } from './query-process.ts';

const processes = 2;
const maxWaiting = 16;

export interface QueryPoolOptions {
  /** The Node that the processes run on. */
  nodePath: string;
  /** The database. */
  file: string;
  /** How long a query may run. */
  timeoutMs: number;
}

/**
 * A few processes that answer queries, kept warm between them. A query that takes too long costs its
 * process its life; another stands ready for the next.
 */
export class QueryPool {
  readonly #start: () => QueryProcess;
  readonly #timeoutMs: number;
  #free = processes;
  #idle: QueryProcess[] = [];
  readonly #busy = new Set<QueryProcess>();
  readonly #waiting: ((turn: boolean) => void)[] = [];
  #closed = false;

  constructor({ nodePath, file, timeoutMs }: QueryPoolOptions) {
    this.#start = () => queryProcess(nodePath, file);
    this.#timeoutMs = timeoutMs;
  }

  async run(query: Query, signal: AbortSignal): Promise<QueryOutcome | { outcome: 'busy' }> {
    if (this.#free === 0 && this.#waiting.length >= maxWaiting) return { outcome: 'busy' };
    if (!(await this.#turn(signal)) || this.#closed) return { outcome: 'cancelled' };
    const answering = this.#idle.find(({ alive }) => alive) ?? this.#start();
    this.#idle = this.#idle.filter((other) => other !== answering && other.alive);
    this.#busy.add(answering);
    const outcome = await answering.ask(query, { timeoutMs: this.#timeoutMs, signal });
    this.#busy.delete(answering);
    if (answering.alive) this.#idle.push(answering);
    else if (outcome.outcome !== 'ended' && !this.#closed) this.#idle.push(this.#start());
    const next = this.#waiting.shift();
    if (next) next(true);
    else this.#free++;
    return outcome;
  }

  close(): void {
    this.#closed = true;
    for (const answering of [...this.#idle, ...this.#busy]) answering.end();
    this.#idle = [];
    for (const leave of this.#waiting.splice(0)) leave(false);
  }

  async #turn(signal: AbortSignal): Promise<boolean> {
    if (signal.aborted || this.#closed) return false;
    if (this.#free > 0) {
      this.#free--;
      return true;
    }
    return new Promise((resolve) => {
      const settle = (turn: boolean) => {
        signal.removeEventListener('abort', leave);
        resolve(turn);
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

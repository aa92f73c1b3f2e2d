import { spawn } from 'node:child_process';
import { answerQueries } from './answer-queries.ts';
import { queryAnswer } from './query-answer.ts';
import type { Query, QueryAnswer } from './query-answer.ts';
import { superviseQueries } from './supervise-queries.ts';

const maxAnswerBytes = 256 * 1024;
/** A busy machine starts slowly; what takes longer is no Node. */
const startTimeoutMs = 30_000;
const maxMemoryBytes = 300 * 1024 * 1024;

export type QueryOutcome =
  | QueryAnswer
  | { outcome: 'too slow' }
  | { outcome: 'cancelled' }
  /** The process ended by itself: out of memory, or `nodePath` is no Node. */
  | { outcome: 'ended' };

/** A Node process without environment that answers queries one at a time; ended, it stays so. */
export interface QueryProcess {
  readonly alive: boolean;
  ask(query: Query, options: { timeoutMs: number; signal: AbortSignal }): Promise<QueryOutcome>;
  end(): void;
}

/** Started from functions' own source text, so that it is the same from sources and in a bundle. */
export function queryProcess(nodePath: string, file: string): QueryProcess {
  const child = spawn(nodePath, ['--input-type=commonjs', '-e', source(file)], {
    env: {},
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    serialization: 'json',
    windowsHide: true,
  });
  let alive = true;
  let settle = (_outcome: QueryOutcome) => {};
  const end = () => {
    alive = false;
    child.kill('SIGKILL');
  };
  const gone = () => {
    alive = false;
    settle({ outcome: 'ended' });
  };
  child.once('exit', gone);
  child.once('disconnect', gone);
  child.on('error', gone);
  // An idle process ends when this one does, and does not keep it from ending.
  child.unref();
  child.channel?.unref();

  const ready = new Promise<void>((resolve) => {
    const late = setTimeout(end, startTimeoutMs).unref();
    child.once('message', () => {
      clearTimeout(late);
      child.on('message', (message) => {
        const { data } = queryAnswer.safeParse(message);
        if (data) settle(data);
        else end();
      });
      resolve();
    });
  });

  return {
    get alive() {
      return alive;
    },
    end,
    async ask(query, { timeoutMs, signal }) {
      let limit: NodeJS.Timeout | undefined;
      const cancel = () => settle({ outcome: 'cancelled' });
      child.ref();
      const outcome = await new Promise<QueryOutcome>((resolve) => {
        settle = resolve;
        signal.addEventListener('abort', cancel);
        if (signal.aborted) cancel();
        else if (!alive) gone();
        void ready.then(() => {
          if (!alive) return;
          limit = setTimeout(() => resolve({ outcome: 'too slow' }), timeoutMs);
          child.send(query);
        });
      });
      child.unref();
      clearTimeout(limit);
      signal.removeEventListener('abort', cancel);
      if (outcome.outcome === 'too slow' || outcome.outcome === 'cancelled') end();
      return outcome;
    },
  };
}

function source(file: string): string {
  const need = (module: string) => `process.getBuiltinModule('node:${module}')`;
  const worker = `(${String(answerQueries)})(${need('worker_threads')}.parentPort, ${need('sqlite')}, ${JSON.stringify(file)}, ${maxAnswerBytes})`;
  return `(${String(superviseQueries)})(process, ${need('worker_threads')}, ${JSON.stringify(worker)}, ${maxMemoryBytes})`;
}

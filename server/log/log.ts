import { type DestinationStream, type Logger, pino } from 'pino';
import { printable, redact } from 'latchkey-mcp/safe-text';

export type { Logger };

/** How a call to an MCP endpoint ended. Contains only words of our own, so nothing has to be redacted. */
interface CallLine {
  readonly id: string;
  readonly method: string;
  readonly route: string;
  /** Absent if not even the head of a response was sent. */
  readonly status: number | undefined;
  readonly ms: number;
  /** Whether the connection broke before the end of the response. */
  readonly isCut: boolean;
}

/** A log that can also write the line of a call without building and redacting a record. */
export interface Log extends Logger {
  callEnded(line: CallLine): void;
}

/** The levels of `--log-level`, most verbose first. */
export const logLevels = ['debug', 'info', 'warn', 'error', 'silent'] as const;
type LogLevel = (typeof logLevels)[number];

/**
 * A log of JSON lines, each redacted as a whole before it is written to `sink`. Where several processes write to it,
 * `processNumber` tells their lines apart.
 */
export function jsonLog(level: LogLevel, sink: Sink, processNumber?: number): Log {
  const destination: DestinationStream = {
    write: (line) => void sink.write(`${printable(redact(line.trimEnd()))}\n`),
  };
  const time = isoTime();
  const base = processNumber === undefined ? null : { process: processNumber };
  const writer = processNumber === undefined ? '' : `,"process":${processNumber}`;
  const log = pino({ level, base, timestamp: time }, destination);
  return Object.assign(log, {
    callEnded({ id, method, route, status, ms, isCut }: CallLine) {
      if (!log.isLevelEnabled('info')) return;
      const sent = status === undefined ? '' : `,"status":${status}`;
      const cut = isCut ? ',"cut":true' : '';
      sink.write(
        `{"level":30${time()}${writer},"id":"${id}","method":"${method}","route":"${route}"${sent},"ms":${ms}${cut},"msg":"request"}\n`,
      );
    },
  });
}

/** `,"time":"2026-11-22T01:02:03.004Z"`, computed once per millisecond, because many lines share it under load. */
function isoTime(): () => string {
  let atMs = 0;
  let text = '';
  return () => {
    const nowMs = Date.now();
    if (nowMs !== atMs) {
      atMs = nowMs;
      text = `,"time":"${new Date(nowMs).toISOString()}"`;
    }
    return text;
  };
}

/** Somewhere to write lines. */
interface Sink {
  write(text: string): unknown;
}

const longestWaitMs = 20;

/**
 * Writes everything that arrives within 20 ms in one batch: under load a system call per line would be a third of a
 * request's cost. `flush` writes the rest before the process exits.
 */
export function batchedSink(sink: Sink): Sink & { flush(): void } {
  let waiting = '';
  const flush = () => {
    const text = waiting;
    waiting = '';
    if (text !== '') sink.write(text);
  };
  return {
    write(text) {
      if (waiting === '') setTimeout(flush, longestWaitMs).unref();
      waiting += text;
    },
    flush,
  };
}

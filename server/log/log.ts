import { pino, type DestinationStream, type Logger } from 'pino';

import type { Sink } from './batched-sink.ts';
import { printable } from './printable.ts';
import { redact } from './redact.ts';

export type { Logger };

/** Levels that `--log-level` takes, loudest first. */
export const logLevels = ['debug', 'info', 'warn', 'error', 'silent'] as const;
export type LogLevel = (typeof logLevels)[number];

/** A log of JSON lines, each redacted as a whole before it is written to `sink`. */
export function jsonLog(level: LogLevel, sink: Sink): Logger {
  const destination: DestinationStream = {
    write: (line) => void sink.write(`${printable(redact(line.trimEnd()))}\n`),
  };
  return pino({ level, base: null, timestamp: isoTime() }, destination);
}

/** `,"time":"2026-11-22T01:02:03.004Z"`, made once a millisecond: under load many lines have the same. */
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

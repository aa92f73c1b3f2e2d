import { pino, type DestinationStream, type Logger } from 'pino';

import type { Sink } from './batched-sink.ts';
import { redact } from './redact.ts';

export type { Logger };

/** Levels that `--log-level` takes, loudest first. */
export const logLevels = ['debug', 'info', 'warn', 'error', 'silent'] as const;
export type LogLevel = (typeof logLevels)[number];

/** A log of JSON lines, each redacted as a whole before it is written to `sink`. */
export function jsonLog(level: LogLevel, sink: Sink): Logger {
  const destination: DestinationStream = { write: (line) => void sink.write(redact(line)) };
  return pino({ level, base: null, timestamp: pino.stdTimeFunctions.isoTime }, destination);
}

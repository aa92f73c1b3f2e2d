import { printable } from './printable.ts';
import { redact } from './redact.ts';

export const logLevels = ['error', 'warn', 'info', 'debug'] as const;
export type LogLevel = (typeof logLevels)[number];

type Fields = Record<string, string | number | boolean | undefined>;

/** What happened, for whoever looks into a problem afterwards. Nothing else reads it. */
export type Log = Record<LogLevel, (event: string, fields?: Fields) => void>;

/**
 * One JSON object a line, given to `write`; lines less important than `level` are not written.
 *
 *     {"time":"2026-11-20T09:00:00.000Z","level":"warn","event":"no answer","status":502}
 */
export function jsonLinesLog(level: LogLevel, write: (line: string) => void): Log {
  const line = (at: LogLevel) => (event: string, fields?: Fields) => {
    if (logLevels.indexOf(at) > logLevels.indexOf(level)) return;
    const time = new Date().toISOString();
    const text = JSON.stringify({ time, level: at, event, ...fields });
    write(`${printable(redact(text))}\n`);
  };
  return { error: line('error'), warn: line('warn'), info: line('info'), debug: line('debug') };
}

import {
  constants,
  existsSync,
  fchmodSync,
  fstatSync,
  mkdirSync,
  openSync,
  writeSync,
} from 'node:fs';
import { dirname } from 'node:path';
import { printable, redact } from 'latchkey-mcp/safe-text';

export const logLevels = ['error', 'warn', 'info', 'debug'] as const;
export type LogLevel = (typeof logLevels)[number];

type Fields = Record<string, string | number | boolean | undefined>;

/** A log for people who investigate a problem. No program reads it. */
export type Log = Record<LogLevel, (event: string, fields?: Fields) => void>;

/**
 * Writes one JSON object per line. Lines below `level` are not written.
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

/**
 * Opens a log file for appending, readable by its owner only, and creates missing folders. The returned function appends a
 * line. A line that cannot be written, for example on a full disk, is lost; later lines are tried again.
 *
 * @throws {Error} the system's error if the file cannot be opened
 */
export function openLogFile(path: string): (line: string) => void {
  makeFolder(dirname(path));
  const { O_WRONLY, O_APPEND, O_CREAT, O_NONBLOCK } = constants;
  // A pipe without a reader is an error instead of a wait. Windows has no O_NONBLOCK.
  const file = openSync(path, O_WRONLY | O_APPEND | O_CREAT | (O_NONBLOCK ?? 0), 0o600);
  if (fstatSync(file).isFile()) fchmodSync(file, 0o600);
  let isLineOpen = false;
  return (line) => {
    const bytes = Buffer.from(isLineOpen ? `\n${line}` : line);
    try {
      const written = writeSync(file, bytes);
      isLineOpen = written > 0 ? written < bytes.length : isLineOpen;
    } catch {
      // The disk is full, or the reader of a pipe disconnected.
    }
  };
}

/** Creates one folder after the other, because Node's recursive `mkdir` never returns in /proc, which refuses new folders with ENOENT. */
function makeFolder(folder: string): void {
  if (existsSync(folder)) return;
  const parent = dirname(folder);
  if (parent !== folder) makeFolder(parent);
  try {
    mkdirSync(folder, { mode: 0o700 });
  } catch (error) {
    // Another process may have created it.
    if (!existsSync(folder)) throw error;
  }
}

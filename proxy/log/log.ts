// Lines of the log and of the terminal: `redact` removes secrets, `printable` what could act on a terminal.
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

const unsafe = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/**
 * One line of text that cannot control a terminal, forge log lines or reverse the text direction: control characters, line ends
 * and invisible marks become escapes such as `\u001b`, which are valid in JSON too. All output and log lines pass through
 * here, because names and errors may come from servers and files.
 */
export function printable(text: string): string {
  return text.replace(unsafe, (character) =>
    character
      .split('')
      .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
      .join(''),
  );
}

const secrets: [RegExp, string][] = [
  // Also within a word, because a line feed before it is the letter `n` in JSON.
  [/(secret|pk_live|mcp|code|rt|pat|scim)_[0-9A-Za-z_-]{16,}/g, '$1_…'],
  [/eyJ[0-9A-Za-z_-]{5,}\.[0-9A-Za-z_-]+(?:\.[0-9A-Za-z_-]*)*/g, 'eyJ…'],
  [/\b(Bearer|Basic)\s+[^\s"',;]+/gi, '$1 …'],
  [
    /((?:client_secret|access_token|refresh_token|id_token|subject_token|(?:client_)?assertion)["']?\s*[=:]\s*["']?)[^\s"'&,]+/gi,
    '$1…',
  ],
];

/**
 * `text` without anything that looks like a key, a token or a credential header, and without the `known` secrets, which a
 * server may echo.
 */
export function redact(text: string, known: readonly string[] = []): string {
  const withoutKnown = known.reduce(
    (rest, secret) => (secret.length > 3 ? rest.replaceAll(secret, '…') : rest),
    text,
  );
  return secrets.reduce((rest, [shape, mask]) => rest.replace(shape, mask), withoutKnown);
}

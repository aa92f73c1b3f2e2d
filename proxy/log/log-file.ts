import { constants, fchmodSync, fstatSync, mkdirSync, openSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';

/**
 * Opens a file for lines of the log, readable by its owner only; what is in it stays, and missing folders
 * are made. What is returned appends one line. A line that cannot be written, as on a full disk, is lost;
 * later ones are tried again.
 *
 * @throws {Error} the system's own, when the file cannot be opened
 */
export function openLogFile(path: string): (line: string) => void {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  const { O_WRONLY, O_APPEND, O_CREAT, O_NONBLOCK } = constants;
  // A pipe that has no reader is refused instead of waited for. Windows has no O_NONBLOCK.
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

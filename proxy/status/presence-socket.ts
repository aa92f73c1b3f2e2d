import { basename, join } from 'node:path';

/**
 * Under which name a running proxy is found, and what to connect to. On Unix both are the socket
 * itself. On Windows pipes stand in no folder: a file of the user's own names one that cannot be guessed,
 * as everybody may look at the list of pipes and read what they say unasked. So nothing is said unasked.
 */
export type PresenceSocket = {
  /** The file that others look for. */
  file: string;
  /** Where to listen, until `file` may be seen. */
  hidden: string;
  /** Where to connect. */
  address: string;
};

/** What ends the name of a socket that listens. */
const ending = '.proxy';

export function presenceSocket(
  directory: string,
  name: string,
  platform: NodeJS.Platform,
): PresenceSocket {
  const file = join(directory, `${name}${ending}`);
  if (platform === 'win32') {
    const address = addressOf(file, platform);
    return { file, hidden: address, address };
  }
  return { file, hidden: join(directory, `${name}.new`), address: file };
}

/** Where to connect for a file that was found. */
export function addressOf(file: string, platform: NodeJS.Platform): string {
  if (platform !== 'win32') return file;
  return `\\\\.\\pipe\\latchkey-${basename(file, ending)}`;
}

export function isPresenceFile(name: string): boolean {
  return name.endsWith(ending);
}

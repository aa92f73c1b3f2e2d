import { CommandError, UsageError } from '#config/usage-error';
import { databaseFault } from '#db/faults';
import { asServerUser, isPermissionFault, mayNot, type RunningUser } from '#model/running-user';

/** The words that a terminal prints for an error. */
export interface ErrorWords {
  readonly message: string;
  /** What to do. */
  readonly hint?: string | undefined;
}

const otherFolder = 'choose another folder with --data-dir';

/** What failed, and what to do, for an error that ends the program. */
export function errorWords(error: unknown, user?: RunningUser): ErrorWords {
  if (error instanceof UsageError || error instanceof CommandError) return error;
  if (!(error instanceof Error)) return { message: String(error) };
  const { message, code, syscall, path, port, address }: Details = error;
  // One of several processes fails in `bind` where a single process fails in `listen`.
  const isListening = syscall === 'listen' || syscall === 'bind';
  if (isListening && (typeof port === 'number' || typeof address === 'string'))
    return listenWords({ message, code, port, address }, user);
  const fault = databaseFault(error);
  if (fault === 'full' || code === 'ENOSPC') {
    return { message, hint: `free disk space, or ${otherFolder}` };
  }
  if (isPermissionFault(error) && typeof path === 'string') {
    const said = `${path} cannot be opened: ${mayNot('open it', user)}`;
    return { message: said, hint: `${asServerUser}, or ${otherFolder}` };
  }
  if (code === 'EROFS') return { message, hint: otherFolder };
  if (code === 'ERR_SQLITE_ERROR' && (fault === 'readonly' || fault === 'unavailable')) {
    const space = 'check that the disk of the data folder works and has space';
    return { message, hint: `${space}, and that this user may write there` };
  }
  return { message };
}

interface Details {
  readonly message: string;
  readonly code?: unknown;
  readonly syscall?: unknown;
  readonly path?: unknown;
  readonly port?: unknown;
  readonly address?: unknown;
}

function listenWords(
  { message, code, port, address }: Details,
  user: RunningUser | undefined,
): ErrorWords {
  switch (code) {
    case 'EADDRINUSE':
      return {
        message: `port ${String(port)} is in use`,
        hint: 'stop the program that uses the port, or choose another port with --port',
      };
    case 'EADDRNOTAVAIL':
      return {
        message: `${String(address)} is not an address of this machine`,
        hint: 'choose one of its addresses with --host',
      };
    case 'EACCES':
      return {
        message: `port ${String(port)} cannot be used: ${mayNot('listen on it', user)}`,
        hint: 'choose a port from 1024 up with --port, and let a reverse proxy listen on 443',
      };
    default:
      return { message };
  }
}

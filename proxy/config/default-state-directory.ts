import { posix, win32 } from 'node:path';
import type { UserHost } from '#host';

/** Where this program keeps what is neither secret nor configuration, unless told otherwise. */
export function defaultStateDirectory({ platform, home, env }: UserHost): string {
  const path = platform === 'win32' ? win32 : posix;
  if (platform === 'darwin') return path.join(home, 'Library', 'Application Support', 'Latchkey');
  if (platform === 'win32')
    return path.join(env['LOCALAPPDATA'] || path.join(home, 'AppData', 'Local'), 'Latchkey');
  return path.join(env['XDG_STATE_HOME'] || path.join(home, '.local', 'state'), 'latchkey');
}

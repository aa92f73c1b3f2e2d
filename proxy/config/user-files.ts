import { posix, win32 } from 'node:path';
import type { UserHost } from '#host';
import { assistants, applicationsFolder } from './assistants.ts';

/**
 * Our own connections, then the files in which the assistants keep this user's own servers. Files
 * inside projects are left out: the author of a repository must not choose where our credentials go.
 */
export function userFiles(host: UserHost): string[] {
  return [registryFile(host), ...Object.values(assistants).map(({ file }) => file(host))];
}

/**
 * The file of the connections that `latchkey add` and `import` made, in the shape of an assistant's:
 *
 *     {"mcpServers":{"work":{"url":"https://…","account":"work","apiKey":"keychain"}}}
 */
export function registryFile(host: UserHost): string {
  const path = host.platform === 'win32' ? win32 : posix;
  const folder = host.platform === 'linux' ? 'latchkey' : 'Latchkey';
  return path.join(applicationsFolder(host), folder, 'connections.json');
}

/** The default folder for state that is neither secret nor configuration. */
export function defaultStateDirectory({ platform, home, env }: UserHost): string {
  const path = platform === 'win32' ? win32 : posix;
  if (platform === 'darwin') return path.join(home, 'Library', 'Application Support', 'Latchkey');
  if (platform === 'win32')
    return path.join(env['LOCALAPPDATA'] || path.join(home, 'AppData', 'Local'), 'Latchkey');
  return path.join(env['XDG_STATE_HOME'] || path.join(home, '.local', 'state'), 'latchkey');
}

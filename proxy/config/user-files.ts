import { posix, win32 } from 'node:path';
import type { UserHost } from '#host';
import { assistants, applicationsFolder, hasOwnFormat } from './assistants.ts';

/**
 * The files in which connections are looked up: our own, then the assistants' files with this user's own servers. Files in
 * projects are excluded, because the author of a repository must not decide where our credentials are sent. So are files in a
 * format that only one assistant reads, because no entry there can leave a secret to us.
 */
export function userFiles(host: UserHost): string[] {
  const known = Object.values(assistants).filter((assistant) => !hasOwnFormat(assistant));
  return [registryFile(host), ...known.map(({ file }) => file(host))];
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

import { posix, win32 } from 'node:path';
import { applicationsFolder } from './assistants.ts';
import type { UserHost } from '#host';

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

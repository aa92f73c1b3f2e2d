import { posix, win32 } from 'node:path';
import { applicationsFolder } from './assistants.ts';
import type { Machine } from './user-files.ts';

/**
 * The file of the connections that `latchkey add` and `import` made, in the shape of an assistant's:
 *
 *     {"mcpServers":{"work":{"url":"https://…","account":"work","apiKey":"keychain"}}}
 */
export function registryFile(machine: Machine): string {
  const path = machine.platform === 'win32' ? win32 : posix;
  const folder = machine.platform === 'linux' ? 'latchkey' : 'Latchkey';
  return path.join(applicationsFolder(machine), folder, 'connections.json');
}

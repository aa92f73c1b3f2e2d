import type { UserHost } from '#host';
import { assistants } from './assistants.ts';
import { registryFile } from './registry-file.ts';

/**
 * Our own connections, then the files in which the assistants keep this user's own servers. Files
 * inside projects are left out: whoever writes a repository must not choose where our credentials go.
 */
export function userFiles(host: UserHost): string[] {
  return [registryFile(host), ...Object.values(assistants).map(({ file }) => file(host))];
}

import { assistants } from './assistants.ts';
import { registryFile } from './registry-file.ts';

export type Machine = { platform: NodeJS.Platform; home: string; env: NodeJS.ProcessEnv };

/**
 * Our own connections, then the files in which the assistants keep this user's own servers. Files
 * inside projects are left out: whoever writes a repository must not choose where our credentials go.
 */
export function userFiles(machine: Machine): string[] {
  return [registryFile(machine), ...Object.values(assistants).map(({ file }) => file(machine))];
}

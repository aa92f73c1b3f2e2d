import { UsageError } from './usage-error.ts';

const form = /^([a-z0-9-]{1,63}\/[a-z0-9-]{1,63})=(.+)$/;

/**
 * The folders of `--skills ORG/SERVER=DIR` by server path.
 *
 * @throws {UsageError} naming the option's value
 */
export function readSkillFolders(
  given: readonly string[],
  isFolder: (path: string) => boolean,
): ReadonlyMap<string, string> {
  const folders = new Map<string, string>();
  for (const text of given) {
    const [, server = '', folder = ''] = form.exec(text) ?? [];
    const hint = '--skills acme/sales=/srv/skills/sales';
    if (server === '') throw new UsageError(`--skills '${text}' is not ORG/SERVER=DIR`, hint);
    if (folders.has(server)) throw new UsageError(`--skills names two folders for ${server}`);
    if (!isFolder(folder)) throw new UsageError(`--skills ${text}: there is no folder ${folder}`);
    folders.set(server, folder);
  }
  return folders;
}

import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';

/** The text of a `SKILL.md`. */
export function skillText(name: string, description = `How to ${name}.`, more = ''): string {
  return `---\nname: ${name}\ndescription: ${description}\n---\n\n# ${name}\n${more}`;
}

/** Writes files below a folder, by their paths there. */
export async function writeFiles(
  root: string,
  files: Readonly<Record<string, string | Uint8Array>>,
) {
  for (const [path, content] of Object.entries(files)) {
    const where = join(root, path);
    await mkdir(dirname(where), { recursive: true });
    await writeFile(where, content);
  }
}

// Options with which only the operator can configure upstreams: commands to run and folders of skills, each for an `ORG/SERVER`.

import { z } from 'zod';

import { UsageError } from './usage-error.ts';

const commandSchema = z.strictObject({
  command: z.string().min(1),
  args: z.array(z.string()).default([]),
  env: z.record(z.string(), z.string()).default({}),
  cwd: z.string().optional(),
});

const path = z.string().regex(/^[a-z0-9-]{1,63}\/[a-z0-9-]{1,63}$/);
const fileSchema = z.strictObject({ servers: z.record(path, commandSchema) });

/** A command that speaks MCP over its standard input and output, with its complete environment. */
export type StdioCommand = z.output<typeof commandSchema>;

/**
 * Parses the file of `--stdio-servers`: commands by server path.
 *
 *     {"servers": {"acme/files": {"command": "npx", "args": ["…"], "env": {"TOKEN": "…"}, "cwd": "/srv/files"}}}
 *
 * @throws {UsageError} with the file and what is wrong in it
 */
export function readStdioServers(text: string, file: string): ReadonlyMap<string, StdioCommand> {
  const wrong = (why: string) =>
    new UsageError(
      `--stdio-servers ${file}: ${why}`,
      '{"servers": {"acme/files": {"command": "npx", "args": ["…"]}}}',
    );
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw wrong('it is not JSON');
  }
  const { data, error } = fileSchema.safeParse(value);
  if (data) return new Map(Object.entries(data.servers));
  const [issue] = error.issues;
  const at = issue?.path.join('.') ?? '';
  if (issue?.code === 'invalid_key') throw wrong(`${at} must be ORGANIZATION/SERVER`);
  throw wrong(`${at} ${issue?.message ?? 'cannot be read'}`.trim());
}

const folderOption = /^([a-z0-9-]{1,63}\/[a-z0-9-]{1,63})=(.+)$/;

/**
 * Parses the values of `--skills ORG/SERVER=DIR` into folders by server path.
 *
 * @throws {UsageError} with the value that is wrong
 */
export function readSkillFolders(
  given: readonly string[],
  isFolder: (path: string) => boolean,
): ReadonlyMap<string, string> {
  const folders = new Map<string, string>();
  for (const text of given) {
    const [, server = '', folder = ''] = folderOption.exec(text) ?? [];
    const hint = '--skills acme/sales=/srv/skills/sales';
    if (server === '') throw new UsageError(`--skills '${text}' must be ORG/SERVER=DIR`, hint);
    if (folders.has(server)) throw new UsageError(`--skills is given twice for ${server}`);
    if (!isFolder(folder))
      throw new UsageError(`--skills ${text}: the folder ${folder} does not exist`);
    folders.set(server, folder);
  }
  return folders;
}

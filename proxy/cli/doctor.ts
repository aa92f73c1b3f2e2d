import { writeFile } from 'node:fs/promises';
import { UsageError } from '#config/usage-error';
import type { Finding } from '#status/finding';

/** A finding for a person, with its remedy on a line of its own. */
export function doctorLines({ check, state, what, hint }: Finding): string[] {
  const [first = '', ...more] = what.split('\n');
  const indent = ' '.repeat(21);
  const line = `${state.padEnd(5)} ${check.padEnd(14)} ${first}`;
  const rest = more.map((other) => `${indent}${other}`);
  return [line, ...rest, ...(hint ? [`${indent}hint: ${hint}`] : [])];
}

/**
 * Writes a file that this user alone can read, and no file that is there already.
 *
 * @throws {UsageError}
 */
export async function writeNew(path: string, content: Uint8Array): Promise<void> {
  await writeFile(path, content, { flag: 'wx', mode: 0o600 }).catch((error: unknown) => {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown reason';
    throw new UsageError(
      code === 'EEXIST' ? `${path} is there already` : `${path} cannot be written (${code})`,
      'name another file with --bundle',
    );
  });
}

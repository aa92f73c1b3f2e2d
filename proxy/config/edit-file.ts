// Reads and edits the files of assistants, each in the format that its name indicates. The code for TOML is loaded on demand.
import { editJson, maskedStrings, memberAt, parseJsonc, type JsonChange } from './jsonc.ts';

function isToml(source: string): boolean {
  return source.endsWith('.toml');
}

/**
 * Changes some members of a file's text, and nothing else. `bytes` is `undefined` for a file that does not exist yet.
 *
 * @throws {ConfigurationError} with line and column if the text is invalid
 */
export async function editFile(
  bytes: Buffer | undefined,
  source: string,
  changes: readonly JsonChange[],
): Promise<Buffer> {
  if (!isToml(source)) return editJson(bytes, source, changes);
  const { editToml } = await import('./toml-edit.ts');
  return editToml(bytes, source, changes);
}

/** The value at `path`; `undefined` if there is none. */
export async function valueAt(
  bytes: Buffer | undefined,
  source: string,
  path: readonly string[],
): Promise<unknown> {
  if (!isToml(source)) return memberAt(bytes, path);
  const { tomlMemberAt } = await import('./toml.ts');
  return tomlMemberAt(bytes, path);
}

/** Changes every string and comment of a file's text with `mask`, and nothing else. */
export async function maskedFile(
  bytes: Buffer,
  source: string,
  mask: (text: string) => string,
): Promise<Buffer> {
  if (!isToml(source)) return maskedStrings(bytes, mask);
  const { maskedToml } = await import('./toml-edit.ts');
  return maskedToml(bytes, mask);
}

/**
 * Parses a file's text.
 *
 * @throws {SyntaxError} {@link TomlError}
 */
export async function parseFile(text: string, source: string): Promise<unknown> {
  if (isToml(source)) {
    const { parseToml } = await import('./toml.ts');
    return parseToml(text);
  }
  return parseJsonc(text);
}

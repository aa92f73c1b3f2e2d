// The files of assistants, each read and edited in its own format, which its name tells. TOML is loaded when a file has it.
import { editJson, maskedStrings, memberAt, parseJsonc, type JsonChange } from './jsonc.ts';

function isToml(source: string): boolean {
  return source.endsWith('.toml');
}

/**
 * A file's text with some members changed and everything else as it was. `undefined` is a file that does not exist yet.
 *
 * @throws {ConfigurationError} with line and column where the text is not what it has to be
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

/** The value at `path`; `undefined` when there is none. */
export async function valueAt(
  bytes: Buffer | undefined,
  source: string,
  path: readonly string[],
): Promise<unknown> {
  if (!isToml(source)) return memberAt(bytes, path);
  const { tomlMemberAt } = await import('./toml.ts');
  return tomlMemberAt(bytes, path);
}

/** A file's text with every string and comment changed by `mask`, and everything else as it was. */
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
 * The value of a file's text.
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

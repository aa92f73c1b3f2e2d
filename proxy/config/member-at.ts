/** The value at `path` of a file's JSON, comments allowed; `undefined` when there is none. */
export async function memberAt(
  bytes: Buffer | undefined,
  path: readonly string[],
): Promise<unknown> {
  if (!bytes) return undefined;
  const { parse } = await import('jsonc-parser');
  const text = bytes.toString().replace(/^\u{FEFF}/u, '');
  let value: unknown = parse(text, [], { allowTrailingComma: true });
  for (const name of path) {
    if (typeof value !== 'object' || value === null) return undefined;
    value = Object.entries(value).find(([key]) => key === name)?.[1];
  }
  return value;
}

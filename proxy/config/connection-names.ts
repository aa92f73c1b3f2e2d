import { findDocuments, type ReadText } from './find-entry.ts';

/** The names of the servers in these files, each once; files that cannot be read are passed over. */
export async function connectionNames(
  files: readonly string[],
  readText: ReadText,
): Promise<string[]> {
  const names = new Set<string>();
  for (const document of await findDocuments(files, readText))
    for (const servers of ['mcpServers', 'servers'])
      for (const name of Object.keys(objectAt(document, servers))) names.add(name);
  return [...names];
}

function objectAt(value: unknown, name: string): object {
  if (typeof value !== 'object' || value === null) return {};
  const found: unknown = Object.entries(value).find(([key]) => key === name)?.[1];
  return typeof found === 'object' && found !== null ? found : {};
}

import { ConfigurationError, type Problem } from './configuration-error.ts';
import { readEntry, type Entry } from './read-entry.ts';

export type ReadText = (path: string) => string | undefined;

/**
 * The entry called `name`: in `configFile` if there is one, else in the only file of `userFiles`
 * that knows it. Two files may both know it if they mean the same URL; the first that also holds a
 * credential is taken then.
 *
 * @throws {ConfigurationError}
 */
export async function findEntry(
  name: string,
  { configFile, userFiles }: { configFile: string | undefined; userFiles: string[] },
  readText: ReadText,
): Promise<Entry> {
  const files = configFile === undefined ? userFiles : [configFile];
  const problems: Problem[] = [];
  const entries: Entry[] = [];
  for (const source of files) {
    const document = await readDocument(source, readText, configFile !== undefined, problems);
    for (const servers of ['mcpServers', 'servers']) {
      const value = member(member(document, servers), name);
      const key = `${servers}.${name}`;
      const entry = value === undefined ? undefined : readEntry(value, { source, key }, problems);
      if (entry) entries.push(entry);
    }
  }
  const [first, ...others] = entries;
  const other = others.find(({ url }) => url !== first?.url);
  if (first && other)
    throw new ConfigurationError([
      {
        source: first.source,
        key: first.key,
        problem: `has another URL than ${other.key} of ${other.source}; make them agree, or name one with --config`,
      },
    ]);
  // Our own file says all there is to say of a connection; others may know the URL alone.
  if (first?.account !== undefined) return first;
  if (first) return entries.find(({ oauth, apiKey }) => oauth ?? apiKey) ?? first;
  if (problems.length > 0) throw new ConfigurationError(problems);
  const problem = `knows no server ${name}; add it under "mcpServers", or give the URL instead`;
  throw new ConfigurationError(
    configFile === undefined
      ? [
          {
            source: 'configuration',
            key: '',
            problem: `${problem} (looked in ${files.join(', ')})`,
          },
        ]
      : [{ source: configFile, key: '', problem }],
  );
}

/**
 * Looks whether a file can be read, where it is there.
 *
 * @throws {ConfigurationError} with what is wrong, and nothing that stands in it
 */
export async function checkDocument(file: string, readText: ReadText): Promise<void> {
  const problems: Problem[] = [];
  await readDocument(file, readText, false, problems);
  if (problems.length > 0) throw new ConfigurationError(problems);
}

/** What stands in these files, of those that can be read. */
export async function findDocuments(
  files: readonly string[],
  readText: ReadText,
): Promise<unknown[]> {
  const problems: Problem[] = [];
  const documents = files.map(async (file) => readDocument(file, readText, false, problems));
  return (await Promise.all(documents)).filter((document) => document !== undefined);
}

async function readDocument(
  source: string,
  readText: ReadText,
  required: boolean,
  problems: Problem[],
): Promise<unknown> {
  let text: string | undefined;
  try {
    text = readText(source);
  } catch (error) {
    problems.push({ source, key: '', problem: `cannot be read (${codeOf(error)})` });
    return undefined;
  }
  if (text === undefined) {
    if (required) problems.push({ source, key: '', problem: 'does not exist' });
    return undefined;
  }
  try {
    return JSON.parse(text);
  } catch {
    // Most files are plain JSON, so the slower reader is loaded only when it is needed.
    const { parseJsonc } = await import('./parse-jsonc.ts');
    try {
      return parseJsonc(text);
    } catch {
      // The parser's own message quotes the text, which may be a secret.
      problems.push({ source, key: '', problem: 'is not JSON; look for a missing comma or quote' });
      return undefined;
    }
  }
}

function member(value: unknown, name: string): unknown {
  if (typeof value !== 'object' || value === null) return undefined;
  return Object.entries(value).find(([key]) => key === name)?.[1];
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : 'unknown reason';
}

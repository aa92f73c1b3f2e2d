import { readFile, readdir } from 'node:fs/promises';
import { join } from 'node:path';

/** The bare URLs that somebody signed in to here and not out again; no file names those. */
export async function signedInUrls(directory: string): Promise<string[]> {
  const names = await readdir(directory).catch((): string[] => []);
  const marks = names.filter((name) => name.endsWith('.signed-in')).sort();
  const texts = await Promise.all(
    marks.map(async (name) => readFile(join(directory, name), 'utf8').catch(() => '')),
  );
  return [...new Set(texts.filter(Boolean))];
}

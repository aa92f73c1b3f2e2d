import type { AccountsHost } from '#auth/accounts-host';
import { isLaunch } from './launch-entry.ts';
import { parseJsonc } from './parse-jsonc.ts';

/** The connections that the entries of a file start, by our names; `problem` where it cannot be read. */
export async function launchedNames(
  file: string,
  servers: string,
  host: AccountsHost,
): Promise<{ names: string[]; problem?: string }> {
  try {
    const text = host.readText(file);
    if (text === undefined || text.trim() === '') return { names: [] };
    const document = objectOf(parseJsonc(text));
    const entries = Object.entries(objectOf(document[servers]));
    const ours = entries.filter(([, entry]) => isLaunch(entry));
    return { names: ours.map(([key, entry]) => launchedName(entry) ?? key) };
  } catch (error) {
    // The parser's own message quotes the text, which may be a secret.
    const unread = error instanceof Error && 'code' in error ? String(error.code) : undefined;
    return { names: [], problem: unread ? `cannot be read (${unread})` : 'is not JSON' };
  }
}

/** `… connect NAME`, as `install` writes it. */
function launchedName(entry: unknown): string | undefined {
  const { args } = objectOf(entry);
  const words: unknown[] = Array.isArray(args) ? args : [];
  const name = words[words.indexOf('connect') + 1];
  return words.includes('connect') && typeof name === 'string' ? name : undefined;
}

function objectOf(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? { ...value } : {};
}

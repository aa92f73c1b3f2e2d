import { isObject } from 'latchkey-mcp/json-value';
import { parseJsonc } from './jsonc.ts';
import { UsageError } from './errors.ts';

/** A pasted text: an `oauth` object, an entry, or a file with one. */
export type PastedEntry = { name?: string; url?: string; oauth?: unknown; apiKey?: unknown };

/**
 * Reads a desktop `oauth` object, alone, as a member, or inside an entry of an assistant's file.
 *
 * @throws {UsageError} if it is none of these; its message never quotes the pasted text
 */
export function pastedEntry(text: string): PastedEntry {
  const value = parsed(text) ?? parsed(`{${text.trim().replace(/,$/, '')}}`);
  const entry = value && entryIn(value);
  if (entry) return entry;
  throw new UsageError(
    'the pasted text contains no connection',
    'paste the "oauth" object, or the whole entry with its "url"',
  );
}

function entryIn(value: Record<string, unknown>, name?: string): PastedEntry | undefined {
  const named = name === undefined ? {} : { name };
  if (isObject(value['mcpServers'])) return entryIn(value['mcpServers']);
  if (isObject(value['servers'])) return entryIn(value['servers']);
  const { oauth, apiKey, url, clientId } = value;
  if (clientId !== undefined) return { ...named, oauth: value };
  if (typeof url === 'string' || isObject(oauth) || typeof apiKey === 'string')
    return {
      ...named,
      ...(typeof url === 'string' && { url }),
      ...(oauth !== undefined && { oauth }),
      ...(apiKey !== undefined && { apiKey }),
    };
  const members = Object.entries(value);
  const [first] = members;
  if (!first || members.length !== 1 || name !== undefined) return undefined;
  return isObject(first[1]) ? entryIn(first[1], first[0]) : undefined;
}

function parsed(text: string): Record<string, unknown> | undefined {
  try {
    const value = parseJsonc(text);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

import { basename } from 'node:path';
import { remoteFlags, type RemoteFlag } from './flags.ts';
import type { RemoteWords } from './read-arguments.ts';

/**
 * What an entry that starts mcp-remote, by whatever command, tells it; `undefined` for an entry that
 * starts something else. Words that it does not know are passed over, as it does.
 */
export function remoteWords(
  words: readonly string[],
  isProgram: (word: string) => boolean = isMcpRemote,
): RemoteWords | undefined {
  const at = words.findIndex(isProgram);
  if (at < 0) return undefined;
  const flags = new Map<string, string[]>();
  const operands: string[] = [];
  const rest = words.slice(at + 1);
  for (let word = rest.shift(); word !== undefined; word = rest.shift()) {
    const flag = word.startsWith('--') ? flagNamed(word.slice(2)) : undefined;
    if (flag?.value !== undefined)
      flags.set(word.slice(2), [...(flags.get(word.slice(2)) ?? []), rest.shift() ?? '']);
    else if (flag) flags.set(word.slice(2), ['']);
    else if (!word.startsWith('-')) operands.push(word);
  }
  const from = operands.findIndex((operand) => /^https?:\/\//i.test(operand));
  const [url, next] = from < 0 ? [] : operands.slice(from);
  if (url === undefined) return undefined;
  return { url, flags, ...(next !== undefined && /^\d+$/.test(next) && { port: next }) };
}

function isMcpRemote(word: string): boolean {
  const path = word.replaceAll('\\', '/');
  return (
    /^mcp-remote(@[\w.-]+)?$/.test(basename(path)) || path.endsWith('/mcp-remote/dist/proxy.js')
  );
}

function flagNamed(name: string): RemoteFlag | undefined {
  return Object.entries(remoteFlags).find(([known]) => known === name)?.[1];
}

import { startsLatchkey } from './launch-entry.ts';
import type { GivenEntry } from './read-connection.ts';
import { readArguments, type ReadArgumentsPorts } from './read-arguments.ts';
import { remoteWords } from './remote-words.ts';

/**
 * What an assistant's entry that starts us with mcp-remote's flags says of its connection, so that
 * `latchkey NAME` means the same as what the assistant starts.
 *
 * @throws {UsageError} never with a value
 */
export function typedEntry(words: readonly string[], ports: ReadArgumentsPorts): GivenEntry {
  const found = remoteWords(words, (word) => startsLatchkey([word]));
  if (!found) return {};
  const { oauth, headers, denyTools, transport } = readArguments(found, ports);
  return {
    ...(oauth && { oauth }),
    ...(headers && { headers }),
    ...(denyTools && { denyTools }),
    ...(transport !== undefined && { transport }),
  };
}

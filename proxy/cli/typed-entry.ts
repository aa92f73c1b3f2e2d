import { startsLatchkey } from '#config/launch-entry';
import type { GivenEntry } from '#config/read-connection';
import { readArguments, type ReadArgumentsPorts } from '#config/read-arguments';
import { remoteWords } from '#config/remote-words';

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

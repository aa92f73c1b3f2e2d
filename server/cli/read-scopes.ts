import { UsageError } from '#config/usage-error';
import { allScopes, isScope, type Scope } from '#credentials/scope';

/** Scopes as they were typed, each once. @throws {UsageError} naming the one that is unknown. */
export function readScopes(words: readonly string[]): Scope[] {
  return [...new Set(words)].map((word) => {
    if (isScope(word)) return word;
    throw new UsageError(`--scope '${word}' is unknown`, `scopes are ${allScopes.join(', ')}`);
  });
}

import { isScope, scopeWords, type Scope } from '#credentials/scope';
import { OAuthRefusal } from './oauth-refusal.ts';

/**
 * The scopes a request is about: those it names, or all that are `allowed` when it names none. One
 * that is unknown or not allowed refuses the whole request; nothing is narrowed silently.
 *
 * RFC 6749 §3.3
 *
 * @throws {OAuthRefusal} `invalid_scope`
 */
export function requestedScopes(
  scope: string | undefined,
  allowed: readonly Scope[],
): readonly Scope[] {
  if (scope === undefined) return allowed;
  const words = scopeWords(scope);
  if (words.length === 0) return allowed;
  return words.map((word) => {
    if (isScope(word) && allowed.includes(word)) return word;
    throw new OAuthRefusal('invalid_scope', `this client may ask for: ${allowed.join(' ')}`);
  });
}

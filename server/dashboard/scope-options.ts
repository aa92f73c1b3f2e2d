import type { Form } from '#oauth/form';
import { allScopes, type Scope } from '#credentials/scope';
import { scopeSentence, type ScopeSentence } from '#pages/scope-sentence';

/** Every scope in words, for `@checks`; the risky ones say so. */
export function scopeOptions(chosen: readonly Scope[]) {
  return allScopes.map((scope) => {
    const { text, risk } = scopeWords(scope);
    return { value: scope, text, help: scope, risk: risk ?? '', isChosen: chosen.includes(scope) };
  });
}

/** The scopes that were checked. */
export function checkedScopes(form: Form): Scope[] {
  return allScopes.filter((scope) => form.has(`scopes.${scope}`));
}

/** What a scope lets a client or key do: the sentence of the consent page, about nobody in particular. */
export function scopeWords(scope: Scope): ScopeSentence {
  const { text, risk } = scopeSentence(scope);
  return { text: text.replace(' in your name', ''), risk };
}

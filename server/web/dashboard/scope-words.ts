import { allScopes, scopeSentence, type Scope, type ScopeSentence } from '#model/scopes';
import type { ExplainedChoice } from '#web/forms';
import { html, type Html } from '#web/html';

/** All scopes in words, for `checkboxes`, with the risky ones marked. */
export function scopeOptions(chosen: readonly Scope[]): ExplainedChoice[] {
  return allScopes.map((scope) => {
    const { text, risk } = scopeWords(scope);
    return { value: scope, text, help: scope, risk, isChosen: chosen.includes(scope) };
  });
}

/** Says what a scope lets a client or key do, even one that acts for itself. */
export function scopeWords(scope: Scope): ScopeSentence {
  const { text, ownText = text, risk } = scopeSentence(scope);
  return { text: ownText, risk };
}

/** A list of scopes, each as a row. */
export function scopeList(scopes: readonly ScopeSentence[]): Html {
  return html`<ul class="rows">
${scopes.map(
  ({ text, risk }) =>
    html`<li>
<div>${text}</div>
${risk && html`<span class="badge care">Sensitive</span>`}
</li>`,
)}
</ul>`;
}

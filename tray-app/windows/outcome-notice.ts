import { html, nothing, type TemplateResult } from 'lit-html';
import type { Outcome } from '#contract';

/** What came of something, where it was asked for. */
export function outcomeNotice(outcome: Outcome | undefined): TemplateResult | typeof nothing {
  if (!outcome || (outcome.ok && outcome.message === '')) return nothing;
  if (outcome.ok) return html`<p class="notice" role="status">${outcome.message}</p>`;
  return problemNotice(outcome.problem, outcome.remedy);
}

/** What went wrong, and what to do. */
export function problemNotice(problem: string, remedy: string): TemplateResult {
  return html`<div class="notice bad" role="alert" tabindex="-1">
    <p><strong>${problem}</strong></p>
    ${remedy === '' ? nothing : html`<p>${remedy}</p>`}
  </div>`;
}

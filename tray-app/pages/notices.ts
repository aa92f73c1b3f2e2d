import { html, nothing, svg, type TemplateResult } from 'lit-html';
import type { Outcome, SignInView } from '#model/contract';

/** The outcome of an operation, beside the control that started it. */
export function outcomeNotice(outcome: Outcome | undefined): TemplateResult | typeof nothing {
  if (!outcome || (outcome.ok && outcome.message === '')) return nothing;
  if (outcome.ok) return html`<p class="notice" role="status">${outcome.message}</p>`;
  return problemNotice(outcome.problem, outcome.remedy);
}

/** A notice with the problem, and what to do next. */
export function problemNotice(problem: string, remedy: string): TemplateResult {
  return html`<div class="notice bad" role="alert" tabindex="-1">
    <p><strong>${problem}</strong></p>
    ${remedy === '' ? nothing : html`<p>${remedy}</p>`}
  </div>`;
}

type WaitingActions = { cancel: () => void; copyAddress: () => void };

/** A sign-in that waits for the user to finish it in the browser. */
export function waitingView(
  { browserOpened }: SignInView,
  { cancel, copyAddress }: WaitingActions,
): TemplateResult {
  return html`<div class="notice wait" role="status">
    <p>
      <strong
        >${
          browserOpened
            ? 'Finish in your browser.'
            : 'No browser opened. Copy the address and open it in a browser.'
        }</strong
      >
    </p>
    <p>Check the request there, then allow or deny it. Latchkey waits up to ten minutes.</p>
    <div class="actions">
      <button type="button" @click=${cancel}>Cancel</button>
      <button type="button" class="quiet" @click=${copyAddress}>Copy the address</button>
    </div>
  </div>`;
}

/** A state, which colour, shape and word all convey. */
export type Mood = 'good' | 'warn' | 'bad' | 'quiet' | 'busy';

const badgeShapes: Record<Mood, TemplateResult> = {
  good: svg`<circle cx="6" cy="6" r="4.5" fill="currentColor" />`,
  warn: svg`<path d="M6 .8 11.2 6 6 11.2.8 6Z" fill="none" stroke="currentColor" stroke-width="1.6" />`,
  bad: svg`<path d="M6 1 11.4 10.6H.6Z" fill="currentColor" />`,
  quiet: svg`<circle cx="6" cy="6" r="4" fill="none" stroke="currentColor" stroke-width="1.6" />`,
  busy: svg`<path d="M6 1.5A4.5 4.5 0 0 0 6 10.5Z" fill="currentColor" /><circle cx="6" cy="6" r="4.2" fill="none" stroke="currentColor" stroke-width="1.2" />`,
};

export function stateBadge(mood: Mood, word: string): TemplateResult {
  return html`<span class="state ${mood}"
    ><svg viewBox="0 0 12 12" width="12" height="12" aria-hidden="true">${badgeShapes[mood]}</svg
    >${word}</span
  >`;
}

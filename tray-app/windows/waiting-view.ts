import { html, type TemplateResult } from 'lit-html';
import type { SignInView } from '#contract';

export type WaitingActs = { cancel: () => void; copyAddress: () => void };

/** The person is awaited in the browser. */
export function waitingView(
  { browserOpened }: SignInView,
  { cancel, copyAddress }: WaitingActs,
): TemplateResult {
  return html`<div class="notice wait" role="status">
    <p>
      <strong
        >${
          browserOpened
            ? 'Finish in your browser.'
            : 'No browser opened. Copy the address and open it yourself.'
        }</strong
      >
    </p>
    <p>Read there who asks for what, and allow or deny it. This waits up to ten minutes.</p>
    <div class="actions">
      <button type="button" @click=${cancel}>Cancel</button>
      <button type="button" class="quiet" @click=${copyAddress}>Copy the address</button>
    </div>
  </div>`;
}

import { html, type TemplateResult } from 'lit-html';
import type { SignInView } from '#contract';
import { ask } from './program.ts';
import { announce } from './show.ts';

/** The person is awaited in the browser. */
export function waitingView({ name, browserOpened }: SignInView): TemplateResult {
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
    </div>
    <div class="actions">
      <button type="button" @click=${() => ask('cancelSignIn', { name })}>Cancel</button>
      <button type="button" class="quiet" @click=${() => copy(name)}>Copy the address</button>
    </div>`;
}

async function copy(name: string): Promise<void> {
  const outcome = await ask('copySignInAddress', { name });
  announce(outcome.ok ? outcome.message : outcome.problem);
}

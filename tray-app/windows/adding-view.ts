import { html, type TemplateResult } from 'lit-html';
import type { SignInView } from '#contract';
import type { Step } from './add-step.ts';
import { ask } from './program.ts';
import { announce } from './show.ts';

/** The server is asked, or the person is awaited in the browser. */
export function addingView(
  { name: added, way }: Extract<Step, { at: 'adding' }>,
  signIns: readonly SignInView[],
): TemplateResult {
  const signIn = signIns.find((one) => one.name === added);
  if (signIn?.phase !== 'waiting')
    return html`<p role="status">
      ${way === 'person' ? 'Preparing the sign-in…' : 'Trying it at the server…'}
    </p>`;
  return html`<div class="notice wait" role="status">
      <p>
        <strong
          >${
            signIn.browserOpened
              ? 'Finish in your browser.'
              : 'No browser opened. Copy the address and open it yourself.'
          }</strong
        >
      </p>
      <p>Read there who asks for what, and allow or deny it. This waits up to ten minutes.</p>
    </div>
    <div class="actions">
      <button type="button" @click=${() => ask('cancelSignIn', { name: added })}>Cancel</button>
      <button type="button" class="quiet" @click=${() => copy(added)}>Copy the address</button>
    </div>`;
}

async function copy(added: string): Promise<void> {
  const outcome = await ask('copySignInAddress', { name: added });
  announce(outcome.ok ? outcome.message : outcome.problem);
}

import { html, type TemplateResult } from 'lit-html';
import type { Step } from './add-step.ts';
import { ask } from './program.ts';

/** What came of it, and what comes next. */
export function addedView(
  { name: added, message }: Extract<Step, { at: 'done' }>,
  again: () => void,
): TemplateResult {
  return html`<div class="notice good" id="done" tabindex="-1">
      <p><strong>${added} is ready.</strong></p>
      <p>${message}</p>
    </div>
    <p>Next, let an assistant start it.</p>
    <div class="actions">
      <button
        type="button"
        class="primary"
        @click=${() => ask('openWindow', { window: 'assistants' })}
      >
        Choose assistants
      </button>
      <button type="button" @click=${again}>Add another</button>
    </div>`;
}

import { html, type TemplateResult } from 'lit-html';
import type { Outcome } from '#contract';
import { outcomeNotice } from './outcome-notice.ts';

export type UrlForm = {
  url: string;
  pastedText: string;
  busy: boolean;
  problem: Outcome | undefined;
  lookUp: (event: SubmitEvent) => Promise<void>;
};

/** Which server: its URL, or a text that names it. */
export function urlForm({ url, pastedText, busy, problem, lookUp }: UrlForm): TemplateResult {
  return html`<form @submit=${lookUp} aria-busy=${busy}>
    ${outcomeNotice(problem)}
    <div class="field">
      <label for="url">Server URL</label>
      <input
        id="url"
        name="url"
        type="text"
        inputmode="url"
        spellcheck="false"
        autocomplete="off"
        .value=${url}
        placeholder="https://cloud.example.com/mcp/acme/sales"
        aria-describedby="url-help"
        autofocus
      />
      <p id="url-help" class="help">From the dashboard, or from whoever runs the server.</p>
    </div>
    <details ?open=${pastedText !== ''}>
      <summary>Paste a configuration instead</summary>
      <div class="field">
        <label for="pasted">Configuration</label>
        <textarea
          id="pasted"
          name="pasted"
          rows="7"
          spellcheck="false"
          autocomplete="off"
          aria-describedby="pasted-help"
          .value=${pastedText}
        ></textarea>
        <p id="pasted-help" class="help">
          An entry for a desktop assistant, or its oauth object with clientId, clientSecret and
          scopes.
        </p>
      </div>
    </details>
    <div class="actions">
      <button class="primary" ?disabled=${busy}>${busy ? 'Asking the server…' : 'Continue'}</button>
    </div>
  </form>`;
}

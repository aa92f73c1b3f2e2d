import { html, nothing, type TemplateResult } from 'lit-html';
import type { Found, Way } from './add-step.ts';

/** What the person has to type in that way. */
export function credentialFields(found: Found, way: Way): TemplateResult | typeof nothing {
  const secret = (label: string, shape: string) =>
    html`<div class="field">
      <label for="secret">${label}</label>
      <input
        id="secret"
        name="secret"
        type="password"
        required
        spellcheck="false"
        autocomplete="off"
        placeholder=${shape}
        aria-describedby="secret-help"
      />
      <p id="secret-help" class="help">
        It is tried at the server, then kept in the keychain of this machine, and never shown again.
      </p>
    </div>`;
  const client = html`<div class="field">
    <label for="client">Client id</label>
    <input
      id="client"
      name="client"
      required
      spellcheck="false"
      autocomplete="off"
      placeholder="client_…"
    />
  </div>`;
  switch (way) {
    case 'pasted':
      return nothing;
    case 'person':
      return found.needsClientId ? client : nothing;
    case 'api_key':
      return found.needs === 'nothing' ? nothing : secret('API key', 'mcp_…');
    case 'client':
      return html`${client} ${secret('Client secret', 'secret_…')}
        <div class="field">
          <label for="scopes">Scopes</label>
          <input
            id="scopes"
            name="scopes"
            spellcheck="false"
            autocomplete="off"
            aria-describedby="scopes-help"
          />
          <p id="scopes-help" class="help">
            Separated by blanks. Empty: all that the client may have.
          </p>
        </div>`;
  }
}

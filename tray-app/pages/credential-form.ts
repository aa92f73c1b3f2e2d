/** The form of step two: the name of the connection, and how the user authenticates. */
import { html, nothing, type TemplateResult } from 'lit-html';
import type { Credential, Outcome, Pasted, Probed } from '#model/contract';
import { outcomeNotice } from './notices.ts';
import { typedText } from './page.ts';

/** The server that was found at the URL. */
export type Found = Extract<Probed, { ok: true }>;

/** How the user authenticates. */
export type Method = 'person' | 'client' | 'api_key' | 'pasted';

const methods: Record<Exclude<Method, 'pasted'>, { title: string; help: string }> = {
  person: {
    title: 'Sign in with the browser',
    help: 'With your own account. Choose this unless your administrator gave you a credential.',
  },
  client: { title: 'OAuth client', help: 'A client ID and its secret, from the dashboard.' },
  api_key: { title: 'API key', help: 'A key from the dashboard. It begins with mcp_.' },
};

/** The content of a pasted configuration, without its secret. */
export type ReadBack = Extract<Pasted, { ok: true }>;

type CredentialForm = {
  found: Found;
  method: Method;
  problem?: Outcome;
  name: string;
  pasted: ReadBack | undefined;
  /** The label of the button while the submitted input is checked; `undefined` at other times. */
  doing: string | undefined;
  add: (event: SubmitEvent) => Promise<void>;
  choose: (method: Method) => void;
  back: () => void;
};

/** Offers the methods that the server accepts. */
export function credentialForm(form: CredentialForm): TemplateResult {
  const { found, method, problem, name, pasted, doing, add, back } = form;
  const { takes, needs } = found;
  const offered = takes.length > 0 ? takes : needs === 'nothing' ? [] : (['api_key'] as const);
  const busy = doing !== undefined;
  return html`<form @submit=${add} aria-busy=${busy}>
    ${outcomeNotice(problem)}
    <div class="found">
      <p><strong dir="auto">${found.serverName}</strong></p>
      <p class="mono soft">${found.url}</p>
      ${
        found.issuer === undefined
          ? nothing
          : html`<p class="help">Signs you in at <span class="mono">${found.issuer}</span></p>`
      }
    </div>
    <div class="field">
      <label for="name">Name</label>
      <input
        id="name"
        name="name"
        required
        maxlength="64"
        pattern="[A-Za-z0-9][A-Za-z0-9_.\\-]*"
        spellcheck="false"
        autocomplete="off"
        .value=${name}
        aria-describedby="name-help"
      />
      <p id="name-help" class="help">
        The name in your assistants: letters, digits, dots, dashes and underscores.
      </p>
    </div>
    ${method === 'pasted' ? pastedFacts(pasted) : choice(offered, form)}
    ${credentialFields(found, method)}
    <div class="actions">
      <button class="primary" ?disabled=${busy}>
        ${doing ?? (method === 'person' ? 'Add and sign in' : 'Check and add')}
      </button>
      <button type="button" class="quiet" ?disabled=${busy} @click=${back}>Back</button>
    </div>
  </form>`;
}

function choice(
  offered: readonly Exclude<Method, 'pasted'>[],
  { method: chosen, choose }: CredentialForm,
): TemplateResult {
  if (offered.length === 0)
    return html`<p class="notice">
      The server requires no authentication. Anyone who can reach it can use it.
    </p>`;
  return html`<fieldset>
    <legend>Authentication</legend>
    ${offered.map(
      (method) =>
        html`<label class="choice">
          <input
            type="radio"
            name="way"
            value=${method}
            .checked=${method === chosen}
            @change=${() => choose(method)}
          />
          <span>${methods[method].title}<span class="help">${methods[method].help}</span></span>
        </label>`,
    )}
  </fieldset>`;
}

function pastedFacts(pasted: ReadBack | undefined): TemplateResult {
  const { as, clientId, scopes = [] } = pasted ?? { as: 'person' as const };
  return html`<div class="notice">
    <p><strong>${methods[as].title}, from the pasted configuration</strong></p>
    ${clientId === undefined ? nothing : html`<p class="mono">${clientId}</p>`}
    ${scopes.length === 0 ? nothing : html`<p class="mono soft">${scopes.join(' ')}</p>`}
    ${as === 'person' ? nothing : html`<p class="help">The secret is stored in the keychain.</p>`}
  </div>`;
}

function credentialFields(found: Found, method: Method): TemplateResult | typeof nothing {
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
        Latchkey checks it at the server, stores it in the keychain of this computer, and never
        shows it again.
      </p>
    </div>`;
  const client = html`<div class="field">
    <label for="client">Client ID</label>
    <input
      id="client"
      name="client"
      required
      spellcheck="false"
      autocomplete="off"
      placeholder="client_…"
    />
  </div>`;
  switch (method) {
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
            Separated by spaces. Leave it empty for all scopes of the client.
          </p>
        </div>`;
  }
}

/** The credential that the user has entered. A pasted text is sent to the program again, which then reads its secret. */
export function typedCredential(
  method: Method,
  data: FormData,
  { needsClientId }: Found,
  pastedText: string,
): Credential {
  switch (method) {
    case 'pasted':
      return { as: 'pasted', pastedText };
    case 'api_key':
      return { as: 'api_key', apiKeySecret: typedText(data, 'secret') };
    case 'client':
      return {
        as: 'client',
        clientId: typedText(data, 'client'),
        clientSecret: typedText(data, 'secret'),
        scopes: typedText(data, 'scopes')
          .split(/[\s,]+/)
          .filter(Boolean),
      };
    case 'person': {
      const clientId = typedText(data, 'client');
      return { as: 'person', ...(needsClientId && clientId !== '' && { clientId }) };
    }
  }
}

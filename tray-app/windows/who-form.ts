import { html, nothing, type TemplateResult } from 'lit-html';
import type { Pasted } from '#contract';
import type { Way, Who } from './add-step.ts';
import { credentialFields } from './credential-fields.ts';
import { outcomeNotice } from './outcome-notice.ts';
import { ways } from './ways.ts';

/** What a pasted text said, without its secret. */
export type ReadBack = Extract<Pasted, { ok: true }>;

export type WhoForm = Who & {
  name: string;
  pasted: ReadBack | undefined;
  /** What is being done with what was filled in, where something is. */
  doing: string | undefined;
  add: (event: SubmitEvent) => Promise<void>;
  choose: (way: Way) => void;
  back: () => void;
};

/** Who the person is to the server, in the ways that it takes. */
export function whoForm(form: WhoForm): TemplateResult {
  const { found, way, problem, name, pasted, doing, add, back } = form;
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
          : html`<p class="help">Signs people in at <span class="mono">${found.issuer}</span></p>`
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
        What you and your assistants call it: letters, digits, dots, dashes and underscores.
      </p>
    </div>
    ${way === 'pasted' ? pastedFacts(pasted) : choice(offered, form)}
    ${credentialFields(found, way)}
    <div class="actions">
      <button class="primary" ?disabled=${busy}>
        ${doing ?? (way === 'person' ? 'Add and sign in' : 'Check and add')}
      </button>
      <button type="button" class="quiet" ?disabled=${busy} @click=${back}>Back</button>
    </div>
  </form>`;
}

function choice(
  offered: readonly Exclude<Way, 'pasted'>[],
  { way: chosen, choose }: WhoForm,
): TemplateResult {
  if (offered.length === 0)
    return html`<p class="notice">
      The server wants no credential. Anybody who reaches it may use it.
    </p>`;
  return html`<fieldset>
    <legend>How do you prove who you are?</legend>
    ${offered.map(
      (way) =>
        html`<label class="choice">
          <input
            type="radio"
            name="way"
            value=${way}
            .checked=${way === chosen}
            @change=${() => choose(way)}
          />
          <span>${ways[way].title}<span class="help">${ways[way].help}</span></span>
        </label>`,
    )}
  </fieldset>`;
}

function pastedFacts(pasted: ReadBack | undefined): TemplateResult {
  const { as, clientId, scopes = [] } = pasted ?? { as: 'person' as const };
  return html`<div class="notice">
    <p><strong>${ways[as].title}, as pasted</strong></p>
    ${clientId === undefined ? nothing : html`<p class="mono">${clientId}</p>`}
    ${scopes.length === 0 ? nothing : html`<p class="mono soft">${scopes.join(' ')}</p>`}
    ${as === 'person' ? nothing : html`<p class="help">Its secret goes to the keychain.</p>`}
  </div>`;
}

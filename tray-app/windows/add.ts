import { html, nothing, type TemplateResult } from 'lit-html';
import type { Credential, Outcome, Overview, Pasted, Probed } from '#contract';
import { outcomeNotice } from './outcome-notice.ts';
import { ask, onOverview } from './program.ts';
import { announce, focusOn, show } from './show.ts';

type Found = Extract<Probed, { ok: true }>;
type Way = 'person' | 'client' | 'api_key' | 'pasted';

/** Where the person is: first which server, then who they are to it, then what came of it. */
type Step =
  | { at: 'url'; problem?: Outcome }
  | { at: 'who'; found: Found; way: Way; problem?: Outcome }
  | { at: 'adding'; name: string; way: Way; found: Found }
  | { at: 'done'; name: string; message: string };

type Who = { found: Found; way: Way; problem?: Outcome };

let step: Step = { at: 'url' };
let busy = false;
let overview: Overview | undefined;
let url = '';
let name = '';
let pastedText = '';
let pasted: Extract<Pasted, { ok: true }> | undefined;

const ways: Record<Exclude<Way, 'pasted'>, { title: string; help: string }> = {
  person: {
    title: 'Sign in with the browser',
    help: 'Your own account, with your consent. Choose this unless you were given something else.',
  },
  client: { title: 'OAuth client', help: 'A client id and its secret, from the dashboard.' },
  api_key: { title: 'API key', help: 'A key that begins with mcp_, from the dashboard.' },
};

async function lookUp(event: SubmitEvent): Promise<void> {
  event.preventDefault();
  const data = new FormData(formOf(event));
  url = text(data, 'url');
  pastedText = text(data, 'pasted');
  busy = true;
  draw();
  const read = pastedText === '' ? undefined : await ask('readPasted', { pastedText });
  if (read?.ok === false) return refuse(read);
  pasted = read;
  url = url || (read?.url ?? '');
  if (url === '')
    return refuse({
      ok: false,
      problem: 'The pasted text names no server.',
      remedy: 'Type its URL too.',
    });
  const found = await ask('probe', { url });
  if (!found.ok) return refuse(found);
  busy = false;
  name = pasted?.name ?? found.suggestedName;
  const first = found.takes.includes('person') ? 'person' : 'api_key';
  step = { at: 'who', found, way: pasted ? 'pasted' : first };
  draw();
  announce(`${found.serverName} answers.`);
  focusOn('#name');
}

function refuse(problem: Outcome): void {
  busy = false;
  step = { at: 'url', problem };
  draw();
  focusOn('[role=alert]');
}

async function add(event: SubmitEvent): Promise<void> {
  event.preventDefault();
  if (step.at !== 'who') return;
  const { found, way } = step;
  const form = formOf(event);
  const data = new FormData(form);
  name = text(data, 'name');
  const credential = credentialOf(way, data, found);
  step = { at: 'adding', name, way, found };
  draw();
  const outcome = await ask('add', { name, url: found.url, credential });
  if (outcome.ok) {
    // Nothing of it stays in the page, typed or pasted.
    pastedText = '';
    form.reset();
    step = { at: 'done', name, message: outcome.message };
    draw();
    focusOn('#done');
    return;
  }
  step = { at: 'who', found, way, problem: outcome };
  draw();
  focusOn('[role=alert]');
}

function credentialOf(way: Way, data: FormData, found: Found): Credential {
  switch (way) {
    case 'pasted':
      return { as: 'pasted', pastedText };
    case 'api_key':
      return { as: 'api_key', apiKeySecret: text(data, 'secret') };
    case 'client':
      return {
        as: 'client',
        clientId: text(data, 'client'),
        clientSecret: text(data, 'secret'),
        scopes: text(data, 'scopes')
          .split(/[\s,]+/)
          .filter(Boolean),
      };
    case 'person': {
      const clientId = text(data, 'client');
      return { as: 'person', ...(found.needsClientId && clientId !== '' && { clientId }) };
    }
  }
}

function draw(): void {
  show(
    html`<h1>Add a connection</h1>
      ${content()}`,
  );
}

function content(): TemplateResult {
  switch (step.at) {
    case 'url':
      return urlForm(step.problem);
    case 'who':
    case 'adding':
      // The form stays while the server is asked: what was typed is not lost when it says no.
      return html`<div ?hidden=${step.at === 'adding'}>${whoForm(step)}</div>
        ${step.at === 'adding' ? adding(step) : nothing}`;
    case 'done':
      return doneView(step);
  }
}

function urlForm(problem: Outcome | undefined): TemplateResult {
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

function whoForm({ found, way, problem }: Who): TemplateResult {
  const { takes, needs } = found;
  const offered = takes.length > 0 ? takes : needs === 'nothing' ? [] : (['api_key'] as const);
  return html`<form @submit=${add}>
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
    ${way === 'pasted' ? pastedFacts() : choice(offered, way)} ${fields(found, way)}
    <div class="actions">
      <button class="primary">${way === 'person' ? 'Add and sign in' : 'Check and add'}</button>
      <button type="button" class="quiet" @click=${back}>Back</button>
    </div>
  </form>`;
}

function choice(offered: readonly Exclude<Way, 'pasted'>[], chosen: Way): TemplateResult {
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

function choose(way: Way): void {
  if (step.at !== 'who') return;
  name = document.querySelector<HTMLInputElement>('#name')?.value ?? name;
  step = { at: 'who', found: step.found, way };
  draw();
}

function back(): void {
  step = { at: 'url' };
  draw();
  focusOn('#url');
}

function pastedFacts(): TemplateResult {
  const { as, clientId, scopes = [] } = pasted ?? { as: 'person' as const };
  return html`<div class="notice">
    <p><strong>${ways[as].title}, as pasted</strong></p>
    ${clientId === undefined ? nothing : html`<p class="mono">${clientId}</p>`}
    ${scopes.length === 0 ? nothing : html`<p class="mono soft">${scopes.join(' ')}</p>`}
    ${as === 'person' ? nothing : html`<p class="help">Its secret goes to the keychain.</p>`}
  </div>`;
}

function fields(found: Found, way: Way): TemplateResult | typeof nothing {
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

function adding({ name: added, way }: Extract<Step, { at: 'adding' }>): TemplateResult {
  const signIn = overview?.signIns.find((one) => one.name === added);
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

function doneView({ name: added, message }: Extract<Step, { at: 'done' }>): TemplateResult {
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

function again(): void {
  url = '';
  name = '';
  pasted = undefined;
  back();
}

function formOf(event: SubmitEvent): HTMLFormElement {
  const form = event.currentTarget;
  if (form instanceof HTMLFormElement) return form;
  throw new TypeError('the event of no form');
}

function text(data: FormData, field: string): string {
  const value = data.get(field);
  return typeof value === 'string' ? value.trim() : '';
}

onOverview((news) => {
  overview = news;
  draw();
});

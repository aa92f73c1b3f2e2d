import { html, nothing, type TemplateResult } from 'lit-html';
import type { Outcome, Overview } from '#model/contract';
import {
  credentialForm,
  typedCredential,
  type Found,
  type Method,
  type ReadBack,
} from './credential-form.ts';
import { outcomeNotice, waitingView } from './notices.ts';
import { announce, ask, focusOn, onOverview, show, submittedForm, typedText } from './page.ts';

/** First the server, then the credential, then the result. */
type Step =
  | { at: 'url'; problem?: Outcome }
  | { at: 'credential'; found: Found; method: Method; problem?: Outcome }
  | { at: 'adding'; name: string; method: Method; found: Found }
  | { at: 'done'; name: string; message: string };

const preparing = 'Preparing the sign-in…';
const trying = 'Checking…';

let step: Step = { at: 'url' };
let busy = false;
let overview: Overview | undefined;
let url = '';
let name = '';
let pastedText = '';
let pasted: ReadBack | undefined;
/** The outcome of copying the address of a sign-in. */
let copied: Outcome | undefined;

async function lookUp(event: SubmitEvent): Promise<void> {
  event.preventDefault();
  const data = new FormData(submittedForm(event));
  url = typedText(data, 'url');
  pastedText = typedText(data, 'pasted');
  busy = true;
  step = { at: 'url' };
  draw();
  const read = pastedText === '' ? undefined : await ask('readPasted', { pastedText });
  if (read?.ok === false) return refuse(read);
  pasted = read;
  url = url || (read?.url ?? '');
  if (url === '')
    return refuse({
      ok: false,
      problem: 'The pasted text contains no server URL.',
      remedy: 'Enter the URL as well.',
    });
  const found = await ask('probe', { url });
  if (!found.ok) return refuse(found);
  busy = false;
  name = pasted?.name ?? found.suggestedName;
  const first = found.takes.includes('person') ? 'person' : 'api_key';
  step = { at: 'credential', found, method: pasted ? 'pasted' : first };
  draw();
  announce(`Connected to ${found.serverName}.`);
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
  if (step.at !== 'credential') return;
  const { found, method } = step;
  const form = submittedForm(event);
  const data = new FormData(form);
  name = typedText(data, 'name');
  const credential = typedCredential(method, data, found, pastedText);
  step = { at: 'adding', name, method, found };
  copied = undefined;
  draw();
  announce(method === 'person' ? preparing : trying);
  const outcome = await ask('add', { name, url: found.url, credential });
  if (outcome.ok) {
    // No credential stays in the page, whether it was typed or pasted.
    pastedText = '';
    form.reset();
    step = { at: 'done', name, message: outcome.message };
    draw();
    focusOn('#done');
    return;
  }
  step = { at: 'credential', found, method, problem: outcome };
  draw();
  focusOn('[role=alert]');
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
    case 'credential':
    case 'adding':
      return credentialView(step);
    case 'done':
      return addedView(step);
  }
}

/** The form stays while the server checks the input, so that nothing is lost if the server refuses it. */
function credentialView(now: Extract<Step, { at: 'credential' | 'adding' }>): TemplateResult {
  const adding = now.at === 'adding' ? now : undefined;
  const signIn = overview?.signIns.find((one) => one.name === adding?.name);
  const waiting = adding && signIn?.phase === 'waiting' ? signIn : undefined;
  const doing = adding && (now.method === 'person' ? preparing : trying);
  return html`<div ?hidden=${waiting !== undefined}>
      ${credentialForm({ ...now, name, pasted, doing, add, choose, back })}
    </div>
    ${
      waiting
        ? html`${waitingView(waiting, {
            cancel: () => void ask('cancelSignIn', { name: waiting.name }),
            copyAddress: () => void copyAddress(waiting.name),
          })}
          ${outcomeNotice(copied)}`
        : nothing
    }`;
}

/** The URL of the server, or a configuration that contains it. */
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
      <p id="url-help" class="help">
        Copy it from the dashboard, or ask the administrator of the server.
      </p>
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
          An entry from a desktop assistant's configuration, or an oauth object with clientId,
          clientSecret and scopes.
        </p>
      </div>
    </details>
    <div class="actions">
      <button class="primary" ?disabled=${busy}>${busy ? 'Connecting…' : 'Continue'}</button>
    </div>
  </form>`;
}

function addedView({ name: added, message }: Extract<Step, { at: 'done' }>): TemplateResult {
  return html`<div class="notice good" id="done" tabindex="-1">
      <p><strong>${added} is connected.</strong></p>
      <p>${message}</p>
    </div>
    <p>Next, install it in an assistant.</p>
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

async function copyAddress(of: string): Promise<void> {
  copied = await ask('copySignInAddress', { name: of });
  announce(copied.ok ? copied.message : copied.problem);
  draw();
}

function choose(method: Method): void {
  if (step.at !== 'credential') return;
  name = document.querySelector<HTMLInputElement>('#name')?.value ?? name;
  step = { at: 'credential', found: step.found, method };
  draw();
}

function back(): void {
  step = { at: 'url' };
  draw();
  focusOn('#url');
}

function again(): void {
  url = '';
  name = '';
  pasted = undefined;
  back();
}

onOverview((changed) => {
  overview = changed;
  draw();
});

import { html, nothing, type TemplateResult } from 'lit-html';
import type { ConnectionView, Outcome } from '#model/contract';
import { address } from './format.ts';
import { outcomeNotice } from './notices.ts';
import { ask, focusOn, onOverview, show, typedText, submittedForm } from './page.ts';

const name = new URLSearchParams(location.search).get('name') ?? '';
let connection: ConnectionView | undefined;
let known = false;
let busy = false;
let outcome: Outcome | undefined;
/** The name that was entered, kept so that it can be submitted again after a failure. */
let typed = name;

async function rename(event: SubmitEvent): Promise<void> {
  event.preventDefault();
  typed = typedText(new FormData(submittedForm(event)), 'name');
  busy = true;
  outcome = undefined;
  draw();
  outcome = await ask('rename', { name, to: typed });
  busy = false;
  draw();
  focusOn(outcome.ok ? '#renamed' : '[role=alert]');
}

function draw(): void {
  if (!known) return;
  if (outcome?.ok) return show(renamedView(outcome.message));
  // If only the file of an assistant could not be changed, the connection already has its new name.
  if (!connection && !busy && outcome === undefined)
    return show(
      html`<h1>Rename</h1>
        <p>The connection ${name} no longer exists.</p>`,
    );
  show(html`
    <h1>Rename</h1>
    <div class="found">
      <p><strong dir="auto">${name}</strong></p>
      ${connection ? html`<p class="mono soft">${address(connection.url)}</p>` : nothing}
    </div>
    ${form()}
  `);
}

function form(): TemplateResult {
  return html`<form @submit=${rename} aria-busy=${busy}>
    ${outcomeNotice(outcome)}
    <div class="field">
      <label for="name">New name</label>
      <input
        id="name"
        name="name"
        required
        maxlength="64"
        pattern="[A-Za-z0-9][A-Za-z0-9_.\\-]*"
        spellcheck="false"
        autocomplete="off"
        .value=${typed}
        aria-describedby="name-help"
        autofocus
      />
      <p id="name-help" class="help">
        The name in your assistants: letters, digits, dots, dashes and underscores. Latchkey changes
        the entries that start it in their own files, and keeps a backup of each file.
      </p>
    </div>
    <div class="actions">
      <button class="primary" ?disabled=${busy}>${busy ? 'Renaming…' : 'Rename'}</button>
    </div>
  </form>`;
}

function renamedView(message: string): TemplateResult {
  return html`<h1>Rename</h1>
    <div class="notice good" id="renamed" tabindex="-1">
      <p><strong>${message}</strong></p>
      <p>
        Change the name yourself in other files that start it, such as the .mcp.json of a project.
      </p>
    </div>`;
}

onOverview(({ connections }) => {
  known = true;
  connection = connections.find((one) => one.name === name);
  draw();
});

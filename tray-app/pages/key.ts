import { html, nothing, type TemplateResult } from 'lit-html';
import type { ConnectionView, Outcome } from '#model/contract';
import { secretWords } from '#model/state';
import { address, moment } from './format.ts';
import { outcomeNotice } from './notices.ts';
import { announce, ask, focusOn, onOverview, show } from './page.ts';

const name = new URLSearchParams(location.search).get('name') ?? '';
let connection: ConnectionView | undefined;
let known = false;
let busy = false;
let outcome: Outcome | undefined;
/** Whether a new key or secret was stored while this page was open. */
let stored = false;

async function rotate(event: SubmitEvent): Promise<void> {
  event.preventDefault();
  const field = document.querySelector<HTMLInputElement>('#secret');
  const secret = field?.value.trim() ?? '';
  if (!field || secret === '') return;
  busy = true;
  outcome = undefined;
  draw();
  outcome = await ask('rotate', { name, secret });
  busy = false;
  stored = outcome.ok;
  draw();
  if (outcome.ok) focusOn('#stored');
  else focusOn('[role=alert]');
}

async function undo(): Promise<void> {
  outcome = await ask('undoRotation', { name });
  stored = false;
  announce(outcome.ok ? outcome.message : outcome.problem);
  draw();
}

function draw(): void {
  if (!known) return;
  if (!connection)
    return show(
      html`<h1>Key</h1>
        <p>The connection ${name} no longer exists.</p>`,
    );
  const what = secretWords(connection);
  show(html`
    <h1>${connection.state === 'needs_key' ? 'Enter' : 'Rotate'} ${what}</h1>
    <div class="found">
      <p><strong dir="auto">${name}</strong></p>
      <p class="mono soft">${address(connection.url)}</p>
      ${
        connection.keySince === undefined
          ? nothing
          : html`<p class="help">The current one was stored ${moment(connection.keySince)}.</p>`
      }
    </div>
    ${stored ? storedView(what, connection) : form(what, connection)}
  `);
}

function form(what: string, { as, dashboard }: ConnectionView): TemplateResult {
  return html`<form @submit=${rotate} aria-busy=${busy}>
    ${outcomeNotice(outcome)}
    <ol class="steps">
      <li>
        Create a new ${what} in the dashboard.
        ${
          dashboard === undefined
            ? nothing
            : html`<button type="button" class="link" @click=${openDashboard}>
                Open dashboard
              </button>`
        }
      </li>
      <li>Enter it here. Latchkey checks it at the server before it stores it.</li>
      <li>Revoke the old one after the first successful call.</li>
    </ol>
    <div class="field">
      <label for="secret">New ${what}</label>
      <input
        id="secret"
        type="password"
        required
        spellcheck="false"
        autocomplete="off"
        placeholder=${as === 'api_key' ? 'mcp_…' : 'secret_…'}
        aria-describedby="secret-help"
        autofocus
      />
      <p id="secret-help" class="help">
        Latchkey stores it in the keychain of this computer and never shows it again. Both work
        until you revoke the old one.
      </p>
    </div>
    <div class="actions">
      <button class="primary" ?disabled=${busy}>${busy ? 'Checking…' : 'Check and store'}</button>
    </div>
  </form>`;
}

function storedView(what: string, { oldKeyKept, dashboard }: ConnectionView): TemplateResult {
  return html`<div class="notice good" id="stored" tabindex="-1">
      <p><strong>The new ${what} is stored.</strong></p>
      ${
        oldKeyKept
          ? html`<p>Latchkey keeps the old one until a call with the new one succeeds.</p>`
          : html`<p>It works. Nothing on this computer needs the old one.</p>`
      }
    </div>
    ${outcome?.ok === false ? outcomeNotice(outcome) : nothing}
    <p>
      ${oldKeyKept ? 'After that, revoke' : 'Now revoke'} the old one in the dashboard, so that it
      stops working.
    </p>
    <div class="actions">
      ${
        dashboard === undefined
          ? nothing
          : html`<button type="button" class="primary" @click=${openDashboard}>
              Revoke the old one in the dashboard
            </button>`
      }
      ${
        oldKeyKept
          ? html`<button type="button" class="quiet" @click=${undo}>Use the old one again</button>`
          : nothing
      }
    </div>`;
}

async function openDashboard(): Promise<void> {
  const opened = await ask('openDashboard', { name });
  announce(opened.ok ? opened.message : opened.problem);
}

onOverview(({ connections }) => {
  known = true;
  connection = connections.find((one) => one.name === name);
  draw();
});

import { html, nothing, type TemplateResult } from 'lit-html';
import { repeat } from 'lit-html/directives/repeat.js';
import type { DeviceListView, Failed, Outcome } from '#model/contract';
import { moment } from './format.ts';
import { outcomeNotice, problemNotice, stateBadge } from './notices.ts';
import { announce, ask, focusOn, show } from './page.ts';

type Device = DeviceListView['devices'][number];

let lists: DeviceListView[] | undefined;
let failed: Failed | undefined;
let outcome: Outcome | undefined;
/** The device that is about to be signed out, once the user has confirmed. */
let asked: string | undefined;
let busy = false;

async function look(): Promise<void> {
  const answer = await ask('devices', {});
  failed = 'ok' in answer ? answer : undefined;
  lists = 'ok' in answer ? (lists ?? []) : answer;
  draw();
}

async function signOut(list: string, id: string): Promise<void> {
  busy = true;
  draw();
  outcome = await ask('signOutDevice', { list, id });
  busy = false;
  asked = undefined;
  announce(outcome.ok ? outcome.message : outcome.problem);
  await look();
}

function draw(): void {
  if (!lists) return;
  show(html`
    <h1>Devices</h1>
    <p class="lead">
      The computers where you signed in with Latchkey. Sign out one that you lost: Latchkey on it
      loses access immediately.
    </p>
    ${failed ? problemNotice(failed.problem, failed.remedy) : nothing} ${outcomeNotice(outcome)}
    ${lists.length === 0 && !failed ? html`<p class="empty">No devices yet. Set up your company’s Latchkey under Your servers.</p>` : nothing}
    ${repeat(lists, ({ url }) => url, section)}
  `);
}

function section({ list, url, problem, devices }: DeviceListView): TemplateResult {
  const host = new URL(url).host;
  return html`<section class="stack" aria-label=${host}>
    <h2>${host}</h2>
    ${problem === '' ? nothing : problemNotice(`${problem}.`, 'Sign in under Your servers.')}
    <ul class="cards">
      ${repeat(
        devices,
        ({ id }) => id,
        (device) => card(list, device),
      )}
    </ul>
  </section>`;
}

function card(list: string, device: Device): TemplateResult {
  const { id, name, system, isCurrent, assistants, servers, lastUsedAt } = device;
  const title = `${name}${system === '' ? '' : ` (${system})`}`;
  return html`<li class="card">
    <div class="card-head">
      <h3 dir="auto">${title}</h3>
      ${isCurrent ? stateBadge('good', 'This computer') : nothing}
    </div>
    <p class="soft" dir="auto">
      ${assistants.length === 0 ? 'Latchkey' : assistants.join(', ')}: ${servers.join(', ')}
    </p>
    <p class="help">
      ${lastUsedAt === undefined ? 'Not used yet.' : html`Last used ${moment(lastUsedAt)}.`}
    </p>
    ${asked === id ? question(list, device, title) : signOutButton(device, title)}
  </li>`;
}

function signOutButton({ id }: Device, title: string): TemplateResult {
  return html`<div class="actions">
    <button
      type="button"
      class="quiet"
      aria-label=${`Sign out ${title}`}
      ?disabled=${busy}
      @click=${() => {
        asked = id;
        outcome = undefined;
        draw();
        focusOn('#sure');
      }}
    >
      Sign out
    </button>
  </div>`;
}

function question(list: string, { id, servers, isCurrent }: Device, title: string): TemplateResult {
  const count = servers.length === 1 ? 'one server' : `${servers.length} servers`;
  return html`<div class="notice" role="group" aria-label=${`Sign out ${title}?`}>
    <p id="sure" tabindex="-1">
      <strong>Sign out ${title}?</strong> Assistants ${isCurrent ? 'on this computer' : 'there'}
      lose access to ${count} immediately, including running calls.
    </p>
    <div class="actions">
      <button type="button" class="danger" ?disabled=${busy} @click=${() => signOut(list, id)}>
        Sign out device
      </button>
      <button
        type="button"
        ?disabled=${busy}
        @click=${() => {
          asked = undefined;
          draw();
        }}
      >
        Cancel
      </button>
    </div>
  </div>`;
}

void look();
window.addEventListener('focus', () => void look());

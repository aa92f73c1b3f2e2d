import { html, nothing, type TemplateResult } from 'lit-html';
import { repeat } from 'lit-html/directives/repeat.js';
import type { Failed, Outcome, Overview, ServerListView } from '#model/contract';
import { signInOf, stateWords } from '#model/state';
import { outcomeNotice, problemNotice, stateBadge } from './notices.ts';
import { announce, ask, onOverview, show } from './page.ts';
import { newSetUp, setUpAt, setUpForm, setUpProgress, waitingSignIn } from './set-up.ts';

/** How often the page asks again while it is visible, because other people can change what the user may use. */
const againMs = 30_000;

let overview: Overview | undefined;
let lists: ServerListView[] | undefined;
let failed: Failed | undefined;
let opened: Outcome | undefined;
const setUp = newSetUp(draw, () => void look());

async function look(): Promise<void> {
  const answer = await ask('servers', {});
  failed = 'ok' in answer ? answer : undefined;
  lists = 'ok' in answer ? (lists ?? []) : answer;
  draw();
}

async function open(url: string): Promise<void> {
  opened = await ask('openPage', { url });
  announce(opened.ok ? opened.message : opened.problem);
  draw();
}

async function signIn(name: string): Promise<void> {
  opened = undefined;
  draw();
  opened = await ask('signIn', { name });
  announce(opened.ok ? opened.message : opened.problem);
  await look();
}

function draw(): void {
  if (!overview || !lists) return;
  const isNew = lists.length === 0;
  show(html`
    <h1>Your servers</h1>
    ${failed ? problemNotice(failed.problem, failed.remedy) : nothing} ${outcomeNotice(opened)}
    ${isNew ? setUpForm(setUp, overview) : setUpProgress(setUp, overview)}
    ${repeat(lists, ({ url }) => url, section)}
  `);
}

function section(list: ServerListView): TemplateResult {
  const { url, signedInAs, problem, servers, askable, withdrawn } = list;
  const host = new URL(url).host;
  const button = (label: string, choose: boolean) =>
    html`<button
      type="button"
      aria-label=${`${label} at ${host}`}
      ?disabled=${setUp.busy}
      @click=${() => setUpAt(url, choose, setUp)}
    >
      ${label}
    </button>`;
  return html`<section class="stack" aria-label=${host}>
    <div class="head">
      <h2>${host}</h2>
      ${problem === '' ? button('Choose servers', true) : button('Sign in', false)}
    </div>
    ${signedInAs === undefined ? nothing : html`<p class="soft">Signed in as <bdi>${signedInAs}</bdi></p>`}
    ${problem === '' ? nothing : problemNotice(`${problem}.`, 'Sign in to see your servers.')}
    ${withdrawn.map((words) => html`<p class="notice" role="status">${words}</p>`)}
    ${
      servers.length + askable.length === 0
        ? nothing
        : html`<ul class="cards">
            ${servers.map(serverCard)} ${askable.map(askableCard)}
          </ul>`
    }
  </section>`;
}

const states = {
  in_use: { mood: 'good', word: 'In use' },
  connected: { mood: 'quiet', word: 'In no assistant' },
  available: { mood: 'quiet', word: 'Available' },
} as const;

type Server = ServerListView['servers'][number];

function badgeOf({ state, lacks, needs, accountUrl }: Server, waits: boolean): TemplateResult {
  const { mood, word } = states[state];
  if (waits) return stateBadge('busy', 'Waiting for browser');
  if (lacks) return stateBadge('warn', lackWords[lacks.what]);
  if (accountUrl === undefined) return stateBadge(mood, word);
  return stateBadge('warn', `Needs your ${needs ?? 'account or key'}`);
}

const lackWords = { sign_in: stateWords.needs_sign_in, key: stateWords.needs_key };

function serverCard(server: Server): TemplateResult {
  const { title, description, assistants, elsewhere, lacks, accountUrl } = server;
  const signing = lacks && signInOf({ name: lacks.connection }, overview?.signIns ?? []);
  const uses = [
    ...(assistants.length === 0 ? [] : [`${assistants.join(', ')} on this computer`]),
    ...elsewhere,
  ];
  return html`<li class="card">
    <div class="card-head">
      <h3 dir="auto">${title}</h3>
      ${badgeOf(server, signing !== undefined)}
    </div>
    ${description === '' ? nothing : html`<p class="soft" dir="auto">${description}</p>`}
    ${uses.length === 0 ? nothing : html`<p class="help" dir="auto">In use by ${uses.join('; ')}.</p>`}
    ${signing ? waitingSignIn(signing) : lacks ? remedy(title, lacks) : nothing}
    ${
      accountUrl === undefined || lacks
        ? nothing
        : html`<div class="actions">
            <button
              type="button"
              class="primary"
              aria-label=${`Add your account or key for ${title}`}
              @click=${() => open(accountUrl)}
            >
              Add your account or key
            </button>
          </div>`
    }
  </li>`;
}

function remedy(title: string, { what, connection }: NonNullable<Server['lacks']>): TemplateResult {
  const [label, act] =
    what === 'sign_in'
      ? ['Sign in', async () => signIn(connection)]
      : ['Enter API key', async () => ask('openWindow', { window: 'key', name: connection })];
  return html`<div class="actions">
    <button
      type="button"
      class="primary"
      aria-label=${`${label}: ${title}`}
      @click=${() => void act()}
    >
      ${label}
    </button>
  </div>`;
}

const asked = {
  no: { mood: 'quiet', word: 'No access', verb: 'Ask for access' },
  open: { mood: 'busy', word: 'Asked', verb: 'View request' },
  declined: { mood: 'bad', word: 'Declined', verb: 'View answer' },
} as const;

function askableCard(server: ServerListView['askable'][number]): TemplateResult {
  const { title, description, askUrl, answer } = server;
  const { mood, word, verb } = asked[server.asked];
  return html`<li class="card">
    <div class="card-head">
      <h3 dir="auto">${title}</h3>
      ${stateBadge(mood, word)}
    </div>
    ${description === '' ? nothing : html`<p class="soft" dir="auto">${description}</p>`}
    ${answer === '' ? nothing : html`<p class="help" dir="auto">${answer}</p>`}
    <div class="actions">
      <button type="button" aria-label=${`${verb}: ${title}`} @click=${() => open(askUrl)}>
        ${verb}
      </button>
    </div>
  </li>`;
}

onOverview((changed) => {
  overview = changed;
  draw();
});
void look();
window.addEventListener('focus', () => void look());
setInterval(() => {
  if (document.visibilityState === 'visible') void look();
}, againMs);

import { html, nothing, type TemplateResult } from 'lit-html';
import { repeat } from 'lit-html/directives/repeat.js';
import type { ConnectionView, OperationName, Outcome, Overview } from '#model/contract';
import {
  companies,
  companyHost,
  companySignIn,
  isInProgress,
  secretWords,
  stateWords,
  waitsForCompany,
  type Company,
} from '#model/state';
import { companyCard } from './company.ts';
import { address, capitalized, factList, moment, tokenLife } from './format.ts';
import { outcomeNotice, problemNotice, stateBadge, waitingView, type Mood } from './notices.ts';
import { announce, ask, onOverview, show } from './page.ts';
import { newSetUp, setUpForm } from './set-up.ts';

const moods: Record<ConnectionView['state'], Mood> = {
  ready: 'good',
  connecting: 'busy',
  needs_sign_in: 'warn',
  needs_key: 'warn',
  trouble: 'bad',
  offline: 'quiet',
};

let overview: Overview | undefined;
/** The outcome of the last action, by connection, or by {@link ofCompany}. */
const outcomes = new Map<string, Outcome>();
const busy = new Set<string>();
/** The `count` of the menu's failure that an action on this page has replaced. */
let replacedFailure = 0;

type Action = Extract<
  OperationName,
  | 'signIn'
  | 'cancelSignIn'
  | 'copySignInAddress'
  | 'signOut'
  | 'signInCompany'
  | 'signOutCompany'
  | 'reconnect'
  | 'remove'
  | 'openDashboard'
>;

/** The key for the sign-in at a company, which differs from that of the connection for which it was started. */
const ofCompany = (name: string) => `company of ${name}`;

async function act(operation: Action, name: string): Promise<void> {
  const isSignIn = operation === 'signIn' || operation === 'signInCompany';
  const isOfCompany = operation === 'signInCompany' || operation === 'signOutCompany';
  const place = isOfCompany ? ofCompany(name) : name;
  outcomes.delete(place);
  replacedFailure = overview?.menuFailure?.count ?? replacedFailure;
  if (!isSignIn) busy.add(place);
  draw();
  const outcome = await ask(operation, { name });
  busy.delete(place);
  // The overview shows the outcome of a sign-in, because the menu can start one too. After a company sign-in, this also names what it opened.
  if (!isSignIn || (isOfCompany && outcome.ok)) outcomes.set(place, outcome);
  announce(outcome.ok ? outcome.message : outcome.problem);
  draw();
}

function draw(): void {
  if (!overview) return;
  const { known, connections, trouble } = overview;
  show(html`
    <header class="head">
      <h1>Connections</h1>
      ${connections.length === 0 ? nothing : addButton('')}
    </header>
    ${trouble ? problemNotice(trouble.problem, trouble.remedy) : nothing}
    ${connections.some(({ name }) => name === overview?.menuFailure?.name) ? nothing : menuNotice()}
    ${connections.length === 0 ? nothing : outcomeNotice(setUp.outcome)}
    ${
      connections.length === 0
        ? trouble
          ? nothing
          : known
            ? firstSteps()
            : html`<p class="soft" role="status">Loading connections…</p>`
        : html`<ul class="cards">
            ${repeat(companies(connections), ({ issuer, clientId }) => `${clientId}@${issuer}`, cardOfCompany)}
            ${repeat(connections, ({ name }) => name, card)}
          </ul>`
    }
    <dialog id="sure" aria-labelledby="sure-title"></dialog>
  `);
}

/** The failure of the menu, until the user does something on this page. */
function menuNotice(): TemplateResult | typeof nothing {
  const { problem = '', remedy = '', count = 0 } = overview?.menuFailure ?? {};
  return count <= replacedFailure ? nothing : problemNotice(problem, remedy);
}

const addButton = (kind: string): TemplateResult =>
  html`<button type="button" class=${kind} @click=${() => ask('openWindow', { window: 'add' })}>
    Add connection
  </button>`;

const setUp = newSetUp(draw, () => undefined);

/** The first start asks for the address of the company, and for nothing else. */
const firstSteps = (): TemplateResult =>
  html`<div class="empty">
    <p>
      No connections yet. A connection lets an assistant on this computer use a server with your
      sign-in.
    </p>
    ${setUpForm(setUp, overview)}
    <p class="help">Your server is not Latchkey, or you have an API key?</p>
    ${addButton('quiet')}
  </div>`;

function cardOfCompany(one: Company): TemplateResult {
  const [name] = one.names;
  return companyCard(one, {
    signIn: companySignIn(one, overview?.signIns ?? []),
    outcome: outcomes.get(ofCompany(name)),
    busy: busy.has(ofCompany(name)),
    act: (operation, of) => void act(operation, of),
  });
}

function card(one: ConnectionView): TemplateResult {
  const { name, url, state } = one;
  const words = detailOf(one);
  // The card of the company shows a sign-in there.
  const signIn = waitsForCompany(one)
    ? undefined
    : overview?.signIns.find((each) => each.name === name);
  const waiting = signIn !== undefined && isInProgress(signIn);
  return html`<li class="card" aria-busy=${busy.has(name)}>
    <div class="card-head">
      <h2 dir="auto">${name}</h2>
      ${waiting ? stateBadge('busy', 'Waiting for browser') : stateBadge(moods[state], stateWords[state])}
    </div>
    ${
      waiting
        ? waitingView(signIn, {
            cancel: () => void act('cancelSignIn', name),
            copyAddress: () => void act('copySignInAddress', name),
          })
        : html`${words === '' ? nothing : html`<p class="detail">${words}</p>`}
          ${signIn?.phase === 'failed' ? problemNotice(signIn.problem, signIn.remedy) : nothing}`
    }
    ${overview?.menuFailure?.name === name && signIn?.phase !== 'failed' ? menuNotice() : nothing}
    ${
      one.keyDue && !one.oldKeyKept
        ? html`<p class="detail">
            Rotation due: the ${secretWords(one)} is 90 days old or more. Enter a new one.
          </p>`
        : nothing
    }
    ${
      one.oldKeyKept
        ? html`<p class="detail">
            The new ${secretWords(one)} is stored. Latchkey keeps the old one until a call with the
            new one succeeds.
          </p>`
        : nothing
    }
    ${
      url === ''
        ? nothing
        : html`${connectionFacts(one)} ${outcomeNotice(outcomes.get(name))} ${actions(one, waiting)}`
    }
  </li>`;
}

/** The problem of a connection, or the sign-in that it waits for. */
function detailOf(one: ConnectionView): string {
  const { company, detail } = one;
  if (!company || !waitsForCompany(one)) return detail;
  return `Waiting for the sign-in at ${companyHost(company)}`;
}

function actions(one: ConnectionView, waiting: boolean): TemplateResult {
  const { name, as, state, rotates, dashboard, own } = one;
  const signedIn = as === 'person' && state !== 'needs_sign_in' && !one.company;
  const button = (label: string, operation: Action, kind = 'quiet') =>
    html`<button
      type="button"
      class=${kind}
      aria-label=${`${label} ${name}`}
      ?disabled=${busy.has(name)}
      @click=${() => act(operation, name)}
    >
      ${label}
    </button>`;
  /** A button that only opens a window or a question, so it stays enabled while another operation runs. */
  const opener = (label: string, kind: string, about: string, open: () => void) =>
    html`<button type="button" class=${kind} aria-label=${about} @click=${open}>${label}</button>`;
  const rename = () => void ask('openWindow', { window: 'rename', name });
  const remove = () => confirmRemoval(one, () => void act('remove', name));
  return html`<div class="actions">
    ${
      state === 'needs_sign_in' && !waiting && !waitsForCompany(one)
        ? button('Sign in', 'signIn', 'primary')
        : nothing
    }
    ${
      rotates
        ? opener(
            keyWords(one),
            state === 'needs_key' ? 'primary' : 'quiet',
            `${keyWords(one)} of ${name}`,
            () => void ask('openWindow', { window: 'key', name }),
          )
        : nothing
    }
    ${one.usedBy.length > 0 ? button('Reconnect', 'reconnect') : nothing}
    ${dashboard === undefined ? nothing : button('Open dashboard', 'openDashboard')}
    ${signedIn && !waiting ? button('Sign out', 'signOut') : nothing}
    ${own ? opener('Rename', 'quiet', `Rename ${name}`, rename) : nothing}
    ${own ? opener('Remove', 'quiet danger', `Remove ${name}`, remove) : nothing}
  </div>`;
}

function keyWords(one: ConnectionView): string {
  return `${one.state === 'needs_key' ? 'Enter' : 'Rotate'} ${secretWords(one)}`;
}

const asWords: Record<ConnectionView['as'], string> = {
  person: 'personal sign-in',
  client: 'OAuth client',
  api_key: 'API key',
};

/** One line about a connection, which expands to its details, one row each. */
function connectionFacts(one: ConnectionView): TemplateResult {
  const { as, account, issuer, scopes, tokenExpiresAt, renewable, keySince, lastCall } = one;
  const { signedInAs, url } = one;
  const who = account ?? signedInAs;
  const kind = one.company ? 'company sign-in' : asWords[as];
  const rows: [string, unknown][] = [
    ['URL', html`<span class="mono">${address(url)}</span>`],
    ['Authentication', kind],
    ['Signed in as', who],
    [
      'Company sign-in',
      one.company && html`<span class="mono">${address(one.company.issuer)}</span>`,
    ],
    ['Signed in at', issuer && html`<span class="mono">${issuer}</span>`],
    ['Scopes', scopes.length > 0 && html`<span class="mono">${scopes.join(' ')}</span>`],
    ['Access token', tokenExpiresAt !== undefined && tokenLife(tokenExpiresAt, renewable)],
    [as === 'api_key' ? 'Key stored' : 'Secret stored', keySince !== undefined && moment(keySince)],
    [
      'Last call',
      lastCall &&
        html`<span class="mono">${lastCall.method}</span>, ${callWords[lastCall.outcome]},
          ${moment(lastCall.at)}`,
    ],
    ['In use by', one.usedBy.join(', ')],
    ['Installed in', one.startedBy.join(', ')],
  ];
  return html`<details class="more">
    <summary>
      ${who === undefined ? capitalized(kind) : html`Signed in as <bdi>${who}</bdi>`}${
        lastCall ? html` · last call ${moment(lastCall.at)}` : nothing
      }
    </summary>
    ${factList(rows)}
  </details>`;
}

const callWords: Record<NonNullable<ConnectionView['lastCall']>['outcome'], string> = {
  ok: 'answered',
  tool_error: 'the tool failed',
  failed: 'failed',
};

/** Asks for confirmation, and names the connection and the assistants that lose access. */
function confirmRemoval({ name, url, startedBy, as }: ConnectionView, remove: () => void): void {
  const dialog = document.querySelector<HTMLDialogElement>('#sure');
  if (!dialog) return;
  const used =
    startedBy.length === 0
      ? 'No assistant uses it.'
      : `${startedBy.join(', ')} ${startedBy.length === 1 ? 'loses' : 'lose'} access immediately.`;
  const forgotten =
    as === 'person' ? 'You are signed out at the server.' : 'Its key is deleted from the keychain.';
  const words: [string, string][] = [
    ['h2', `Remove ${name}?`],
    ['p', `${url}. ${used} ${forgotten}`],
  ];
  dialog.replaceChildren(
    ...words.map(([tag, text]) => {
      const element = document.createElement(tag);
      if (tag === 'h2') element.id = 'sure-title';
      element.textContent = text;
      return element;
    }),
    choices(dialog, remove),
  );
  dialog.showModal();
}

function choices(dialog: HTMLDialogElement, remove: () => void): HTMLElement {
  const row = document.createElement('div');
  row.className = 'actions';
  const choice = (label: string, kind: string, chosen: () => void) => {
    const element = document.createElement('button');
    element.type = 'button';
    element.className = kind;
    element.textContent = label;
    element.addEventListener('click', () => {
      dialog.close();
      chosen();
    });
    return element;
  };
  row.append(
    choice('Remove', 'danger', remove),
    choice('Cancel', '', () => {}),
  );
  return row;
}

onOverview((changed) => {
  overview = changed;
  draw();
});
setInterval(draw, 30_000);

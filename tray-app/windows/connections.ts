import { html, nothing, type TemplateResult } from 'lit-html';
import { repeat } from 'lit-html/directives/repeat.js';
import type { ConnectionView, OperationName, Outcome, Overview } from '#contract';
import { address } from './address.ts';
import { askWhetherToRemove } from './ask-whether-to-remove.ts';
import { connectionFactsList } from './connection-facts-list.ts';
import { outcomeNotice, problemNotice } from './outcome-notice.ts';
import { ask, onOverview } from './program.ts';
import { announce, show } from './show.ts';
import { stateBadge, type Mood } from './state-badge.ts';
import { waitingView } from './waiting-view.ts';
import { secretWords } from '#secret-words';
import { stateWords } from '#state-words';

const moods: Record<ConnectionView['state'], Mood> = {
  ready: 'good',
  connecting: 'busy',
  needs_sign_in: 'warn',
  needs_key: 'warn',
  trouble: 'bad',
  offline: 'quiet',
};

let overview: Overview | undefined;
/** What came of the last act, by connection. */
const outcomes = new Map<string, Outcome>();
const busy = new Set<string>();

type Act = Extract<
  OperationName,
  | 'signIn'
  | 'cancelSignIn'
  | 'copySignInAddress'
  | 'signOut'
  | 'reconnect'
  | 'remove'
  | 'openDashboard'
>;

async function act(operation: Act, name: string): Promise<void> {
  const waits = operation === 'signIn';
  outcomes.delete(name);
  if (!waits) busy.add(name);
  draw();
  const outcome = await ask(operation, { name });
  busy.delete(name);
  // What became of a sign-in stands in the overview, whoever began it.
  if (!waits) outcomes.set(name, outcome);
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
    ${
      connections.length === 0
        ? trouble
          ? nothing
          : known
            ? empty
            : html`<p class="soft" role="status">Loading connections…</p>`
        : html`<ul class="cards">
            ${repeat(connections, ({ name }) => name, card)}
          </ul>`
    }
    <dialog id="sure" aria-labelledby="sure-title"></dialog>
  `);
}

const addButton = (kind: string): TemplateResult =>
  html`<button type="button" class=${kind} @click=${() => ask('openWindow', { window: 'add' })}>
    Add connection
  </button>`;

const empty = html`<div class="empty">
  <p>No connections yet. A connection lets an assistant on this machine reach a server as you.</p>
  ${addButton('primary')}
</div>`;

function card(one: ConnectionView): TemplateResult {
  const { name, url, state, detail } = one;
  const signIn = overview?.signIns.find((each) => each.name === name);
  const waiting = signIn?.phase === 'waiting' || signIn?.phase === 'opening';
  return html`<li class="card" aria-busy=${busy.has(name)}>
    <div class="card-head">
      <h2 dir="auto">${name}</h2>
      ${waiting ? stateBadge('busy', 'waiting for you') : stateBadge(moods[state], stateWords[state])}
    </div>
    ${url === '' ? nothing : html`<p class="mono soft">${address(url)}</p>`}
    ${
      waiting
        ? waitingView(signIn, {
            cancel: () => void act('cancelSignIn', name),
            copyAddress: () => void act('copySignInAddress', name),
          })
        : html`${detail === '' ? nothing : html`<p class="detail">${detail}</p>`}
          ${signIn?.phase === 'failed' ? problemNotice(signIn.problem, signIn.remedy) : nothing}`
    }
    ${
      one.keyDue && !one.oldKeyKept
        ? html`<p class="detail">
            Its ${secretWords(one)} is 90 days old or more. Enter a new one.
          </p>`
        : nothing
    }
    ${
      one.oldKeyKept
        ? html`<p class="detail">
            A new ${secretWords(one)} is stored. The old one is kept until a call has worked with
            the new one.
          </p>`
        : nothing
    }
    ${
      url === ''
        ? nothing
        : html`${connectionFactsList(one)} ${outcomeNotice(outcomes.get(name))}
          ${actions(one, waiting)}`
    }
  </li>`;
}

function actions(one: ConnectionView, waiting: boolean): TemplateResult {
  const { name, as, state, rotates, dashboard, own } = one;
  const signedIn = as === 'person' && state !== 'needs_sign_in';
  const button = (label: string, operation: Act, kind = 'quiet') =>
    html`<button
      type="button"
      class=${kind}
      aria-label=${`${label} ${name}`}
      ?disabled=${busy.has(name)}
      @click=${() => act(operation, name)}
    >
      ${label}
    </button>`;
  return html`<div class="actions">
    ${state === 'needs_sign_in' && !waiting ? button('Sign in', 'signIn', 'primary') : nothing}
    ${
      rotates
        ? html`<button
            type="button"
            class=${state === 'needs_key' ? 'primary' : 'quiet'}
            aria-label=${`${keyWords(one)} of ${name}`}
            @click=${() => ask('openWindow', { window: 'key', name })}
          >
            ${keyWords(one)}
          </button>`
        : nothing
    }
    ${one.usedBy.length > 0 ? button('Reconnect', 'reconnect') : nothing}
    ${dashboard === undefined ? nothing : button('Open dashboard', 'openDashboard')}
    ${signedIn && !waiting ? button('Sign out', 'signOut') : nothing}
    ${
      own
        ? html`<button
            type="button"
            class="quiet danger"
            aria-label=${`Remove ${name}`}
            @click=${() => askWhetherToRemove(one, () => void act('remove', name))}
          >
            Remove
          </button>`
        : nothing
    }
  </div>`;
}

function keyWords(one: ConnectionView): string {
  return `${one.state === 'needs_key' ? 'Enter' : 'Rotate'} ${secretWords(one)}`;
}

onOverview((news) => {
  overview = news;
  draw();
});
setInterval(draw, 30_000);

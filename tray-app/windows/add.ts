import { html, nothing, type TemplateResult } from 'lit-html';
import type { Outcome, Overview } from '#contract';
import { addedView } from './added-view.ts';
import type { Step, Way } from './add-step.ts';
import { outcomeNotice } from './outcome-notice.ts';
import { ask, onOverview } from './program.ts';
import { announce, focusOn, show } from './show.ts';
import { submittedForm } from './submitted-form.ts';
import { typedCredential } from './typed-credential.ts';
import { typedText } from './typed-text.ts';
import { urlForm } from './url-form.ts';
import { waitingView } from './waiting-view.ts';
import { whoForm, type ReadBack } from './who-form.ts';

const preparing = 'Preparing the sign-in…';
const trying = 'Trying it at the server…';

let step: Step = { at: 'url' };
let busy = false;
let overview: Overview | undefined;
let url = '';
let name = '';
let pastedText = '';
let pasted: ReadBack | undefined;
/** What came of copying the address that waits. */
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
  const form = submittedForm(event);
  const data = new FormData(form);
  name = typedText(data, 'name');
  const credential = typedCredential(way, data, found, pastedText);
  step = { at: 'adding', name, way, found };
  copied = undefined;
  draw();
  announce(way === 'person' ? preparing : trying);
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

function draw(): void {
  show(
    html`<h1>Add a connection</h1>
      ${content()}`,
  );
}

function content(): TemplateResult {
  switch (step.at) {
    case 'url':
      return urlForm({ url, pastedText, busy, problem: step.problem, lookUp });
    case 'who':
    case 'adding':
      return whoView(step);
    case 'done':
      return addedView(step, again);
  }
}

/** The form stays while the server is asked: what was typed is not lost when it says no. */
function whoView(now: Extract<Step, { at: 'who' | 'adding' }>): TemplateResult {
  const adding = now.at === 'adding' ? now : undefined;
  const signIn = overview?.signIns.find((one) => one.name === adding?.name);
  const waiting = adding && signIn?.phase === 'waiting' ? signIn : undefined;
  const doing = adding && (now.way === 'person' ? preparing : trying);
  return html`<div ?hidden=${waiting !== undefined}>
      ${whoForm({ ...now, name, pasted, doing, add, choose, back })}
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

async function copyAddress(of: string): Promise<void> {
  copied = await ask('copySignInAddress', { name: of });
  announce(copied.ok ? copied.message : copied.problem);
  draw();
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

function again(): void {
  url = '';
  name = '';
  pasted = undefined;
  back();
}

onOverview((news) => {
  overview = news;
  draw();
});

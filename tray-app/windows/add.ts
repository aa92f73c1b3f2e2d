import { html, nothing, type TemplateResult } from 'lit-html';
import type { Outcome, Overview } from '#contract';
import { addedView } from './added-view.ts';
import { addingView } from './adding-view.ts';
import type { Step, Way } from './add-step.ts';
import { ask, onOverview } from './program.ts';
import { announce, focusOn, show } from './show.ts';
import { submittedForm } from './submitted-form.ts';
import { typedCredential } from './typed-credential.ts';
import { typedText } from './typed-text.ts';
import { urlForm } from './url-form.ts';
import { whoForm, type ReadBack } from './who-form.ts';

let step: Step = { at: 'url' };
let busy = false;
let overview: Overview | undefined;
let url = '';
let name = '';
let pastedText = '';
let pasted: ReadBack | undefined;

async function lookUp(event: SubmitEvent): Promise<void> {
  event.preventDefault();
  const data = new FormData(submittedForm(event));
  url = typedText(data, 'url');
  pastedText = typedText(data, 'pasted');
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
  const form = submittedForm(event);
  const data = new FormData(form);
  name = typedText(data, 'name');
  const credential = typedCredential(way, data, found, pastedText);
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
      // The form stays while the server is asked: what was typed is not lost when it says no.
      return html`<div ?hidden=${step.at === 'adding'}>
          ${whoForm({ ...step, name, pasted, add, choose, back })}
        </div>
        ${step.at === 'adding' ? addingView(step, overview?.signIns ?? []) : nothing}`;
    case 'done':
      return addedView(step, again);
  }
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

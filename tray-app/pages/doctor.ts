import { html, nothing, type TemplateResult } from 'lit-html';
import type { Failed, Finding } from '#model/contract';
import { problemNotice, stateBadge, type Mood } from './notices.ts';
import { announce, ask, show } from './page.ts';

const moods: Record<Finding['state'], [mood: Mood, word: string]> = {
  ok: ['good', 'OK'],
  warn: ['warn', 'Warning'],
  fail: ['bad', 'Error'],
};

let findings: Finding[] | undefined;
let failed: Failed | undefined;
let busy = false;

async function run(): Promise<void> {
  busy = true;
  draw();
  const answer = await ask('doctor', {});
  busy = false;
  failed = 'ok' in answer ? answer : undefined;
  findings = 'ok' in answer ? undefined : answer;
  announce(findings ? summary(findings) : '');
  draw();
}

function summary(all: readonly Finding[]): string {
  const failing = all.filter(({ state }) => state === 'fail').length;
  const warning = all.filter(({ state }) => state === 'warn').length;
  if (failing + warning === 0) return 'Everything works.';
  const parts = [
    failing > 0 ? `${failing} ${failing === 1 ? 'error' : 'errors'}` : '',
    warning > 0 ? `${warning} ${warning === 1 ? 'warning' : 'warnings'}` : '',
  ];
  return `${parts.filter(Boolean).join(', ')}.`;
}

function draw(): void {
  show(html`
    <header class="head">
      <h1>Doctor</h1>
      <button type="button" ?disabled=${busy} @click=${run}>
        ${busy ? 'Checking…' : 'Check again'}
      </button>
    </header>
    <p class="lead">
      ${findings ? summary(findings) : 'Checks the keychain, the network and every connection.'}
    </p>
    ${failed ? problemNotice(failed.problem, failed.remedy) : nothing}
    ${
      findings
        ? html`<ul class="rows" aria-busy=${busy}>
            ${findings.map(row)}
          </ul>`
        : nothing
    }
  `);
}

function row({ check, state, what, hint }: Finding): TemplateResult {
  return html`<li>
    <div>
      <p><strong>${check}</strong></p>
      <p>${what}</p>
      ${hint === '' ? nothing : html`<p class="help">${hint}</p>`}
    </div>
    ${stateBadge(...moods[state])}
  </li>`;
}

void run();

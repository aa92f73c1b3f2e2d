import { html, nothing, type TemplateResult } from 'lit-html';
import { repeat } from 'lit-html/directives/repeat.js';
import type { AssistantView, Failed, Outcome, Overview } from '#model/contract';
import { address } from './format.ts';
import { outcomeNotice, problemNotice, stateBadge } from './notices.ts';
import { announce, ask, onOverview, show } from './page.ts';

let overview: Overview | undefined;
let assistants: AssistantView[] | undefined;
let failed: Failed | undefined;
const outcomes = new Map<string, Outcome>();
const busy = new Set<string>();

async function look(): Promise<void> {
  const answer = await ask('assistants', {});
  failed = 'ok' in answer ? answer : undefined;
  assistants = 'ok' in answer ? [] : answer;
  draw();
}

async function change(
  operation: 'install' | 'uninstall',
  assistant: string,
  name: string,
): Promise<void> {
  await act(assistant, ask(operation, { assistant, name }));
}

async function act(assistant: string, work: Promise<Outcome>): Promise<void> {
  busy.add(assistant);
  outcomes.delete(assistant);
  draw();
  const outcome = await work;
  busy.delete(assistant);
  outcomes.set(assistant, outcome);
  announce(outcome.ok ? outcome.message : outcome.problem);
  await look();
}

function draw(): void {
  if (!overview || !assistants) return;
  const found = assistants.filter((one) => one.found);
  const absent = assistants.filter((one) => !one.found);
  show(html`
    <h1>Assistants</h1>
    <p class="lead">
      Latchkey backs up the file before each change, and Remove restores it. Restart the assistant
      after a change.
    </p>
    ${failed ? problemNotice(failed.problem, failed.remedy) : nothing}
    ${
      found.length === 0 && !failed
        ? html`<p class="empty">No assistant was found on this computer.</p>`
        : html`<ul class="cards">
            ${repeat(found, ({ id }) => id, card)}
          </ul>`
    }
    ${
      absent.length === 0
        ? nothing
        : html`<p class="help">Not found here: ${absent.map(({ title }) => title).join(', ')}.</p>`
    }
  `);
}

function card(one: AssistantView): TemplateResult {
  const { id, title, file, problem, importable } = one;
  return html`<li class="card" aria-busy=${busy.has(id)}>
    <div class="card-head">
      <h2>${title}</h2>
      ${
        problem !== ''
          ? stateBadge('bad', 'Cannot be read')
          : one.installed.length > 0
            ? stateBadge('good', `${one.installed.length} installed`)
            : stateBadge('quiet', 'None installed')
      }
    </div>
    <p class="mono soft">${address(file)}</p>
    ${
      problem === ''
        ? nothing
        : html`${problemNotice(
              `The file ${problem}.`,
              'Fix the file in an editor. Latchkey changes nothing in it until then, and reads it again when you come back.',
            )}
            <div class="actions">
              <button
                type="button"
                aria-label=${`Open the file of ${title}`}
                @click=${() => act(id, ask('openAssistantFile', { assistant: id }))}
              >
                Open the file
              </button>
            </div>`
    }
    ${outcomeNotice(outcomes.get(id))} ${problem === '' ? rows(one) : nothing}
    ${
      importable.length === 0
        ? nothing
        : html`<h3>Can be imported</h3>
            <ul class="rows">
              ${importable.map(
                ({ entry, url, fromMcpRemote }) =>
                  html`<li>
                    <div>
                      <p dir="auto">${entry}</p>
                      <p class="help">
                        <span class="mono">${address(url)}</span><br />${
                          fromMcpRemote ? 'Uses mcp-remote.' : 'Contains a secret in plain text.'
                        }
                      </p>
                    </div>
                    <button
                      type="button"
                      aria-label=${`Import ${entry} of ${title}`}
                      ?disabled=${busy.has(id)}
                      @click=${() => act(id, ask('importEntry', { assistant: id, entry }))}
                    >
                      Import
                    </button>
                  </li>`,
              )}
            </ul>`
    }
  </li>`;
}

function rows(one: AssistantView): TemplateResult {
  const own = overview?.connections.filter((each) => each.own).map(({ name }) => name) ?? [];
  const names = [...new Set([...own, ...one.installed])];
  if (names.length === 0) return html`<p class="help">Add a connection first.</p>`;
  return html`<ul class="rows">
    ${repeat(
      names,
      (name) => name,
      (name) => row(one, name),
    )}
  </ul>`;
}

function row({ id, title, installed }: AssistantView, name: string): TemplateResult {
  const there = installed.includes(name);
  return html`<li>
    <div>
      <p dir="auto">${name}</p>
      <p class="help">${there ? `Installed.` : 'Not installed.'}</p>
    </div>
    <button
      type="button"
      class=${there ? 'quiet' : ''}
      aria-label=${`${there ? 'Remove' : 'Install'} ${name} ${there ? 'from' : 'in'} ${title}`}
      ?disabled=${busy.has(id)}
      @click=${() => change(there ? 'uninstall' : 'install', id, name)}
    >
      ${there ? 'Remove' : 'Install'}
    </button>
  </li>`;
}

onOverview((changed) => {
  overview = changed;
  draw();
});
void look();
// The user comes back from an editor, or from another program that changed the file.
window.addEventListener('focus', () => void look());

import type { z } from 'zod';
import type { toolPreview } from '#admin/tool-rules';
import type { Form } from '#oauth/forms';
import { hiddenField, postForm } from '#web/forms';
import { html, type Html } from '#web/html';
import { type Frame, layout } from '#web/layout';
import { type Titled, titleText } from '#web/titles';
import { counted } from './questions.ts';

type Preview = z.output<typeof toolPreview.output>;
type Affected = Preview['gains']['people'];
type Caller = Affected['callers'][number];

interface ToolPreviewPageData {
  readonly heading: string;
  readonly server: Titled;
  readonly preview: Preview;
  readonly action: string;
  /** The fields that the matrix sent; they are sent again with the answer. */
  readonly fields: Form;
}

/** Shows who gains and who loses access by a change of the matrix, before it is saved. */
export function toolPreviewPage(data: ToolPreviewPageData, frame: Frame): Html {
  const { heading, server, preview, action, fields } = data;
  const kept = [...fields].filter(([name]) => !['csrf_token', 'step'].includes(name));
  const answer = html`${kept.map(([name, value]) => hiddenField(name, value))}
<div class="actions"><button class="primary" name="step" value="save">Save change</button><button name="step" value="edit">Go back</button></div>`;
  const content = html`<div>
<h1>${heading}</h1>
<p class="lead">Nothing is saved yet. The change to ${titleText(server)} takes effect on the next call.</p>
</div>
${side('Lose access', 'loses', preview.loses)}
${side('Gain access', 'gains', preview.gains)}
${postForm(frame, { action }, answer)}`;
  return layout({ title: heading, width: 'text' }, frame, content);
}

const callerKinds = [
  { kind: 'people', one: 'person', several: 'people' },
  { kind: 'keys', one: 'API key', several: 'API keys' },
  { kind: 'clients', one: 'OAuth client', several: 'OAuth clients' },
  { kind: 'grants', one: 'application of a person', several: 'applications of people' },
] as const;

function side(heading: string, id: string, affected: Preview['gains']): Html {
  const some = callerKinds.filter(({ kind }) => affected[kind].count > 0);
  return html`<section class="section" aria-labelledby="${id}-heading">
<h2 id="${id}-heading">${heading}</h2>
${some.length === 0 && html`<p class="help">No one.</p>`}
${some.map(({ kind, one, several }) => callers(affected[kind], { one, several, isOpen: kind !== 'grants' }))}
</section>`;
}

function callers(
  { count, callers: named }: Affected,
  {
    one,
    several,
    isOpen,
  }: { readonly one: string; readonly several: string; readonly isOpen: boolean },
): Html {
  const more = count - named.length;
  return html`<details${isOpen && html` open`}>
<summary>${counted(count, one, several)}</summary>
<ul class="rows">
${named.map((caller) => html`<li>${callerLine(caller)}</li>`)}
${more > 0 && html`<li>${more} more</li>`}
</ul>
</details>`;
}

function callerLine({ name, email, count, items }: Caller): Html {
  const more = count - items.length;
  return html`<div>
<p><strong dir="auto">${name}</strong>${email !== null && html` <span class="soft">for</span> <span dir="auto">${email}</span>`}</p>
<ul class="names">
${items.map(({ name: own }) => html`<li>${own === '' ? 'all other resources' : html`<code dir="auto">${own}</code>`}</li>`)}
${more > 0 && html`<li class="soft">${more} more</li>`}
</ul>
</div>`;
}

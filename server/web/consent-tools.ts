import { toolSelection } from '#admin/tool-selection';
import type { ToolSelection } from '#model/tool-rights';
import type { Form } from '#oauth/forms';
import { postForm } from './forms.ts';
import { html, type Html } from './html.ts';
import type { Frame } from './layout.ts';
import { selectionOf, sentNames, toolBoxes } from './tool-choice.ts';
import { readingWords, type UsableTools } from './usable-tools.ts';

// The answers of the consent page: allow everything, only reading or chosen tools, or deny.

const name = 'tools';

/** The answer of a person; `nothing-chosen` if they wanted to choose tools and chose none. */
export type ConsentAnswer =
  | { readonly outcome: 'decided'; readonly allow: boolean; readonly tools?: ToolSelection }
  | { readonly outcome: 'nothing-chosen' };

/** Reads the answer. Anything that is not clearly allowed is denied. */
export function consentAnswer(form: Form): ConsentAnswer {
  const decision = form.get('decision');
  if (decision === 'allow') return { outcome: 'decided', allow: true };
  if (decision === 'read-only') {
    return { outcome: 'decided', allow: true, tools: { type: 'read-only' } };
  }
  if (decision !== 'chosen') return { outcome: 'decided', allow: false };
  const tools = toolSelection.safeParse(selectionOf(['chosen', ...sentNames(form, name)]));
  return tools.success
    ? { outcome: 'decided', allow: true, tools: tools.data }
    : { outcome: 'nothing-chosen' };
}

/** The data that the forms of a consent page show and send. */
export interface Answers {
  /** Where the answer is posted. */
  readonly action: string;
  /** Hidden fields that every form sends. */
  readonly kept: Html;
  /** The tools that can be limited; `undefined` if the application asks for no tools. */
  readonly usable: UsableTools | undefined;
  /** Whether the person wanted to choose tools and chose none. */
  readonly isNothingChosen: boolean;
}

/**
 * The forms of the consent page. Each answer is a button, so that they work without scripts. Choosing has a form of its own: the Enter
 * key, pressed in a box, submits the first button of a form, which must not be the one that allows everything.
 */
export function consentForms(
  frame: Frame,
  { action, kept, usable, isNothingChosen }: Answers,
): Html {
  const decide = (value: string, text: string, isPrimary = false) =>
    html`<button${isPrimary && html` class="primary"`} name="decision" value="${value}">${text}</button>`;
  const [allow, deny] = [decide('allow', 'Allow', true), decide('deny', 'Deny')];
  if (!usable) {
    return postForm(
      frame,
      { action },
      html`${kept}
<div class="actions even">${allow} ${deny}</div>`,
    );
  }
  const answers = html`${kept}
<p class="help"><strong>Allow only reading:</strong> ${readingWords(usable)} You can change that later on your account page.</p>
<div class="actions even">${allow} ${decide('read-only', 'Allow only reading')} ${deny}</div>`;
  const choose = html`${kept}
${isNothingChosen && html`<p class="error" role="alert">Choose at least one, or allow only reading.</p>`}
${toolBoxes({ name, items: usable.items, entered: [] })}
<div class="actions">${decide('chosen', 'Allow chosen tools')}</div>`;
  return html`${postForm(frame, { action }, answers)}
${
  usable.items.length > 0 &&
  html`<details class="other"${isNothingChosen && html` open`}>
<summary>Choose tools</summary>
${postForm(frame, { action }, choose)}
</details>`
}`;
}

import type { Permission } from '#admin/operation';
import { hiddenField, postForm, textField } from '#web/forms';
import { html, type Html } from '#web/html';
import { type Crumb, type Frame, layout } from '#web/layout';
import { seeOther } from '#web/page-request';
import type { DashboardGuard, DashboardRequest, DashboardVisit } from './guard.ts';
import { sendDashboardPage } from './page.ts';
import type { DashboardOptions } from './ports.ts';

/** A confirmation before something is destroyed or resumed. */
interface QuestionPageData {
  /** As `Revoke the API key “Nightly report”?`. */
  readonly heading: string;
  /** The consequences, with counts, one sentence each. */
  readonly consequences: readonly string[];
  /** Where the confirmation is posted. */
  readonly action: string;
  /** The label of the button: `Revoke key`. */
  readonly verb: string;
  /** Whether nothing stops working; then the button is not red. */
  readonly isHarmless?: boolean;
  /** Where the cancel link leads. */
  readonly cancel: string;
  /** Text that the person must type to confirm, if a mistake would be costly. */
  readonly typed?: TypedConfirmation | undefined;
  /** Fields of the form that led here, posted again with the confirmation. */
  readonly kept?: Readonly<Record<string, string>>;
}

interface TypedConfirmation {
  readonly label: string;
  readonly expected: string;
  /** The text that was typed instead. */
  readonly value?: string;
  readonly error: string | undefined;
}

/** A confirmation page, shown as a dialog if scripts run. */
export function questionPage(data: QuestionPageData, frame: Frame): Html {
  const { heading, consequences, action, verb, isHarmless, cancel, typed, kept = {} } = data;
  const confirmation =
    typed &&
    textField({
      name: 'typed',
      label: typed.label,
      value: typed.value ?? '',
      error: typed.error,
      attributes: html`autocomplete="off" spellcheck="false"`,
    });
  const hidden = Object.entries(kept).map(([name, value]) => hiddenField(name, value));
  const fields = html`${hidden}${confirmation}
<div class="actions"><button class="${isHarmless ? 'primary' : 'danger strong'}">${verb}</button><a class="button" href="${cancel}" data-cancel>Cancel</a></div>`;
  const content = html`<div id="question" class="group">
<h1 id="question-heading">${heading}</h1>
<ul class="consequences">
${consequences.map((text) => html`<li>${text}</li>`)}
</ul>
${postForm(frame, { action }, fields)}
</div>`;
  return layout({ title: heading, width: 'form' }, frame, content);
}

/** A confirmation page and its action. */
export interface Question {
  /** @throws {AdministrationRefusal} */
  readonly ask: (
    visit: DashboardVisit,
    request: DashboardRequest,
    options: DashboardOptions,
  ) => Promise<Omit<QuestionPageData, 'action'> & { readonly crumbs: readonly Crumb[] }>;
  /** Returns where to go afterwards. @throws {AdministrationRefusal} */
  readonly act: (
    visit: DashboardVisit,
    request: DashboardRequest,
    options: DashboardOptions,
  ) => Promise<string>;
}

/**
 * `GET` asks, and `POST` of the same path acts. If the question requires typed text, the action requires the same text.
 */
export function questionRoutes(
  guard: DashboardGuard,
  path: string,
  needs: Permission,
  { ask, act }: Question,
): void {
  guard.get(path, needs, async (visit, request, reply, options) => {
    const { crumbs, ...question } = await ask(visit, request, options);
    const data = { ...question, action: request.url };
    return sendDashboardPage(reply, visit, questionPage, data, { crumbs });
  });
  guard.post(path, needs, async (visit, form, request, reply, options) => {
    const { crumbs, ...question } = await ask(visit, request, options);
    const { typed } = question;
    const value = form.get('typed')?.trim().slice(0, 200) ?? '';
    if (typed && value !== typed.expected) {
      const error = `Enter exactly ${typed.expected}. Nothing was changed.`;
      const data = { ...question, action: request.url, typed: { ...typed, error, value } };
      return sendDashboardPage(reply, visit, questionPage, data, { crumbs, status: 422 });
    }
    return seeOther(reply, await act(visit, request, options));
  });
}

/** `1 API key`, `3 API keys`, `no API keys`. */
export function counted(count: number, one: string, several = `${one}s`): string {
  if (count === 0) return `no ${several}`;
  return `${count} ${count === 1 ? one : several}`;
}

/** `Claude`, `Claude and Cursor`, `Claude, Cursor and Zed`. */
export function inWords(names: readonly string[]): string {
  return names.length < 2
    ? names.join('')
    : `${names.slice(0, -1).join(', ')} and ${names.at(-1) ?? ''}`;
}

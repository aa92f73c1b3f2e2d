import type { FastifyReply } from 'fastify';
import type { z } from 'zod';

import { surfaces, type FieldControl } from '#admin/fields';
import type { Operation } from '#admin/operation';
import { AdministrationRefusal } from '#admin/refusal';
import type { Form } from '#oauth/forms';
import { allScopes, isScope, type Scope } from '#oauth/scopes';
import { scopeSentence, type ScopeSentence } from '#web/consent';
import {
  checkboxes,
  errorOf,
  errorSummary,
  formActions,
  postForm,
  selectField,
  textField,
  type ExplainedChoice,
  type FieldError,
} from '#web/forms';
import { html, type Html } from '#web/html';
import { layout, pageHeading, type Crumb, type Frame } from '#web/layout';
import type { DashboardGuard, DashboardRequest, DashboardVisit, PageNeeds } from './guard.ts';
import { sendDashboardPage } from './page.ts';

/** What was entered in a form, by the names of its controls. */
export type Entered = Readonly<Record<string, string | readonly string[]>>;

/** The form of an operation, as its fields declare their controls. */
export interface OperationForm {
  /** What it shows at first. */
  readonly blank: Entered;
  readonly read: (sent: Form) => Entered;
  /** The operation's input; what may be omitted is, where nothing was entered. */
  readonly inputOf: (entered: Entered) => Readonly<Record<string, unknown>>;
  /** What it says of a refusal; see `refusedForm`. */
  readonly errorsOf: (refusal: unknown, conflict?: string) => FieldError[];
  /** Its fields; the first has the focus unless something is wrong, or `focus` is false. */
  readonly fields: (
    entered: Entered,
    errors: readonly FieldError[],
    options?: { readonly focus?: boolean },
  ) => Html;
}

interface Control {
  readonly field: string;
  readonly name: string;
  readonly isOptional: boolean;
  readonly control: FieldControl;
}

/** The form of an operation: a control for each field of its input that declares one. */
export function formFor({ input }: Pick<Operation, 'input'>): OperationForm {
  const controls = Object.entries<z.ZodType>(input.shape).flatMap(([field, schema]): Control[] => {
    const control = surfaces.get(schema)?.control;
    const isOptional = schema.safeParse(undefined).success;
    return control ? [{ field, name: control.name ?? field, isOptional, control }] : [];
  });
  const labels = Object.fromEntries(
    controls.map(({ field, name, control: { label, subject = label } }) => [
      field,
      { field: name, label: subject },
    ]),
  );
  return {
    blank: Object.fromEntries(controls.map(({ name, control }) => [name, blankOf(control)])),
    read: (sent) =>
      Object.fromEntries(controls.map(({ name, control }) => [name, sentOf(control, name, sent)])),
    inputOf: (entered) =>
      Object.fromEntries(
        controls.flatMap(({ field, name, isOptional }) => {
          const value = entered[name] ?? '';
          const given = typeof value === 'string' ? value.trim() : value;
          return isOptional && given === '' ? [] : [[field, given]];
        }),
      ),
    errorsOf: (refusal, conflict) => refusedForm(refusal, labels, conflict),
    fields: (entered, errors, { focus = true } = {}) =>
      html`${controls.map((control, index) => {
        const hasFocus = focus && index === 0 && errors.length === 0;
        return html`${index > 0 && ' '}${controlField(control, entered, errors, hasFocus)}`;
      })}`,
  };
}

function blankOf(control: FieldControl): string | readonly string[] {
  switch (control.kind) {
    case 'text':
      return '';
    case 'select':
      return control.chosen ?? control.choices[0]?.value ?? '';
    case 'scopes':
      return control.chosen;
  }
}

function sentOf({ kind }: FieldControl, name: string, sent: Form): string | readonly string[] {
  if (kind === 'scopes') return checkedValues(sent, name).filter(isScope);
  return sent.get(name) ?? '';
}

function controlField(
  { name, isOptional, control }: Control,
  entered: Entered,
  errors: readonly FieldError[],
  focus: boolean,
): Html {
  const { label, help = '' } = control;
  const value = entered[name] ?? '';
  const field = { name, label, error: errorOf(errors, name), ...(help && { help }) };
  switch (control.kind) {
    case 'text': {
      const attributes = Object.entries(control.attributes ?? {});
      return textField({
        ...field,
        value: String(value),
        focus,
        optional: isOptional,
        attributes: html`${attributes.map(([attribute, text], index) => html`${index > 0 && ' '}${attribute}="${text}"`)}`,
      });
    }
    case 'select':
      return selectField({
        ...field,
        options: control.choices.map((choice) => ({
          ...choice,
          isChosen: choice.value === value,
        })),
      });
    case 'scopes':
      return checkboxes({
        ...field,
        legend: label,
        options: scopeOptions(allScopes.filter((scope) => value.includes(scope))),
      });
  }
}

/** The page that a form stands on. */
interface FormPage {
  readonly heading: string;
  readonly lead: string;
  /** The title while something is wrong: `Not created yet`. */
  readonly refused: string;
  /** What its button does. */
  readonly verb: string;
  /** Where to go instead. */
  readonly cancel: string;
  readonly crumbs: readonly Crumb[];
}

interface FormPageData extends FormPage {
  readonly action: string;
  readonly fields: Html;
  readonly errors: readonly FieldError[];
}

function formPage(data: FormPageData, frame: Frame): Html {
  const { heading, lead, refused, verb, cancel, action, fields, errors } = data;
  const content = html`${pageHeading({ heading, lead })}
${errorSummary(errors)}
${postForm(frame, { action, novalidate: true }, html`${fields} ${formActions(verb, cancel)}`)}`;
  return layout({ title: errors.length > 0 ? refused : heading, width: 'form' }, frame, content);
}

/** A form on a page of its own, and what sending it does. */
interface FormRoutes {
  readonly form: OperationForm;
  /** The control that a conflict is about. */
  readonly conflict?: string;
  /** @throws {AdministrationRefusal} */
  readonly page: (visit: DashboardVisit, request: DashboardRequest) => FormPage | Promise<FormPage>;
  /**
   * Does it with what was entered, and answers.
   *
   * @throws {AdministrationRefusal}
   */
  readonly act: (
    visit: DashboardVisit,
    input: Readonly<Record<string, unknown>>,
    request: DashboardRequest,
    reply: FastifyReply,
  ) => Promise<FastifyReply>;
}

/** `GET` shows a form, `POST` of the same path sends it; what is wrong is shown beside what was entered. */
export function formRoutes(
  guard: DashboardGuard,
  path: string,
  needs: PageNeeds,
  { form, conflict, page, act }: FormRoutes,
): void {
  const show = async (
    visit: DashboardVisit,
    request: DashboardRequest,
    reply: FastifyReply,
    entered: Entered,
    errors: readonly FieldError[],
  ) => {
    const { crumbs, ...shown } = await page(visit, request);
    const fields = form.fields(entered, errors);
    const data = { ...shown, crumbs, action: request.url, fields, errors };
    const status = errors.length > 0 ? 422 : 200;
    return sendDashboardPage(reply, visit, formPage, data, { crumbs, status });
  };
  guard.get(path, needs, (visit, request, reply) => show(visit, request, reply, form.blank, []));
  guard.post(path, needs, async (visit, sent, request, reply) => {
    const entered = form.read(sent);
    try {
      return await act(visit, form.inputOf(entered), request, reply);
    } catch (refusal) {
      return show(visit, request, reply, entered, form.errorsOf(refusal, conflict));
    }
  });
}

/**
 * Converts a refusal that the user can correct into field errors; anything else goes on to the error page. `labels`
 * names each form field by the operation's input field; `conflict` is the field to mark on a conflict.
 *
 * @throws `refusal` if it is about no field
 */
export function refusedForm(
  refusal: unknown,
  labels: Readonly<Record<string, { readonly field: string; readonly label: string }>>,
  conflict?: string,
): FieldError[] {
  if (!(refusal instanceof AdministrationRefusal)) throw refusal;
  if (refusal.code === 'conflict' && conflict !== undefined) {
    return [{ field: conflict, message: sentence(refusal.message) }];
  }
  if (refusal.code !== 'invalid') throw refusal;
  return refusal.fields.map(({ field, problem }) => {
    const known = labels[field] ?? labels[field.split('.')[0] ?? ''];
    const message = sentence(`${known?.label ?? field} ${problem}`.trim());
    return { field: known?.field ?? '', message };
  });
}

function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}

/** The checked boxes `{name}.{value}` of a form, in order. */
export function checkedValues(form: Form, name: string): string[] {
  const start = `${name}.`;
  return [...form.keys()]
    .filter((field) => field.startsWith(start))
    .map((field) => field.slice(start.length));
}

/** All scopes in words, for `checkboxes`, with the risky ones marked. */
export function scopeOptions(chosen: readonly Scope[]): ExplainedChoice[] {
  return allScopes.map((scope) => {
    const { text, risk } = scopeWords(scope);
    return { value: scope, text, help: scope, risk, isChosen: chosen.includes(scope) };
  });
}

export function checkedScopes(form: Form): Scope[] {
  return allScopes.filter((scope) => form.has(`scopes.${scope}`));
}

/** What a scope allows a client or key to do: the sentence of the consent page, without the person. */
export function scopeWords(scope: Scope): ScopeSentence {
  const { text, risk } = scopeSentence(scope);
  return { text: text.replace(' in your name', ''), risk };
}

export function scopeList(scopes: readonly ScopeSentence[]): Html {
  return html`<ul class="rows">
${scopes.map(
  ({ text, risk }) =>
    html`<li>
<div>${text}</div>
${risk && html`<span class="badge care">Sensitive</span>`}
</li>`,
)}
</ul>`;
}

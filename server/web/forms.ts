import { html, type Html } from './html.ts';

/** An error in a field of a form; `field` is empty if no single field is at fault. */
export interface FieldError {
  readonly field: string;
  readonly message: string;
}

/** The message for one field, `''` if there is none. */
export function errorOf(errors: readonly FieldError[], field: string): string {
  return errors.find((error) => error.field === field)?.message ?? '';
}

/** Lists the errors at the top of a form and receives the focus. */
export function errorSummary(errors: readonly FieldError[]): Html | undefined {
  if (errors.length === 0) return undefined;
  return html`<div class="summary" role="alert" tabindex="-1" autofocus>
<p><strong>Fix the following:</strong></p>
<ul>
${errors.map(({ field, message }) => html`<li>${field ? html`<a href="#${field}">${message}</a>` : message}</li>`)}
</ul>
</div>`;
}

/** The data that a form that changes something needs from the page around it. */
interface FormFrame {
  readonly csrfToken: string | undefined;
}

/** Proves that one of our pages sent a form to this browser. */
export function csrfField({ csrfToken }: FormFrame): Html | undefined {
  if (csrfToken === undefined) return undefined;
  return html`<input type="hidden" name="csrf_token" value="${csrfToken}">`;
}

/** A field that is not shown. Line breaks become line feeds in the page; browsers send them as CR LF again. */
export function hiddenField(name: string, value: string | number): Html {
  const text = String(value).replaceAll(/\r\n?/g, '\n');
  return html`<input type="hidden" name="${name}" value="${text}">`;
}

interface PostForm {
  readonly action: string;
  readonly novalidate?: boolean;
  readonly className?: string;
}

/**
 * A form that changes something: a POST with the CSRF token. `novalidate` turns off the browser's validation, because
 * the server's messages say more.
 */
export function postForm(
  frame: FormFrame,
  { action, novalidate = false, className }: PostForm,
  content: Html,
): Html {
  return html`<form${className && html` class="${className}"`} method="post" action="${action}"${novalidate && html` novalidate`}>
${csrfField(frame)}
${content}
</form>`;
}

/** The options of every kind of field. */
interface FieldOptions {
  readonly name: string;
  readonly label: string;
  readonly help?: string;
  readonly error?: string | undefined;
}

interface TextField extends FieldOptions {
  /** As in HTML; default `text`. */
  readonly type?: 'text' | 'email' | 'password' | 'url' | 'date';
  readonly value?: string;
  readonly autocomplete?: string;
  /** Whether it takes the focus when the page is shown. */
  readonly focus?: boolean;
  /** Whether it may be left empty; `unmarked` does not say so on the page. */
  readonly optional?: boolean | 'unmarked';
  readonly attributes?: Html;
}

export function textField(field: TextField): Html {
  const { name, label, help, error, type = 'text', value, autocomplete, focus, optional } = field;
  const { attributes } = field;
  return html`<div class="field${error && ' wrong'}">
<label for="${name}">${label}${optional === true && optionalMark}</label>
<input id="${name}" name="${name}" type="${type}" value="${value}"${autocomplete && html` autocomplete="${autocomplete}"`}${descriptionAttributes(name, field)}${focus && html` autofocus`}${attributes && html` ${attributes}`}${!optional && html` required`} dir="auto">
${errorText(name, error)}
${helpText(name, help)}
</div>`;
}

/** The fields `password` and `repeated`. `kept` is a valid password that stays in the form because of an error in another field. */
export function newPasswordFields({
  error,
  kept = '',
  focus = false,
}: {
  readonly error: string | undefined;
  readonly kept?: string | undefined;
  readonly focus?: boolean;
}): Html {
  return html`${textField({
    name: 'password',
    label: 'New password',
    type: 'password',
    value: kept,
    autocomplete: 'new-password',
    error,
    focus,
    help: 'At least 12 characters. A sentence is easy to remember.',
  })}
${textField({ name: 'repeated', label: 'Confirm new password', type: 'password', value: kept, autocomplete: 'new-password' })}`;
}

interface TextArea extends FieldOptions {
  readonly value: string;
  /** Default 3. */
  readonly rows?: number;
  readonly optional?: boolean;
  readonly attributes?: Html;
}

export function textArea(field: TextArea): Html {
  const { name, label, help, error, value, rows = 3, optional, attributes } = field;
  // HTML drops a line feed after the opening tag, so the value begins after one.
  return html`<div class="field${error && ' wrong'}">
<label for="${name}">${label}${optional && optionalMark}</label>
<textarea id="${name}" name="${name}" rows="${rows}" ${descriptionAttributes(name, field)}${attributes && html` ${attributes}`} dir="auto">
${value.replaceAll('\r\n', '\n')}</textarea>
${errorText(name, error)}
${helpText(name, help)}
</div>`;
}

/** One of the values that a field offers. */
export interface Choice {
  readonly value: string;
  readonly text: string;
  readonly isChosen: boolean;
}

export function selectField(field: FieldOptions & { readonly options: readonly Choice[] }): Html {
  const { name, label, help, error, options } = field;
  return html`<div class="field${error && ' wrong'}">
<label for="${name}">${label}</label>
<select id="${name}" name="${name}" ${descriptionAttributes(name, field)}>
${selectOptions(options)}
</select>
${errorText(name, error)}
${helpText(name, help)}
</div>`;
}

export function selectOptions(options: readonly Choice[]): Html {
  return html`${options.map(({ value, text, isChosen }) => html`<option value="${value}"${isChosen && html` selected`}>${text}</option>`)}`;
}

/** A choice with an explanation; risky ones are marked. */
export interface ExplainedChoice extends Choice {
  readonly help?: string;
  readonly risk?: string | undefined;
}

interface OptionsField extends Omit<FieldOptions, 'label'> {
  readonly legend: string;
  readonly options: readonly ExplainedChoice[];
}

/** Several options can be chosen, each in a field of its own, `name.value`. */
export function checkboxes(field: OptionsField): Html {
  return optionsField(field, 'checkbox');
}

/** One option can be chosen. */
export function radioButtons(field: OptionsField): Html {
  return optionsField(field, 'radio');
}

function optionsField(field: OptionsField, type: 'checkbox' | 'radio'): Html {
  const { name, legend, help, error, options } = field;
  const described = describedBy(name, field);
  return html`<fieldset class="options${error && ' wrong'}" id="${name}" tabindex="-1"${described && html` aria-describedby="${described}"`}>
<legend>${legend}</legend>
${errorText(name, error)}
${options.map(({ value, text, help: optionHelp, risk, isChosen }) => {
  const id = `${name}-${value.replaceAll(/[^a-z0-9]/gi, '-')}`;
  const hasHelp = Boolean(optionHelp || risk);
  return html`<div class="option">
<input type="${type}" name="${type === 'radio' ? name : `${name}.${value}`}" id="${id}" value="${value}"${hasHelp && html` aria-describedby="${id}-help"`}${isChosen && html` checked`}>
<div>
<label for="${id}">${text}</label>${risk && html` <span class="badge care">Sensitive</span>`}
${hasHelp && html`<p class="help" id="${id}-help">${optionHelp}${risk && html`<br>${risk}`}</p>`}
</div>
</div>`;
})}
${helpText(name, help)}
</fieldset>`;
}

/** The primary button of a form, named by its verb, and the cancel link. */
export function formActions(verb: string, cancel: string): Html {
  return html`<div class="actions"><button class="primary">${verb}</button><a class="button" href="${cancel}">Cancel</a></div>`;
}

const optionalMark = html` <span class="optional">(optional)</span>`;

type Described = Pick<FieldOptions, 'help' | 'error'>;

/** Ids of the elements that describe a field; `''` if there are none. */
function describedBy(id: string, { help, error }: Described): string {
  return [help && `${id}-help`, error && `${id}-error`].filter(Boolean).join(' ');
}

/** Attributes that associate a field with its help and error. */
export function descriptionAttributes(id: string, field: Described): Html {
  const described = describedBy(id, field);
  return html`${described && html` aria-describedby="${described}"`}${field.error && html` aria-invalid="true"`}`;
}

export function errorText(id: string, error: string | undefined): Html | undefined {
  return error ? html`<p class="error" id="${id}-error">${error}</p>` : undefined;
}

function helpText(id: string, help: string | undefined): Html | undefined {
  return help ? html`<p class="help" id="${id}-help">${help}</p>` : undefined;
}

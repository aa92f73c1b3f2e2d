import { z } from 'zod';
import { surfaces, type FieldChoice, type FieldControl } from '#admin/fields';
import type { Operation } from '#admin/operation';
import { AdministrationRefusal } from '#admin/refusal';
import type { Form } from '#oauth/forms';
import { isScope } from '#model/scopes';
import { toolSelectionSchema } from '#model/tool-rights';
import {
  checkboxes,
  errorOf,
  radioButtons,
  selectField,
  textArea,
  textField,
  type ExplainedChoice,
  type FieldError,
} from '#web/forms';
import { html, type Html } from '#web/html';
import {
  clientWords,
  enteredTools,
  selectionOf,
  sentTools,
  toolChoiceField,
  type ToolChoiceHere,
} from '#web/tool-choice';
import { scopeOptions } from './scope-words.ts';

/** What was entered in a form, by the names of its controls. */
export type Entered = Readonly<Record<string, EnteredValue>>;
type EnteredValue = string | readonly string[] | boolean;

/** Overrides for a control on one page. */
export interface ControlHere {
  readonly help?: string;
  /** Added to the help that the field declares. */
  readonly note?: string | undefined;
  readonly choices?: readonly FieldChoice[];
  /** The tools, prompts and resources to choose from, for a control of the kind `tools`. */
  readonly tools?: ToolChoiceHere;
  /** Shown before the control. */
  readonly before?: Html;
}

export interface FieldsOptions {
  /** The names of the controls that are shown; all unless given. */
  readonly only?: readonly string[];
  /** The control that has the focus unless there are errors; `true`, the default, means the first one. */
  readonly focus?: boolean | string;
  /** Overrides by the names of controls. */
  readonly here?: Readonly<Record<string, ControlHere>>;
}

/** The entered values, their errors, and messages, which a page shows in addition to the stored values. */
export interface FormState {
  readonly entered?: Entered;
  readonly errors?: readonly FieldError[];
  readonly notice?: string | undefined;
  /** A message about a failure that no entered value caused. */
  readonly warning?: string | undefined;
}

interface Control {
  /** Its path in the input, as `limits.callSeconds`; `undefined` for a choice that only the form has. */
  readonly field: string | undefined;
  readonly name: string;
  readonly isOptional: boolean;
  readonly control: FieldControl;
}

/**
 * The form of an operation: a control for each field of its input that declares one. The fields in `first` come first,
 * then the others in the order of the input.
 */
export function formFor({ input }: Pick<Operation, 'input'>, first: readonly string[] = []) {
  const names = [...new Set([...first, ...Object.keys(input.shape)])];
  const controls = names.flatMap((field) => controlsOf(field, input.shape[field]));
  const byName = (valueOf: (one: Control) => EnteredValue): Entered =>
    Object.fromEntries(controls.map((one) => [one.name, valueOf(one)]));
  const form = {
    /** The initial values of an empty form. */
    blank: byName(({ control }) => blankOf(control)),
    /** The values of a record that has the fields of the input. */
    filled(record: object): Entered {
      return byName(({ field, control }) =>
        enteredValueOf(control, field && valueAt(record, field)),
      );
    },
    read: (sent: Form) => byName((one) => sentOf(one, sent)),
    /** The operation's input. Optional fields without a value are omitted. */
    inputOf: (entered: Entered) =>
      nested(
        controls.flatMap(({ field, name, isOptional, control }) => {
          const value = entered[name] ?? '';
          const isOmitted = isOptional && isEmpty(control, value);
          if (field === undefined || isOmitted || !isWanted(control, entered)) return [];
          return [[field, inputValue(control, value)] as const];
        }),
      ),
    /** The errors to show for a refusal; see `refusedForm`. `others`: labels of fields that have no control in this form. */
    errorsOf(
      refusal: unknown,
      entered: Entered,
      conflict?: string,
      others: Labels = {},
    ): FieldError[] {
      const labels = { ...others, ...labelsOf(controls, entered) };
      const errors = refusedForm(refusal, labels, conflict);
      return [...new Map(errors.map((one) => [`${one.field} ${one.message}`, one])).values()];
    },
    fields(
      entered: Entered,
      errors: readonly FieldError[],
      { only, focus = true, here = {} }: FieldsOptions = {},
    ): Html {
      const shown = controls
        .filter(({ name }) => only?.includes(name) ?? true)
        .map((one) => onPage(one, here[one.name]))
        .filter(hasChoices);
      const focused = focus === true ? shown[0]?.name : focus;
      const rows = chunked(shown, ({ name, control }) => errorField(name, control));
      const rowHtml = (row: readonly [Control, ...Control[]]) => {
        const [{ name }] = row;
        const hasFocus = errors.length === 0 && name === focused;
        const tools = here[name]?.tools;
        return html`${here[name]?.before}${rowField(row, entered, { errors, hasFocus, tools })}`;
      };
      const parts = chunked(rows, ([{ control }]) => control.when?.part ?? '');
      return spaced(
        parts.map((part) => {
          const content = spaced(part.map(rowHtml));
          const name = part[0][0].control.when?.part;
          return name === undefined ? content : html`<div class="for-${name}">${content}</div>`;
        }),
      );
    },
    /**
     * Reads what was sent and performs an operation with it. Returns `undefined` when it is done, or what the page shows again if the
     * operation refuses for a reason that the user can correct. `conflict` as in `refusedForm`.
     */
    async submit(
      { sent, conflict }: { readonly sent: Form; readonly conflict?: string },
      act: (input: Readonly<Record<string, unknown>>) => Promise<unknown>,
    ): Promise<Required<Pick<FormState, 'entered' | 'errors'>> | undefined> {
      const entered = form.read(sent);
      try {
        await act(form.inputOf(entered));
        return undefined;
      } catch (refusal) {
        return { entered, errors: form.errorsOf(refusal, entered, conflict) };
      }
    },
  };
  return form;
}

/** The form of an operation, derived from the controls that its fields declare. */
export type OperationForm = ReturnType<typeof formFor>;

function valueAt(record: object, field: string): unknown {
  return field
    .split('.')
    .reduce<unknown>((value, name) => new Map(Object.entries(Object(value))).get(name), record);
}

/** An object of the values at these paths. */
function nested(
  values: readonly (readonly [string, unknown])[],
): Readonly<Record<string, unknown>> {
  const groups = Map.groupBy(values, ([field]) => field.split('.', 1)[0] ?? '');
  return Object.fromEntries(
    [...groups].map(([name, of]) => {
      const [first] = of;
      if (first?.[0] === name) return [name, first[1]];
      return [name, nested(of.map(([field, value]) => [field.slice(name.length + 1), value]))];
    }),
  );
}

/** The control of a field, after the choice on which it depends; or the controls of the fields inside an object. */
function controlsOf(field: string, schema: z.ZodType | undefined): Control[] {
  if (!schema) return [];
  const declared = declaredControl(schema);
  if (!declared) {
    const object = unwrapped(schema);
    if (!(object instanceof z.ZodObject)) return [];
    return Object.entries<z.ZodType>(object.shape).flatMap(([name, inner]) =>
      controlsOf(`${field}.${name}`, inner),
    );
  }
  const { control, isOptional } = declared;
  const given = control.name ?? field.split('.').at(-1) ?? field;
  const name = control.kind === 'checkbox' ? `${control.group.name}.${given}` : given;
  const own = { field, name, isOptional, control };
  const choice = control.when?.choice;
  if (choice === undefined || typeof choice === 'string') return [own];
  const { label, choices } = choice;
  const ofForm = { kind: 'radio', label, choices } as const;
  return [{ field: undefined, name: choice.name, isOptional: false, control: ofForm }, own];
}

/**
 * The control that a schema, or else the schema inside an optional one, declares. In the latter case the form requires
 * the value: an operation that changes a record may omit it, but a form shows the value of the record.
 */
function declaredControl(
  schema: z.ZodType,
): { readonly control: FieldControl; readonly isOptional: boolean } | undefined {
  const control = surfaces.get(schema)?.control;
  if (control) {
    const isOptional = control.optional !== false && schema.safeParse(undefined).success;
    return { control, isOptional };
  }
  const inner = unwrapped(schema);
  return inner === schema ? undefined : declaredControl(inner);
}

/** The schema inside an optional one; any other schema as it is. */
function unwrapped(schema: z.ZodType): z.ZodType {
  const isWrapped = schema instanceof z.ZodOptional || schema instanceof z.ZodDefault;
  const inner = isWrapped ? schema.unwrap() : schema;
  return inner instanceof z.ZodType ? inner : schema;
}

/** The control with the overrides of one page. */
function onPage(one: Control, here: ControlHere = {}): Control {
  const { help = one.control.help, note, choices } = here;
  const words = [help, note].filter((text) => text !== undefined).join(' ');
  const changed = { ...one.control, ...(words !== '' && { help: words }) };
  const control = choices && 'choices' in changed ? { ...changed, choices } : changed;
  return { ...one, control };
}

function hasChoices({ control }: Control): boolean {
  return control.kind !== 'checkboxes' || control.choices.length > 0;
}

function blankOf(control: FieldControl): EnteredValue {
  switch (control.kind) {
    case 'text':
    case 'textarea':
      return '';
    case 'select':
    case 'radio':
      return control.chosen ?? control.choices[0]?.value ?? '';
    case 'checkboxes':
      return [];
    case 'checkbox':
      return false;
    case 'scopes':
      return control.chosen;
    case 'tools':
      return enteredTools({ type: 'all' });
  }
}

/** Converts a stored value to the one that its control shows. */
function enteredValueOf(control: FieldControl, value: unknown): EnteredValue {
  if (value === undefined) return blankOf(control);
  if (control.kind === 'tools') return enteredTools(toolSelectionSchema.parse(value));
  if (control.kind === 'checkbox') return value === true;
  if (typeof value === 'number' && 'show' in control && control.show) return control.show(value);
  if (typeof value === 'string' || typeof value === 'number') return String(value);
  if (!Array.isArray(value)) return '';
  const texts = value.map(String);
  if (control.kind === 'textarea') return texts.join('\n');
  return control.kind === 'text' ? texts.join(' ') : texts;
}

function sentOf({ field, name, control }: Control, sent: Form): EnteredValue {
  const text = sent.get(name) ?? '';
  switch (control.kind) {
    case 'scopes':
      return checkedValues(sent, name).filter(isScope);
    case 'checkboxes':
      return checkedValues(sent, name);
    case 'tools':
      return sentTools(sent, name);
    case 'checkbox':
      return sent.has(name);
    case 'radio': {
      // No operation checks a choice that only the form has, so an unknown value is replaced here.
      const isKnown = field !== undefined || control.choices.some(({ value }) => value === text);
      return isKnown ? text : blankOf(control);
    }
    case 'text':
    case 'textarea':
    case 'select':
      return text;
  }
}

function isEmpty(control: FieldControl, entered: EnteredValue): boolean {
  if (control.kind === 'tools') return listOf(entered).length === 0;
  if (typeof entered !== 'string') return false;
  const choices = 'choices' in control ? control.choices : [];
  const isOmitted = choices.some((choice) => choice.value === entered && choice.isOmitted);
  return isOmitted || textOf(control, entered) === '';
}

function isWanted({ when }: FieldControl, entered: Entered): boolean {
  if (!when) return true;
  const name = typeof when.choice === 'string' ? when.choice : when.choice.name;
  return when.is.some((value) => value === entered[name]);
}

function inputValue(control: FieldControl, entered: EnteredValue): unknown {
  if (control.kind === 'tools') return selectionOf(listOf(entered));
  if (typeof entered !== 'string') return entered;
  const text = textOf(control, entered);
  if (control.kind !== 'text' && control.kind !== 'textarea') return text;
  const { entries, read } = control;
  if (!entries) return read ? read(text) : text;
  return text
    .split(separators[entries.between])
    .map((entry) => entry.trim())
    .filter((entry) => entry !== '');
}

const separators = { lines: /\r?\n/, spaces: /\s+/, 'spaces and commas': /[\s,]+/ };

function textOf(control: FieldControl, entered: string): string {
  return isPassword(control) ? entered : entered.trim();
}

function isPassword(control: FieldControl): boolean {
  return control.kind === 'text' && control.type === 'password';
}

/** The id of the element to which an error about a control links: its group, for one of several checkboxes. */
function errorField(name: string, control: FieldControl): string {
  return control.kind === 'checkbox' ? control.group.name : name;
}

export type Labels = Parameters<typeof refusedForm>[1];

/** The labels of fields in errors. If the control has a name for its entries, an error names the entry at fault. */
function labelsOf(controls: readonly Control[], entered: Entered): Labels {
  return Object.fromEntries(
    controls.flatMap(({ field, name, control }): [string, Labels[string]][] => {
      if (field === undefined) return [];
      const at = errorField(name, control);
      const rule = 'rule' in control ? control.rule : undefined;
      const label = control.subject ?? control.label;
      const own = { field: at, label, ...(rule !== undefined && { rule }) };
      const subject = 'entries' in control ? control.entries?.subject : undefined;
      const value = subject === undefined ? [] : inputValue(control, entered[name] ?? '');
      const entries = Array.isArray(value) ? value.map(String) : [];
      return [
        [field, own],
        ...entries.map((entry, index): [string, Labels[string]] => [
          `${field}.${index}`,
          { field: at, label: `${subject} ${entry}` },
        ]),
      ];
    }),
  );
}

/** Groups neighbours that have the same key. */
function chunked<Item>(
  items: readonly Item[],
  keyOf: (item: Item) => string,
): (readonly [Item, ...Item[]])[] {
  const chunks: [Item, ...Item[]][] = [];
  for (const item of items) {
    const last = chunks.at(-1);
    if (last && keyOf(last[0]) === keyOf(item)) last.push(item);
    else chunks.push([item]);
  }
  return chunks;
}

function spaced(parts: readonly Html[]): Html {
  return html`${parts.map((part, index) => html`${index > 0 && ' '}${part}`)}`;
}

/** One control, or the boxes of one group. */
function rowField(
  row: readonly [Control, ...Control[]],
  entered: Entered,
  {
    errors,
    hasFocus,
    tools = { items: undefined, words: clientWords },
  }: {
    readonly errors: readonly FieldError[];
    readonly hasFocus: boolean;
    readonly tools?: ToolChoiceHere | undefined;
  },
): Html {
  const [{ name, isOptional, control }] = row;
  const { label, help = '', optional = isOptional } = control;
  const value = entered[name] ?? '';
  const error = errorOf(errors, errorField(name, control));
  const field = { name, label, legend: label, error, ...(help && { help }) };
  switch (control.kind) {
    case 'text': {
      const { type = 'text' } = control;
      const attributes = attributesOf(control);
      const shown = isPassword(control) ? {} : { value: String(value) };
      return textField({ ...field, ...shown, type, focus: hasFocus, optional, attributes });
    }
    case 'textarea': {
      const { rows = 3 } = control;
      const shown = { value: String(value), optional: optional === true };
      return textArea({ ...field, ...shown, rows, attributes: attributesOf(control) });
    }
    case 'select':
      return selectField({ ...field, options: chosenOf(control.choices, [value]) });
    case 'radio':
      return radioButtons({ ...field, options: chosenOf(control.choices, [value]) });
    case 'checkboxes':
      return checkboxes({ ...field, options: chosenOf(control.choices, listOf(value)) });
    case 'checkbox': {
      const { group } = control;
      const options = row.map((one) => ({
        value: one.name.slice(group.name.length + 1),
        text: one.control.label,
        ...(one.control.help !== undefined && { help: one.control.help }),
        isChosen: entered[one.name] === true,
      }));
      return checkboxes({ name: group.name, legend: group.label, error, options });
    }
    case 'scopes':
      return checkboxes({ ...field, options: scopeOptions(listOf(value).filter(isScope)) });
    case 'tools':
      return toolChoiceField({ ...field, ...tools, entered: listOf(value) });
  }
}

function listOf(value: EnteredValue): readonly string[] {
  return typeof value === 'string' || typeof value === 'boolean' ? [] : value;
}

function attributesOf({
  attributes = {},
}: {
  attributes?: Readonly<Record<string, string>>;
}): Html {
  const all = Object.entries(attributes);
  return html`${all.map(([attribute, text], index) => html`${index > 0 && ' '}${attribute}="${text}"`)}`;
}

function chosenOf(choices: readonly FieldChoice[], chosen: readonly unknown[]): ExplainedChoice[] {
  return choices.map((choice) => ({ ...choice, isChosen: chosen.includes(choice.value) }));
}

/**
 * Converts a refusal that the user can correct into field errors; anything else goes on to the error page. `labels`
 * names each form field by the operation's input field; `conflict` is the field to mark on a conflict.
 *
 * @throws `refusal` if it is about no field
 */
export function refusedForm(
  refusal: unknown,
  labels: Readonly<
    Record<string, { readonly field: string; readonly label: string; readonly rule?: string }>
  >,
  conflict?: string,
): FieldError[] {
  if (!(refusal instanceof AdministrationRefusal)) throw refusal;
  if (refusal.code === 'conflict' && conflict !== undefined) {
    return [{ field: conflict, message: sentence(refusal.message) }];
  }
  if (refusal.code !== 'invalid') throw refusal;
  return refusal.fields.map(({ field, problem }) => {
    const known = labels[field] ?? labels[field.split('.')[0] ?? ''];
    const message = sentence(`${known?.label ?? field} ${known?.rule ?? problem}`.trim());
    return { field: known?.field ?? '', message };
  });
}

export function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}

/** The checked boxes `{name}.{value}` of a form, in order. */
export function checkedValues(form: Form, name: string): string[] {
  const start = `${name}.`;
  return [...form.keys()]
    .filter((field) => field.startsWith(start))
    .map((field) => field.slice(start.length));
}

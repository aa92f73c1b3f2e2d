import { serverCreate, serverUpdate, type ServerView } from '#admin/servers';
import type { Form } from '#oauth/forms';
import { limitNames } from '#organizations/server-limits';
import { offeredKinds, type EnteredSetting } from '#upstreams/drivers';
import {
  errorOf,
  errorSummary,
  formActions,
  hiddenField,
  postForm,
  radioButtons,
  selectField,
  textField,
  type FieldError,
} from '#web/forms';
import { html, type Html } from '#web/html';
import {
  layout,
  statusNotice,
  pageHeading,
  tabNavigation,
  type Frame,
  type Tabs,
} from '#web/layout';
import { type Entered, formFor, type Labels } from './forms.ts';

const newForm = formFor(serverCreate);
const changeForm = formFor(serverUpdate);

/** What is entered in the form of a server. */
export interface TypedServer {
  /** In the controls that the operation's fields declare. */
  readonly entered: Entered;
  /** The revision of the server that the form was filled from; `undefined` for a new server. */
  readonly revision: string | undefined;
  readonly kind: string;
  /** The settings of every kind by their names. */
  readonly settings: Readonly<Record<string, string>>;
}

/** What is in the form, and what is wrong with it. */
interface ServerFormData {
  /** Whether it creates a server, or changes one. */
  readonly isNew: boolean;
  readonly heading: string;
  readonly tabs: Tabs | undefined;
  readonly notice: string | undefined;
  readonly action: string;
  readonly cancel: string;
  readonly typed: TypedServer;
  /** The names of the active agents. */
  readonly agents: readonly string[];
  /** Where an agent is created. */
  readonly newAgent: string;
  readonly errors: readonly FieldError[];
  readonly isDisabled: boolean;
  /** Other actions on the server, each with a confirmation page. */
  readonly dangers: readonly {
    readonly text: string;
    readonly help: string;
    readonly href: string;
    readonly isHarmless: boolean;
  }[];
}

/** Creates a server or changes it: its name, and where its calls go. */
export function serverFormPage(data: ServerFormData, frame: Frame): Html {
  const { isNew, heading, tabs, action, cancel, typed, errors } = data;
  const savedTitle = isNew ? heading : `Settings of ${heading}`;
  const title = errors.length > 0 ? 'Not saved yet' : savedTitle;
  const lead = isNew
    ? 'A server is one MCP endpoint: assistants call it, and it passes their calls on.'
    : '';
  const shown = (only: readonly string[]) =>
    (isNew ? newForm : changeForm).fields(typed.entered, errors, { only, focus: isNew && 'name' });
  const fields = html`${isNew ? shown(['name']) : hiddenField('revision', typed.revision ?? '')}
${upstreamFields(data)}
${shown(isNew ? ['title'] : ['title', 'description', 'instructions', 'hiddenTools'])}
${!isNew && limitsFieldset(shown(limitNames))}
${formActions(isNew ? 'Create server' : 'Save', cancel)}`;
  const content = html`${pageHeading({ heading, lead })}
${tabs && tabNavigation(tabs)}
${statusNotice(data.notice)}
${errorSummary(errors)}
${postForm(frame, { action, novalidate: true }, fields)}
${dangersSection(data)}`;
  return layout({ title, width: 'form' }, frame, content);
}

function upstreamFields(data: ServerFormData): Html {
  const { isNew, typed, errors } = data;
  const kindField = radioButtons({
    name: 'kind',
    legend: 'Where calls go',
    error: errorOf(errors, 'kind'),
    options: offeredKinds
      .filter(({ kind, isOperators }) => !isOperators || (kind === typed.kind && !isNew))
      .map(({ kind, title, help }) => ({
        value: kind,
        text: title,
        help,
        isChosen: kind === typed.kind,
      })),
  });
  const ofKinds = offeredKinds
    .filter(({ settings }) => settings.length > 0)
    .map(({ kind, settings }) => {
      const fields = settings.map((setting) => settingField(setting, data));
      return html`
<div class="for-${kind}">${fields}</div>`;
    });
  return html`${kindField}${ofKinds}`;
}

function settingField(setting: EnteredSetting, data: ServerFormData): Html {
  const { isNew, typed, agents, newAgent, errors } = data;
  const { name, label, control, isOptional } = setting;
  const help = (!isNew && setting.helpOnChange) || setting.help;
  const value = typed.settings[name] ?? '';
  const error = errorOf(errors, name);
  if (control !== 'agent') {
    return textField({
      name,
      label,
      type: control,
      value,
      error,
      optional: isOptional || 'unmarked',
      attributes: html`spellcheck="false" autocapitalize="none" autocomplete="off"`,
      help,
    });
  }
  const hasAgents = agents.length > 0;
  const agentField = selectField({
    name,
    label,
    error,
    options: [
      { value: '', text: hasAgents ? 'Choose an agent' : 'No agents yet', isChosen: !value },
      ...agents.map((agent) => ({ value: agent, text: agent, isChosen: agent === value })),
    ],
    help: hasAgents ? help : 'Create one first, then come back.',
  });
  return html`
${agentField} ${!hasAgents && html`<p><a href="${newAgent}">Create an agent</a></p>`}
`;
}

function limitsFieldset(fields: Html): Html {
  return html`<fieldset class="section">
<legend>Limits</legend>
<p class="help">Empty: only what holds for every server. Who goes beyond one is told which, and when to come back.</p>
${fields}
</fieldset>`;
}

function dangersSection({ dangers, isDisabled }: ServerFormData): Html | undefined {
  if (dangers.length === 0) return undefined;
  return html`<section class="section" aria-labelledby="dangers-heading">
<h2 id="dangers-heading">${isDisabled ? 'Out of use' : 'Take it out of use'}</h2>
<ul class="rows">
${dangers.map(
  ({ text, help, href, isHarmless }) =>
    html`<li>
<div>${help}</div>
<a class="button${!isHarmless && ' danger'}" href="${href}" data-question>${text}</a>
</li>`,
)}
</ul>
</section>`;
}

/** The labels in errors about the upstream, whose fields the table of kinds declares. */
const upstreamLabels: Labels = {
  ...Object.fromEntries(
    offeredKinds.flatMap(({ settings }) =>
      settings.map(({ name, subject }) => [`upstream.${name}`, { field: name, label: subject }]),
    ),
  ),
  upstream: { field: 'kind', label: 'Where calls go' },
};

/**
 * The errors of a server form; missing choices and values are reported as such. `conflict` as in `refusedForm`.
 *
 * @throws `refusal` if it is about no field
 */
export function serverErrors(
  refusal: unknown,
  { entered, kind, settings, revision }: TypedServer,
  conflict: string,
): FieldError[] {
  const empty = settingsOf(kind).filter(({ name }) => !settings[name]);
  const form = revision === undefined ? newForm : changeForm;
  return form.errorsOf(refusal, entered, conflict, upstreamLabels).map(({ field, message }) => ({
    field,
    message: empty.find(({ name }) => name === field)?.missing ?? message,
  }));
}

/** The form of a new server. */
export function emptyServer(): TypedServer {
  const [usual] = offeredKinds;
  return { entered: newForm.blank, kind: usual?.kind ?? '', settings: {}, revision: undefined };
}

function settingsOf(kind: string): readonly EnteredSetting[] {
  return offeredKinds.find((one) => one.kind === kind)?.settings ?? [];
}

/** A server as its form shows it. */
export function serverAsTyped(server: ServerView): TypedServer {
  const { upstream, revision } = server;
  return {
    entered: changeForm.filled(server),
    revision: String(revision),
    kind: upstream.kind,
    settings: Object.fromEntries(
      settingsOf(upstream.kind).map(({ name: field }) => {
        const value: unknown = Reflect.get(upstream, field);
        return [field, typeof value === 'string' ? value : ''];
      }),
    ),
  };
}

/** The values of a submitted form: of a server that exists, or of a new one. */
export function typedServer(sent: Form, isNew: boolean): TypedServer {
  const text = (name: string) => sent.get(name) ?? '';
  return {
    entered: (isNew ? newForm : changeForm).read(sent),
    revision: isNew ? undefined : text('revision'),
    kind: text('kind'),
    settings: Object.fromEntries(
      offeredKinds.flatMap(({ settings }) => settings.map(({ name }) => [name, text(name).trim()])),
    ),
  };
}

/** The form values as input of the operation. */
export function serverInput({ entered, kind, settings, revision }: TypedServer) {
  const given = settingsOf(kind)
    .map(({ name: field, isOptional }) => ({ field, isOptional, value: settings[field] ?? '' }))
    .filter(({ isOptional, value }) => value !== '' || !isOptional);
  const upstream = { ...Object.fromEntries(given.map(({ field, value }) => [field, value])), kind };
  if (revision === undefined) return { ...newForm.inputOf(entered), upstream };
  const isOperators = offeredKinds.some((one) => one.kind === kind && one.isOperators);
  return {
    ...changeForm.inputOf(entered),
    // What the operator chose stays, or something else takes its place.
    ...(!isOperators && { upstream }),
    // Forms rendered by an older version have no revision.
    ...(revision !== '' && { revision: Number(revision) }),
  };
}

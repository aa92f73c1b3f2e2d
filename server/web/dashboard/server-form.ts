import type { ServerView } from '#admin/servers';
import type { Form } from '#oauth/forms';
import { limitNames, type ServerLimits } from '#organizations/server-limits';
import { offeredKinds, type EnteredSetting } from '#upstreams/drivers';
import {
  errorOf,
  errorSummary,
  formActions,
  hiddenField,
  postForm,
  radioButtons,
  selectField,
  textArea,
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
import { refusedForm } from './forms.ts';

/** What is entered in the form of a server; every field is there, empty where nothing was entered. */
export interface TypedServer {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly instructions: string;
  readonly hiddenTools: string;
  readonly limits: { readonly [name in keyof ServerLimits]?: string };
  /** The revision of the server that the form was filled from. */
  readonly revision: string;
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
  const nameField = textField({
    name: 'name',
    label: 'Name',
    value: typed.name,
    error: errorOf(errors, 'name'),
    focus: errors.length === 0,
    attributes: html`spellcheck="false" autocapitalize="none" autocomplete="off" maxlength="63"`,
    help: 'Stands in the address of the endpoint and stays: lower-case letters, digits and hyphens, as sales.',
  });
  const titleField = textField({
    name: 'title',
    label: 'Title',
    value: typed.title,
    error: errorOf(errors, 'title'),
    optional: true,
    attributes: html`maxlength="200"`,
    help: 'What people and assistants see, in any script.',
  });
  const fields = html`${isNew ? nameField : hiddenField('revision', typed.revision)}
${upstreamFields(data)}
${titleField} ${!isNew && descriptionFields(typed, errors)}
${!isNew && limitFields(typed, errors)}
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

function descriptionFields(typed: TypedServer, errors: readonly FieldError[]): Html {
  const description = textArea({
    name: 'description',
    optional: true,
    label: 'Description',
    value: typed.description,
    error: errorOf(errors, 'description'),
    attributes: html`maxlength="2000"`,
    help: 'What the server is for.',
  });
  const instructions = textArea({
    name: 'instructions',
    optional: true,
    label: 'Instructions for assistants',
    rows: 5,
    value: typed.instructions,
    error: errorOf(errors, 'instructions'),
    attributes: html`maxlength="20000"`,
    help: 'Said to every assistant that connects, as when to use which tool.',
  });
  const hiddenTools = textArea({
    name: 'hiddenTools',
    optional: true,
    label: 'Hidden tools',
    value: typed.hiddenTools,
    error: errorOf(errors, 'hiddenTools'),
    attributes: html`class="code-like" spellcheck="false"`,
    help: 'One name per line. From the next call, these tools can be neither seen nor called.',
  });
  return html`${description} ${instructions} ${hiddenTools}`;
}

const limitOptions: readonly { name: keyof ServerLimits; label: string; help: string }[] = [
  {
    name: 'callsPerMinute',
    label: 'Calls a minute',
    help: 'Of one caller: a key, or what an application does for one person. Twice as many notifications.',
  },
  {
    name: 'concurrentCalls',
    label: 'Calls at once',
    help: 'Of one caller. It may listen by four times as many streams.',
  },
  { name: 'requestBytes', label: 'Bytes of a request', help: '' },
  { name: 'answerBytes', label: 'Bytes of an answer', help: '' },
  {
    name: 'callSeconds',
    label: 'Seconds a call',
    help: 'From its arrival to the end of its answer.',
  },
];

function limitFields(typed: TypedServer, errors: readonly FieldError[]): Html {
  return html`<fieldset class="section">
<legend>Limits</legend>
<p class="help">Empty: only what holds for every server. Who goes beyond one is told which, and when to come back.</p>
${limitOptions.map((limit) =>
  textField({
    ...limit,
    value: typed.limits[limit.name] ?? '',
    error: errorOf(errors, limit.name),
    optional: 'unmarked',
    attributes: html`inputmode="numeric" autocomplete="off" spellcheck="false" maxlength="12"`,
  }),
)}
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

/** The labels of the form fields in error messages. */
const serverLabels = {
  name: { field: 'name', label: 'The name' },
  title: { field: 'title', label: 'The title' },
  description: { field: 'description', label: 'The description' },
  instructions: { field: 'instructions', label: 'The instructions' },
  hiddenTools: { field: 'hiddenTools', label: 'A name of a hidden tool' },
  'limits.callsPerMinute': { field: 'callsPerMinute', label: 'Calls a minute' },
  'limits.concurrentCalls': { field: 'concurrentCalls', label: 'Calls at once' },
  'limits.requestBytes': { field: 'requestBytes', label: 'Bytes of a request' },
  'limits.answerBytes': { field: 'answerBytes', label: 'Bytes of an answer' },
  'limits.callSeconds': { field: 'callSeconds', label: 'Seconds a call' },
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
export function serverErrors(refusal: unknown, typed: TypedServer, conflict: string): FieldError[] {
  const empty = settingsOf(typed.kind).filter(({ name }) => !typed.settings[name]);
  return refusedForm(refusal, serverLabels, conflict).map(({ field, message }) => ({
    field,
    message: empty.find(({ name }) => name === field)?.missing ?? message,
  }));
}

/** The form of a new server. */
export function emptyServer(): TypedServer {
  const none = { name: '', title: '', description: '', instructions: '', hiddenTools: '' };
  const [usual] = offeredKinds;
  return { ...none, kind: usual?.kind ?? '', settings: {}, limits: {}, revision: '' };
}

function settingsOf(kind: string): readonly EnteredSetting[] {
  return offeredKinds.find((one) => one.kind === kind)?.settings ?? [];
}

/** A server as its form shows it. */
export function serverAsTyped(server: ServerView): TypedServer {
  const { name, title, description, instructions, hiddenTools, limits, upstream } = server;
  return {
    name,
    title,
    description,
    instructions,
    hiddenTools: hiddenTools.join('\n'),
    limits: Object.fromEntries(limitNames.map((limit) => [limit, String(limits[limit] ?? '')])),
    revision: String(server.revision),
    kind: upstream.kind,
    settings: Object.fromEntries(
      settingsOf(upstream.kind).map(({ name: field }) => {
        const value: unknown = Reflect.get(upstream, field);
        return [field, typeof value === 'string' ? value : ''];
      }),
    ),
  };
}

/** The values of a submitted server form, empty if missing. */
export function typedServer(form: Form): TypedServer {
  const text = (name: string) => form.get(name) ?? '';
  return {
    name: text('name').trim(),
    title: text('title'),
    description: text('description'),
    instructions: text('instructions'),
    hiddenTools: text('hiddenTools'),
    limits: Object.fromEntries(limitNames.map((limit) => [limit, text(limit).trim()])),
    revision: text('revision'),
    kind: text('kind'),
    settings: Object.fromEntries(
      offeredKinds.flatMap(({ settings }) => settings.map(({ name }) => [name, text(name).trim()])),
    ),
  };
}

/** The form values as input of the operations. */
export function serverInput({ name, kind, settings, ...typed }: TypedServer) {
  const entered = settingsOf(kind)
    .map(({ name: field, isOptional }) => ({ field, isOptional, value: settings[field] ?? '' }))
    .filter(({ isOptional, value }) => value !== '' || !isOptional);
  const upstream = {
    ...Object.fromEntries(entered.map(({ field, value }) => [field, value])),
    kind,
  };
  const isOperators = offeredKinds.some((one) => one.kind === kind && one.isOperators);
  const { title, description, instructions } = typed;
  return {
    made: { name, upstream, title },
    changed: {
      // What the operator chose stays, or something else takes its place.
      ...(!isOperators && { upstream }),
      title,
      description,
      instructions,
      hiddenTools: lines(typed.hiddenTools),
      limits: Object.fromEntries(
        limitNames.map((limit) => [limit, numberOrNone(typed.limits[limit])]),
      ),
      // Forms rendered by an older version have no revision.
      ...(typed.revision !== '' && { revision: Number(typed.revision) }),
    },
  };
}

/** `null` if empty. The operation refuses what is not a number. */
function numberOrNone(typed: string | undefined): number | null {
  return typed === undefined || typed === '' ? null : Number(typed);
}

/** The lines of a text that are not empty. */
function lines(text: string): string[] {
  return text
    .split(/\r?\n/)
    .map((line) => line.trim())
    .filter((line) => line !== '');
}

import { serverCreate, serverUpdate, type ServerView } from '#admin/servers';
import type { Form } from '#oauth/forms';
import { limitNames } from '#model/server-limits';
import { type EnteredSetting, type OfferedKind, offeredKinds } from '#model/upstream-kinds';
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
import { type Titled, titleText } from '#web/titles';
import { type ConnectionTest, connectionTestSection } from './connection-test.ts';
import { type Entered, formFor, type Labels } from './forms.ts';

const newForm = formFor(serverCreate);
const changeForm = formFor(serverUpdate);

/** The values in the form of a server. */
export interface TypedServer {
  /** The values of the controls that the operation's fields declare. */
  readonly entered: Entered;
  /** The revision of the server that the form was filled from; `undefined` for a new server. */
  readonly revision: string | undefined;
  readonly kind: string;
  /** The settings of every kind of upstream, by their names. */
  readonly settings: Readonly<Record<string, string>>;
  /** For a new server: whether it offers nothing before a review. Later, this is set on the page of its tools. */
  readonly reviewsTools: boolean;
}

/** The values in the form, and their errors. */
interface ServerFormData {
  /** Whether it creates a server, or changes one. */
  readonly isNew: boolean;
  readonly heading: Titled | string;
  readonly tabs: Tabs | undefined;
  readonly notice: string | undefined;
  readonly action: string;
  readonly cancel: string;
  readonly typed: TypedServer;
  /** The names of the active agents. */
  readonly agents: readonly string[];
  /** Where an agent is created. */
  readonly newAgent: string;
  /** Where a collection is created, for a new server. */
  readonly newCollection?: string;
  readonly errors: readonly FieldError[];
  /** The result of the connection test, if there was one. */
  readonly test: ConnectionTest | undefined;
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
  const savedTitle = isNew ? titleText(heading) : `Settings of ${titleText(heading)}`;
  const notSaved = isNew ? 'Not created' : 'Not saved';
  const title = errors.length > 0 ? notSaved : savedTitle;
  const lead = isNew
    ? 'A server is an MCP endpoint. Assistants call it, and Latchkey forwards their calls to the upstream.'
    : '';
  const shown = (only: readonly string[]) =>
    (isNew ? newForm : changeForm).fields(typed.entered, errors, {
      only,
      focus: isNew && !data.test && 'name',
    });
  const fields = html`${data.test && connectionTestSection(data.test, errors.length > 0)}
${isNew ? shown(['name']) : hiddenField('revision', typed.revision ?? '')}
${chosenBy(typed) === 'creation' ? hiddenField('kind', typed.kind) : upstreamFields(data)}
${shown(isNew ? ['title'] : ['title', 'description', 'instructions'])}
${isNew && reviewField(typed)}
${!isNew && limitsFieldset(shown(limitNames))}
${isNew ? creationActions(data) : formActions('Save', cancel)}`;
  const content = html`${pageHeading({ heading, lead })}
${tabs && tabNavigation(tabs)}
${statusNotice(data.notice)}
${data.newCollection !== undefined && html`<p>To combine several servers into one endpoint, <a href="${data.newCollection}">create a collection</a>.</p>`}
${errorSummary(errors)}
${postForm(frame, { action, novalidate: true }, fields)}
${dangersSection(data)}`;
  return layout({ title, width: 'form' }, frame, content);
}

/** Creating a server tests the connection first. After a failure, the server can be created anyway. */
function creationActions({ cancel, test, errors }: ServerFormData): Html {
  const isFailed = test && ['offline', 'error', 'personal', 'forbidden'].includes(test.outcome);
  const isOffered = isFailed && errors.length === 0;
  return html`<div class="actions">
<button class="primary" name="step" value="create">Create server</button>
${isOffered && html`<button name="step" value="anyway">Create anyway</button>`}
<span class="for-http"><button name="step" value="test">Test connection</button></span>
<a class="button" href="${cancel}">Cancel</a>
</div>`;
}

function chosenBy({ kind }: Pick<TypedServer, 'kind'>): OfferedKind['chosenBy'] {
  return offeredKinds.find((one) => one.kind === kind)?.chosenBy;
}

function upstreamFields(data: ServerFormData): Html {
  const { isNew, typed, errors } = data;
  const kindField = radioButtons({
    name: 'kind',
    legend: 'Upstream',
    error: errorOf(errors, 'kind'),
    options: offeredKinds
      .filter((one) => one.chosenBy === undefined || (one.kind === typed.kind && !isNew))
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
    help: hasAgents ? help : 'Create an agent first.',
  });
  return html`
${agentField} ${!hasAgents && html`<p><a href="${newAgent}">Create an agent</a></p>`}
`;
}

function reviewField({ reviewsTools }: TypedServer): Html {
  return radioButtons({
    name: 'newTools',
    legend: 'Tools of the server',
    options: [
      {
        value: 'offer',
        text: 'Offer immediately',
        help: 'Assistants see what the server lists. Latchkey reports later changes.',
        isChosen: !reviewsTools,
      },
      {
        value: 'review',
        text: 'Review first',
        help: 'Assistants see nothing of the server before you have accepted it, and later changes wait for you.',
        isChosen: reviewsTools,
      },
    ],
  });
}

function limitsFieldset(fields: Html): Html {
  return html`<fieldset class="section">
<legend>Limits</legend>
<p class="help">Empty fields mean the default, which is named below each field. A caller that exceeds a limit receives an error that names the limit and when to retry.</p>
${fields}
</fieldset>`;
}

function dangersSection({ dangers }: ServerFormData): Html | undefined {
  if (dangers.length === 0) return undefined;
  return html`<section class="section" aria-labelledby="dangers-heading">
<h2 id="dangers-heading">More</h2>
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
  upstream: { field: 'kind', label: 'The upstream' },
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

/** The form of a new server, filled from a link: `name`, `kind`, and settings of that kind. */
export function newServer(given: (name: string) => string | undefined): TypedServer {
  const [usual] = offeredKinds;
  const choosable = offeredKinds.filter((one) => one.chosenBy === undefined);
  const kinds = choosable.map(({ kind }) => kind);
  const kind = kinds.find((one) => one === given('kind')) ?? usual?.kind ?? '';
  const settings = settingsOf(kind).map(({ name }) => [name, given(name) ?? ''] as const);
  return {
    entered: { ...newForm.blank, name: given('name') ?? '' },
    kind,
    settings: Object.fromEntries(settings),
    reviewsTools: false,
    revision: undefined,
  };
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
    reviewsTools: server.newTools === 'review',
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
    reviewsTools: text('newTools') === 'review',
  };
}

/** The form values as input of the operation. */
export function serverInput({ entered, kind, settings, reviewsTools, revision }: TypedServer) {
  const given = settingsOf(kind)
    .map(({ name: field, isOptional }) => ({ field, isOptional, value: settings[field] ?? '' }))
    .filter(({ isOptional, value }) => value !== '' || !isOptional);
  const upstream = { ...Object.fromEntries(given.map(({ field, value }) => [field, value])), kind };
  if (revision === undefined) {
    const review = reviewsTools && { newTools: 'review', changedTools: 'withhold' };
    return { ...newForm.inputOf(entered), upstream, ...review };
  }
  return {
    ...changeForm.inputOf(entered),
    // An upstream that was chosen elsewhere is not sent: the form can only keep it or replace it by another kind.
    ...(chosenBy({ kind }) === undefined && { upstream }),
    // Forms rendered by an older version have no revision.
    ...(revision !== '' && { revision: Number(revision) }),
  };
}

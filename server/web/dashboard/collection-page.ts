import type { CollectionView } from '#admin/collections';
import type { EpochSeconds } from '#model/clock';
import {
  checkboxes,
  errorOf,
  errorSummary,
  type FieldError,
  formActions,
  postForm,
  radioButtons,
  selectField,
  textField,
} from '#web/forms';
import { html, type Html } from '#web/html';
import {
  type Frame,
  layout,
  pageHeading,
  statusNotice,
  tabNavigation,
  type Tabs,
} from '#web/layout';
import { type Cell, dataTable, type Table } from '#web/tables';
import { type Titled, titleText } from '#web/titles';
import {
  type Choosable,
  type EnteredTools,
  selectionWords,
  toolChoiceField,
  type ToolChoiceWords,
} from '#web/tool-choice';

import {
  assistants,
  fewTools,
  manyTools,
  runningCount,
  type CollectionSum,
  sizeWords,
} from './collection-sums.ts';
import { kindWords } from './tool-words.ts';

type Member = CollectionView['members'][number];
type Name = CollectionView['names'][number];

interface NewCollectionData {
  readonly action: string;
  readonly cancel: string;
  readonly typed: {
    readonly name: string;
    readonly title: string;
    readonly members: readonly string[];
  };
  readonly servers: readonly { readonly name: string; readonly text: string }[];
  readonly sum: CollectionSum;
  /** Chosen servers whose tools are not known yet. */
  readonly unlisted: readonly string[];
  readonly errors: readonly FieldError[];
}

/** Creates a collection: its name, and its servers. */
export function newCollectionPage(data: NewCollectionData, frame: Frame): Html {
  const { action, cancel, typed, servers, sum, errors } = data;
  const heading = 'Create collection';
  const lead =
    'A collection is one endpoint made of several servers: an assistant is set up and signed in once for all of them.';
  const fields = html`${textField({
    name: 'name',
    label: 'Name',
    value: typed.name,
    error: errorOf(errors, 'name'),
    help: 'Used in the endpoint URL; cannot be changed. Lower-case letters, digits and hyphens. Example: work',
    attributes: html`spellcheck="false" autocapitalize="none" autocomplete="off" maxlength="63"`,
  })}
${textField({ name: 'title', label: 'Title', value: typed.title, error: errorOf(errors, 'title'), optional: true, help: 'What people see. Example: Everyday work' })}
${checkboxes({
  name: 'members',
  legend: 'Servers',
  error: errorOf(errors, 'members'),
  help:
    servers.length === 0
      ? 'There is no server yet. Create one first.'
      : 'You can choose their tools afterwards. A person needs access to the collection and to the server.',
  options: servers.map(({ name, text }) => ({
    value: name,
    text,
    isChosen: typed.members.includes(name),
  })),
})}
${formActions('Create collection', cancel)}
${runningCount(sum, data.unlisted)}`;
  const content = html`${pageHeading({ heading, lead })}
${errorSummary(errors)}
${postForm(frame, { action, novalidate: true }, fields)}`;
  return layout(
    { title: errors.length > 0 ? 'Not created' : heading, width: 'form' },
    frame,
    content,
  );
}

/** The part of a collection that one person sees. */
export interface Preview {
  /** An e-mail address, as it was entered. */
  readonly as: string;
  /** The value of the chosen assistant. */
  readonly assistant: string;
  readonly outcome:
    | { readonly type: 'none' }
    | { readonly type: 'unknown' }
    | { readonly type: 'seen'; readonly sum: CollectionSum; readonly unseen: readonly string[] };
}

interface CollectionPageData {
  readonly heading: Titled;
  readonly tabs: Tabs;
  readonly notice: string | undefined;
  /** The page of the collection. */
  readonly home: string;
  /** The page of all servers. */
  readonly servers: string;
  readonly members: readonly Member[];
  readonly names: readonly Name[];
  readonly sum: CollectionSum;
  /** `undefined` for people who may not see what others can use. */
  readonly preview: Preview | undefined;
  /** The servers that can be added; `undefined` for people who may not change the collection. */
  readonly addable: readonly { readonly name: string; readonly text: string }[] | undefined;
  readonly errors: readonly FieldError[];
  readonly now: EpochSeconds;
}

/** The servers of a collection, and the names of what they offer. */
export function collectionPage(data: CollectionPageData, frame: Frame): Html {
  const { heading, tabs, notice, sum, preview, names, errors } = data;
  const waiting = names.filter(({ state }) => state === 'waiting');
  const content = html`${pageHeading({ heading, lead: 'The servers of this collection, and the names under which callers see their tools.' })}
${tabNavigation(tabs)}
${statusNotice(notice)}
${errorSummary(errors)}
<p>${sumWords(sum)}</p>
${
  waiting.length > 0 &&
  html`<section class="section" aria-labelledby="waiting-heading">
<h2 id="waiting-heading">Waiting for a decision</h2>
<p class="help">Another server of the collection has the name already. Until you decide, callers do not see these.</p>
${dataTable(nameTable(data, waiting, 'Names that wait for a decision'))}
</section>`
}
<section class="section" aria-labelledby="members-heading">
<h2 id="members-heading">Servers</h2>
${dataTable(memberTable(data))}
</section>
${addForm(data, frame)}
<section class="section" aria-labelledby="names-heading">
<h2 id="names-heading">Names</h2>
${dataTable(
  nameTable(
    data,
    names.filter(({ state }) => state !== 'waiting'),
    'Names that callers use',
  ),
)}
</section>
${preview && previewSection(preview, `${data.home}/members#preview-heading`)}`;
  return layout({ title: `Members of ${titleText(heading)}`, width: 'table' }, frame, content);
}

function sumWords(shown: CollectionSum): string {
  const { tools } = shown;
  if (tools === 0)
    return 'Callers see no tools yet. They appear when someone lists the tools of the collection.';
  const sum = `Callers see ${sizeWords(shown)}.`;
  if (tools > manyTools) {
    return `${sum} Many models accept at most ${manyTools} tools, and some assistants show only ${fewTools}: choose fewer tools of the servers.`;
  }
  return tools > fewTools ? `${sum} Some assistants show only the first ${fewTools} tools.` : sum;
}

const mostUnseen = 20;

function previewSection({ as, assistant, outcome }: Preview, path: string): Html {
  const options = assistants.map((one) => ({ ...one, isChosen: one.value === assistant }));
  return html`<section class="section narrow" aria-labelledby="preview-heading">
<h2 id="preview-heading">What a person sees</h2>
<form method="get" action="${path}">
${textField({
  name: 'as',
  label: 'E-mail of a member',
  value: as,
  error: outcome.type === 'unknown' ? 'No member of this organization has this address.' : '',
  attributes: html`type="email" autocomplete="off" maxlength="254"`,
})}
${selectField({ name: 'assistant', label: 'Assistant', error: '', options })}
<div class="actions"><button>Show</button></div>
</form>
${outcome.type === 'seen' && seenWords({ as, assistant, outcome })}
</section>`;
}

function seenWords({
  as,
  assistant,
  outcome: { sum, unseen },
}: Omit<Preview, 'outcome'> & {
  readonly outcome: Extract<Preview['outcome'], { type: 'seen' }>;
}): Html {
  const { tools } = sum;
  const chosen = assistants.find(({ value }) => value === assistant);
  const most = chosen?.most;
  const limit =
    chosen && most !== undefined
      ? ` ${chosen.text} ${tools > most ? `may show only ${most} of them` : `shows up to ${most}`}.`
      : '';
  const others = unseen.length - mostUnseen;
  const list = unseen.slice(0, mostUnseen).join(', ') + (others > 0 ? ` and ${others} more` : '');
  return html`<p role="status">${as} sees ${sizeWords(sum)}.${limit}</p>
${unseen.length > 0 && html`<p class="help">Not shown: ${list}. The server, its rules or the rules of the collection do not allow them.</p>`}`;
}

function memberTable({ members, home, servers, addable, now }: CollectionPageData): Table {
  const mayManage = addable !== undefined;
  return {
    caption: 'Servers of this collection',
    columns: ['Server', 'Included', 'Shown', 'Waiting', ...(mayManage ? ['Actions'] : [])],
    rows: members.map((member) => {
      const { server, title, selection, hasApps, shown, waiting } = member;
      const cells: Cell[] = [
        {
          kind: 'title',
          of: { name: server, title },
          href: `${servers}/${server}`,
          badges: hasApps ? [{ text: 'MCP Apps', tone: 'plain' }] : [],
        },
        { kind: 'text', text: selectionWords(selection) },
        { kind: 'text', text: String(shown) },
        { kind: 'text', text: String(waiting) },
      ];
      const path = `${home}/members/${server}`;
      const actions = [
        { text: 'Choose tools', href: `${path}/tools`, of: server },
        { text: 'Remove', href: `${path}/remove`, of: server, danger: true },
      ];
      return {
        id: `member-${server}`,
        cells: mayManage ? [...cells, { kind: 'actions', actions }] : cells,
      };
    }),
    empty: { text: 'No servers. Callers see nothing.' },
    now,
  };
}

function addForm({ addable, home, errors }: CollectionPageData, frame: Frame): Html | undefined {
  if (addable === undefined || addable.length === 0) return undefined;
  const field = selectField({
    name: 'server',
    label: 'Add a server',
    error: errorOf(errors, 'server'),
    options: [
      { value: '', text: 'Choose a server', isChosen: true },
      ...addable.map(({ name, text }) => ({ value: name, text, isChosen: false })),
    ],
    help: 'The order decides which server keeps a name that several have: a new one comes last.',
  });
  return html`<section class="section narrow" aria-label="Add a server">
${postForm(frame, { action: `${home}/members`, novalidate: true }, html`${field}<div class="actions"><button class="primary">Add server</button></div>`)}
</section>`;
}

function nameTable(
  { home, addable, now }: CollectionPageData,
  names: readonly Name[],
  caption: string,
): Table {
  const mayManage = addable !== undefined;
  return {
    caption,
    columns: ['Name', 'Kind', 'Server', 'Original name', ...(mayManage ? ['Actions'] : [])],
    rows: names.map((one, place) => {
      const { kind, server, name, state, shown } = one;
      const cells: Cell[] = [
        {
          kind: 'name',
          text: shown ?? name,
          badges: state === 'left-out' ? [{ text: 'Left out', tone: 'plain' }] : [],
        },
        { kind: 'text', text: kindWords[kind] },
        { kind: 'text', text: server },
        { kind: 'text', text: name },
      ];
      const query = new URLSearchParams({ kind, server, name }).toString();
      const action = {
        text: state === 'waiting' ? 'Decide' : 'Change',
        href: `${home}/name?${query}`,
        of: `${server} ${name}`,
      };
      return {
        id: `name-${place}`,
        cells: mayManage ? [...cells, { kind: 'actions', actions: [action] }] : cells,
      };
    }),
    empty: {
      text: 'None yet. Names appear when someone lists the tools of the collection.',
      action: { text: 'Open Tools to list them now', href: `${home}/tools` },
    },
    now,
  };
}

interface MemberToolsData {
  readonly heading: string;
  readonly action: string;
  readonly cancel: string;
  readonly entered: EnteredTools;
  readonly items: readonly Choosable[];
  readonly sum: CollectionSum;
}

const memberWords: ToolChoiceWords = {
  all: { text: 'Everything', help: 'Including what the server offers later.' },
  readOnly: {
    text: 'Only tools that read',
    help: 'Tools that are annotated as read-only, once an administrator has accepted the annotation.',
  },
  chosen: { text: 'Chosen tools', help: 'Nothing else, not even what the server offers later.' },
};

/** Chooses the tools, prompts and resources that a collection includes from one of its servers. */
export function memberToolsPage(data: MemberToolsData, frame: Frame): Html {
  const { heading, action, cancel, entered, items, sum } = data;
  const lead =
    'What you choose here applies to everyone who uses the collection. Rules of the server and of the collection apply as well.';
  const field = toolChoiceField({
    name: 'tools',
    legend: 'Tools, prompts and resources',
    entered,
    items,
    words: memberWords,
  });
  const content = html`${pageHeading({ heading, lead })}
${postForm(frame, { action, novalidate: true }, html`${field}${formActions('Save', cancel)}${runningCount(sum)}`)}`;
  return layout({ title: heading, width: 'form' }, frame, content);
}

interface DecisionData {
  readonly action: string;
  readonly cancel: string;
  readonly found: Name;
  /** Another entry, which already has the name of `found`. */
  readonly holder: Name | undefined;
  readonly decision: string;
  readonly as: string;
  readonly errors: readonly FieldError[];
}

/** The decision behind the current state of a name; '' while the name waits for one. */
function presentDecision({ state, shown, name }: Name): string {
  if (state === 'waiting') return '';
  if (state === 'left-out') return 'leave-out';
  return shown === name ? 'show' : 'rename';
}

/** Asks what becomes of a name in a collection. */
export function decisionPage(data: DecisionData, frame: Frame): Html {
  const { action, cancel, found, holder, decision, as, errors } = data;
  const { kind, name, server } = found;
  const isUri = kind === 'resource' || kind === 'template';
  const heading = `${kindWords[kind]} ${name}`;
  const lead = holder
    ? `${server} offers it. ${holder.server} already has this name in the collection.`
    : `${server} offers it.`;
  const choice = (value: string, text: string, help: string) => ({
    value,
    text,
    help,
    isChosen: value === (decision || presentDecision(found)),
  });
  const fields = html`${radioButtons({
    name: 'decision',
    legend: 'In this collection',
    error: errorOf(errors, 'decision'),
    options: [
      ...(holder ? [] : [choice('show', 'Show it under its own name', '')]),
      ...(isUri ? [] : [choice('rename', 'Show it under another name', 'Enter the name below.')]),
      ...(holder
        ? [
            choice(
              'replace',
              'Show it instead of the other one',
              `What ${holder.server} offers under this name is left out.`,
            ),
          ]
        : []),
      choice('leave-out', 'Leave it out', 'Callers of the collection do not see it.'),
    ],
  })}
${
  !isUri &&
  textField({
    name: 'as',
    label: 'Other name',
    value: as || (found.shown !== null && found.shown !== name ? found.shown : ''),
    error: errorOf(errors, 'as'),
    optional: true,
    help: 'Letters, digits, _ and -, at most 64. Assistants put the name of the connection in front: up to 40 characters always fit.',
    attributes: html`spellcheck="false" autocapitalize="none" autocomplete="off" maxlength="64"`,
  })
}
${formActions('Save', cancel)}`;
  const content = html`${pageHeading({ heading, lead })}
${errorSummary(errors)}
${postForm(frame, { action, novalidate: true }, fields)}`;
  return layout(
    { title: errors.length > 0 ? 'Not saved' : heading, width: 'form' },
    frame,
    content,
  );
}

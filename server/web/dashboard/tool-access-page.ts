import type { PrimitiveKind } from '#model/tool-rights';
import {
  type Choice,
  errorSummary,
  type FieldError,
  hiddenField,
  postForm,
  selectField,
  textField,
} from '#web/forms';
import { html, type Html } from '#web/html';
import {
  badge,
  type Badge,
  type Frame,
  layout,
  pageHeading,
  statusNotice,
  tabNavigation,
  type Tabs,
} from '#web/layout';
import { listFilter, type ListFrame, pager } from '#web/tables';
import { type Titled, titleText } from '#web/titles';
import { partNavigation } from './tool-tabs.ts';

/** A row of the matrix: who may use one tool, prompt or resource, or those that the server lists later. */
export interface AccessRow {
  /** Names the row in the form. */
  readonly key: string;
  readonly kind: PrimitiveKind;
  /** Absent for the default. */
  readonly name: string | undefined;
  readonly title: string | undefined;
  readonly isHidden: boolean;
  readonly isWithheld: boolean;
  readonly isForEveryone: boolean;
  readonly groupIds: readonly string[];
}

interface GroupColumn {
  readonly id: string;
  readonly name: string;
  readonly help: string;
}

interface ToolAccessPageData {
  readonly heading: Titled;
  readonly tabs: Tabs;
  readonly parts: Tabs;
  readonly notice: string | undefined;
  readonly errors: readonly FieldError[];
  readonly kind: 'tool' | 'prompt' | 'resource';
  readonly list: ListFrame;
  readonly isSearchable: boolean;
  /** Whether nothing is filtered. */
  readonly isWhole: boolean;
  readonly rows: readonly AccessRow[];
  /** The default for what the server lists later. */
  readonly later: AccessRow;
  readonly columns: readonly GroupColumn[];
  /** Groups without a column. */
  readonly others: readonly Choice[];
  readonly groupsPage: string;
  readonly hasGroups: boolean;
  /** Where the matrix is posted, with its query. */
  readonly action: string;
  readonly path: string;
  /** A fingerprint of the rules on the page. A different one on submit means that they have changed since. */
  readonly seen: string;
  readonly mayManage: boolean;
}

const plurals = { tool: 'tools', prompt: 'prompts', resource: 'resources' } as const;

/** The words for the row of the default within a sentence, such as "new tools". */
export function newThings(kind: PrimitiveKind): string {
  return `new ${kind}s`;
}

/** The matrix of tools, prompts or resources and the groups that may use them, with a checkbox for each pair. */
export function toolAccessPage(data: ToolAccessPageData, frame: Frame): Html {
  const { heading, tabs, kind, list, columns, others, errors, hasGroups } = data;
  const lead = `Choose for each ${kind}: everyone who can use the server, or only members of some groups. API keys and clients that act for no person can use a restricted ${kind} only if it is chosen for them by name. To restrict a ${kind}, untick Everyone and tick groups.`;
  const content = html`${pageHeading({ heading, lead })}
${tabNavigation(tabs)}
${partNavigation(data.parts)}
${errorSummary(errors)}
${statusNotice(data.notice)}
${!hasGroups && html`<p class="notice warning">There are no groups yet. <a href="${data.groupsPage}">Create a group</a> to restrict ${plurals[kind]} to its members.</p>`}
${listFilter(list)}
${matrixForm(data, frame)}
${pager(list)}
${kind === 'resource' && data.mayManage && addForm(data)}
${others.length > 0 && columnForm(data)}`;
  const title = errors.length > 0 ? 'Not saved yet' : `Who can use what on ${titleText(heading)}`;
  return layout({ title, width: columns.length > 3 ? 'table' : 'text' }, frame, content);
}

function matrixForm(data: ToolAccessPageData, frame: Frame): Html {
  const { rows, later, kind, columns, mayManage, isWhole, seen, action } = data;
  const isEmpty = rows.length === 0;
  const none = isWhole
    ? `No ${plurals[kind]} are known yet. They appear here once an assistant has listed them.`
    : `No ${plurals[kind]} match.`;
  const table = html`<div class="scroll" tabindex="0" role="region" aria-label="Who can use which ${plurals[kind]}">
<table class="matrix">
<caption class="unseen">Who can use which ${plurals[kind]}</caption>
<thead>
<tr>
<th scope="col">${kind === 'tool' ? 'Tool' : kind === 'prompt' ? 'Prompt' : 'Resource'}</th>
<th scope="col">Everyone${fillButton('everyone', 'everyone', data)}</th>
${columns.map(({ id, name, help }) => html`<th scope="col"><span dir="auto">${name}</span> <span class="soft">${help}</span>${fillButton(id, name, data)}</th>`)}
</tr>
</thead>
<tbody>
${rows.map((row, place) => matrixRow(row, { place, id: `row-${place}`, ...data }))}
${isEmpty && html`<tr><td class="nothing" colspan="${columns.length + 2}">${none}</td></tr>`}
</tbody>
<tbody class="later">
${matrixRow(later, { place: rows.length, id: 'row-later', ...data })}
</tbody>
</table>
</div>`;
  if (!mayManage) return table;
  // The Enter key presses the first button of a form, so that it reviews the changes.
  const fields = html`<button class="unseen" tabindex="-1" aria-hidden="true">Review changes</button>
${hiddenField('seen', seen)}
${table}
<div class="actions"><button class="primary">Review changes</button></div>
<p class="help">The next page shows who gains and who loses access. Nothing is saved until you confirm it there.</p>`;
  return postForm(frame, { action }, fields);
}

function fillButton(
  column: string,
  name: string,
  { mayManage, rows }: ToolAccessPageData,
): Html | false {
  if (!mayManage || rows.length < 2) return false;
  return html` <button class="quiet fill" name="step" value="fill:${column}" aria-label="Check or uncheck ${name} in all rows">All</button>`;
}

interface RowPlace extends Pick<ToolAccessPageData, 'kind' | 'columns' | 'mayManage' | 'errors'> {
  readonly place: number;
  readonly id: string;
}

function matrixRow(
  row: AccessRow,
  { place, id, kind, columns, mayManage, errors }: RowPlace,
): Html {
  const { key, name, title, isForEveryone, groupIds } = row;
  const error = errors.find(({ field }) => field === id);
  const of = name ?? newThings(kind);
  const cell = (field: string, column: string, isChecked: boolean, className: string) =>
    html`<td class="${className}">
<label><input type="checkbox" name="${place}.${field}"${isChecked && html` checked`}${!mayManage && html` disabled`} aria-label="${column}: ${of}"><span>${column}</span></label>
</td>`;
  const label =
    name === undefined
      ? html`<strong>New ${plurals[kind]}</strong>
<p class="note">What the server lists for the first time</p>`
      : html`<code dir="auto">${name}</code>${badgesOf(row).map((one) => html` ${badge(one)}`)}${title && title !== name && html`<p class="note" dir="auto">${title}</p>`}`;
  return html`<tr id="${id}" tabindex="-1"${error && html` class="wrong"`}>
<th scope="row">${hiddenField(`row.${place}`, key)}${label}${error && html`<p class="error">${error.message}</p>`}</th>
${cell('everyone', 'Everyone', isForEveryone, 'everyone')}
${columns.map((one) => cell(`group.${one.id}`, one.name, groupIds.includes(one.id), 'of-group'))}
</tr>`;
}

function badgesOf({ kind, isHidden, isWithheld }: AccessRow): readonly Badge[] {
  return [
    ...(kind === 'template' ? [{ text: 'Template', tone: 'plain' } as const] : []),
    ...(isHidden ? [{ text: 'Hidden', tone: 'plain' } as const] : []),
    ...(isWithheld ? [{ text: 'In review', tone: 'care' } as const] : []),
  ];
}

/** Adds a resource by URI, because a server may have resources that it does not list. */
function addForm({ path }: ToolAccessPageData): Html {
  return html`<form method="get" action="${path}" class="narrow-form">
${hiddenField('state', 'resource')}
${textField({
  name: 'add',
  label: 'Add a resource',
  help: 'The URI, or a URI template such as file:///reports/{name}, exactly as the server has it',
  optional: 'unmarked',
  attributes: html`spellcheck="false" autocomplete="off"`,
})}
<div class="actions"><button>Add a row</button></div>
</form>`;
}

function columnForm({ path, others, kind }: ToolAccessPageData): Html {
  return html`<form method="get" action="${path}" class="narrow-form">
${hiddenField('state', kind)}
${selectField({ name: 'with', label: 'Show another group', options: others })}
<div class="actions"><button>Add a column</button></div>
</form>`;
}

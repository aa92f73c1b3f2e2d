// Who may use what of a server, as a matrix of names and groups. A change is previewed before it is saved.

import type { FastifyReply } from 'fastify';
import type { z } from 'zod';
import { groupList } from '#admin/groups';
import { AdministrationRefusal, notFound } from '#admin/refusal';
import { toolChangeRules, toolPreview } from '#admin/tool-rules';
import { toolList, type ToolView } from '#admin/tools';
import { findServer } from '#db/servers';
import { audienceOf, defaultAudience, defaultKindOf, noToolRules, rulesSeen } from '#db/tool-rules';
import {
  type AccessRules,
  type Audience,
  groupsOfRules,
  type PrimitiveKind,
  primitiveKinds,
} from '#model/tool-rights';
import type { Form } from '#oauth/forms';
import type { FieldError } from '#web/forms';
import { queryChoice, queryText, seeOther } from '#web/page-request';
import type {
  DashboardGuard,
  DashboardRequest,
  DashboardVisit,
  FormHandler,
  PageHandler,
} from './guard.ts';
import { listQuery } from './lists.ts';
import { sendDashboardPage } from './page.ts';
import type { DashboardPorts } from './ports.ts';
import { counted, inWords } from './questions.ts';
import { serverCrumbs, serverPath, serverTabs } from './server-tabs.ts';
import { type AccessRow, newThings, toolAccessPage } from './tool-access-page.ts';
import { toolPreviewPage } from './tool-preview-page.ts';
import { toolTabs } from './tool-tabs.ts';

const toRead = 'people.read';
const toManage = 'server.manage';

/** `/servers/{server}/tools/access`: which groups may use which tools, prompts and resources of a server. */
export function toolAccessRoutes(guard: DashboardGuard): void {
  guard.get('/servers/:server/tools/access', toRead, showMatrix);
  guard.post('/servers/:server/tools/access', toManage, changeMatrix);
}

const states = [
  { value: 'tool', text: 'Tools' },
  { value: 'prompt', text: 'Prompts' },
  { value: 'resource', text: 'Resources' },
] as const;
type ShownKind = (typeof states)[number]['value'];

const shape = { states, columns: ['Name'], usual: { sort: '', order: 'asc' } } as const;
const notices: Readonly<Record<string, string>> = {
  saved: 'Saved. The change takes effect on the next call.',
  nothing: 'Nothing was changed.',
};

/** The most groups that have a column unless someone asks for more. */
const usualGroups = 8;

/** A tool, prompt or resource in the matrix, or the default for later ones, which has no name. */
interface Entry {
  readonly kind: PrimitiveKind;
  readonly name: string | undefined;
}

/** The values that a browser sent for a row. */
interface EnteredRow extends Entry {
  readonly isForEveryone: boolean;
  readonly groupIds: readonly string[];
}

/** The matrix as it is now, and the part of it that the URL asks for. */
async function openMatrix(
  visit: DashboardVisit,
  request: DashboardRequest,
  { db }: DashboardPorts,
) {
  const { server: name = '' } = request.params;
  const { items } = await visit.perform(toolList, { server: name });
  const server = await findServer(db, visit.organization, name);
  if (!server) throw notFound('server');
  const { rules = noToolRules } = server.target;
  const query = listQuery(request, shape);
  const { filter, state, start, end } = query.part;
  const kind = states.find(({ value }) => value === state)?.value ?? 'tool';
  const all = entriesOf(items, kind, queryText(request, 'add'));
  const found = all.filter((one) => matches(one, filter.toLowerCase()));
  const { items: groups } = await visit.perform(groupList);
  const used = groupsOfRules(rules);
  const wanted = queryText(request, 'with');
  const shown = groups.filter(({ id }) => used.has(id) || id === wanted);
  const others = groups.filter(({ id }) => !used.has(id) && id !== wanted);
  const room = Math.max(0, usualGroups - shown.length);
  const columns = [...shown, ...others.slice(0, room)].sort((a, b) => (a.name < b.name ? -1 : 1));
  return {
    server,
    rules,
    seen: rulesSeen(rules),
    query,
    kind,
    total: found.length,
    isWhole: filter === '',
    page: found.slice(start, end),
    columns,
    others: others.slice(room),
    hasGroups: groups.length > 0,
  };
}

type Matrix = Awaited<ReturnType<typeof openMatrix>>;
type Known = Pick<ToolView, 'name' | 'title' | 'isHidden' | 'isWithheld'> & {
  readonly kind: PrimitiveKind;
};

function entriesOf(
  items: readonly ToolView[],
  wanted: ShownKind,
  added: string | undefined,
): readonly Known[] {
  const entries = items.flatMap(({ kind, name, title, isHidden, isWithheld }) =>
    kind !== 'instructions' && defaultKindOf(kind) === wanted
      ? [{ kind, name, title, isHidden, isWithheld }]
      : [],
  );
  const isNew = added !== undefined && added !== '' && wanted === 'resource';
  if (!isNew || entries.some(({ name }) => name === added)) return entries;
  const kind = /[{}]/.test(added) ? 'template' : 'resource';
  return [{ kind, name: added, title: null, isHidden: false, isWithheld: false }, ...entries];
}

function matches({ name, title }: Known, filter: string): boolean {
  return [name, title ?? ''].some((text) => text.toLowerCase().includes(filter));
}

const showMatrix: PageHandler = async (visit, request, reply, { ports }) => {
  const matrix = await openMatrix(visit, request, ports);
  return sendMatrix(visit, request, reply, matrix, {
    notice: queryChoice(request, 'done', notices),
  });
};

function sendMatrix(
  visit: DashboardVisit,
  request: DashboardRequest,
  reply: FastifyReply,
  matrix: Matrix,
  {
    entered = [],
    errors = [],
    notice,
  }: {
    readonly entered?: readonly EnteredRow[];
    readonly errors?: readonly FieldError[];
    readonly notice?: string | undefined;
  },
) {
  const { server, rules, seen, query, kind, total, page, columns, others } = matrix;
  const typed = new Map(entered.map((row) => [keyOf(row), row]));
  const rowOf = (one: Entry & Partial<Omit<Known, 'name' | 'kind'>>): AccessRow => {
    const row = typed.get(keyOf(one));
    const audience = audienceNow(rules, one);
    return {
      key: keyOf(one),
      kind: one.kind,
      name: one.name,
      title: one.title ?? undefined,
      isHidden: one.isHidden ?? false,
      isWithheld: one.isWithheld ?? false,
      isForEveryone: row ? row.isForEveryone : audience === 'everyone',
      groupIds: row ? row.groupIds : audience === 'everyone' ? [] : [...audience],
    };
  };
  const data = {
    heading: visit.server,
    tabs: serverTabs(visit, server.name, 'tools'),
    parts: toolTabs(visit, server.name, 'access'),
    notice,
    errors,
    kind,
    list: query.frame(total),
    isSearchable: total > 0 || !matrix.isWhole,
    isWhole: matrix.isWhole,
    rows: page.map(rowOf),
    later: rowOf({ kind, name: undefined }),
    columns: columns.map(({ id, name, members }) => ({
      id,
      name,
      help: members === 0 ? 'no members' : counted(members, 'person', 'people'),
    })),
    others: others.map(({ id, name }) => ({ value: id, text: name, isChosen: false })),
    groupsPage: `/dashboard/${visit.organization}/groups`,
    hasGroups: matrix.hasGroups,
    action: request.url.replace(/[?&]done=\w+/, ''),
    path: `${serverPath(visit.organization, server.name)}/tools/access`,
    seen,
    mayManage: visit.may(toManage),
  };
  const crumbs = toolCrumbs(visit, 'Who can use what');
  return sendDashboardPage(reply, visit, toolAccessPage, data, { crumbs });
}

function toolCrumbs(visit: DashboardVisit, text: string) {
  const href = `${serverPath(visit.organization, visit.server.name)}/tools`;
  return serverCrumbs(visit, { text: 'Tools', href }, { text });
}

const changeMatrix: FormHandler = async (visit, sent, request, reply, { ports }) => {
  const matrix = await openMatrix(visit, request, ports);
  const { server, rules, seen } = matrix;
  const shown = new Set(matrix.columns.map(({ id }) => id));
  const entered = enteredRows(sent).map((row) => withUnseenGroups(row, rules, shown));
  const again = (...errors: FieldError[]) =>
    sendMatrix(visit, request, reply, matrix, { entered, errors });
  const step = sent.get('step') ?? 'review';
  if (step === 'edit') return again();
  if (step.startsWith('fill:')) {
    const filled = filledRows(entered, step.slice('fill:'.length));
    return sendMatrix(visit, request, reply, matrix, { entered: filled });
  }
  if (sent.get('seen') !== seen) return again(stale);
  const changed = entered.filter((row) => !isSame(audienceNow(rules, row), row));
  const errors = entered.flatMap((row) => rowError(row, matrix) ?? []);
  if (errors.length > 0) return again(...errors);
  const home = request.url.replace(/[?&]done=\w+/, '');
  const done = (what: string) =>
    seeOther(reply, `${home}${home.includes('?') ? '&' : '?'}done=${what}`);
  if (changed.length === 0) return done('nothing');
  const planned = changed.map(({ kind, name, isForEveryone, groupIds }) => ({
    kind,
    ...(name !== undefined && { name }),
    access: isForEveryone ? 'everyone' : 'groups',
    groupIds: isForEveryone ? [] : groupIds,
  }));
  try {
    const preview = await visit.perform(toolPreview, { server: server.name, rules: planned });
    if (step !== 'save' && affects(preview)) {
      const data = {
        heading: `Change who can use ${changedWords(changed)}?`,
        server: visit.server,
        preview,
        action: request.url,
        fields: sent,
      };
      const crumbs = toolCrumbs(visit, 'Review');
      return sendDashboardPage(reply, visit, toolPreviewPage, data, { crumbs });
    }
    const change = { server: server.name, rules: planned, rulesSeen: seen };
    await visit.perform(toolChangeRules, change);
  } catch (refusal) {
    if (!(refusal instanceof AdministrationRefusal) || refusal.code === 'forbidden') throw refusal;
    const now = await openMatrix(visit, request, ports);
    const error = now.seen !== seen ? stale : { field: '', message: `${refusal.message}.` };
    return sendMatrix(visit, request, reply, now, { entered, errors: [error] });
  }
  return done('saved');
};

const stale: FieldError = {
  field: '',
  message:
    'Someone changed the rules after you had opened this page. Compare your choice with the present rules, then save again.',
};

type Preview = z.output<typeof toolPreview.output>;

function affects({ gains, loses }: Preview): boolean {
  return [gains, loses].some((side) => Object.values(side).some(({ count }) => count > 0));
}

function audienceNow(rules: AccessRules, { kind, name }: Entry): Audience {
  return name === undefined
    ? defaultAudience(rules, defaultKindOf(kind))
    : audienceOf(rules, { kind, name });
}

function isSame(audience: Audience, { isForEveryone, groupIds }: EnteredRow): boolean {
  if (audience === 'everyone' || isForEveryone) return audience === 'everyone' && isForEveryone;
  return audience.size === groupIds.length && groupIds.every((id) => audience.has(id));
}

/** The rows of the form: each is named, and has a field for every box that is checked. */
function enteredRows(sent: Form): EnteredRow[] {
  return [...sent].flatMap(([field, key]) => {
    const place = /^row\.(\d+)$/.exec(field)?.[1];
    const entry = place === undefined ? undefined : entryOf(key);
    if (place === undefined || !entry) return [];
    const start = `${place}.group.`;
    const groupIds = [...sent.keys()]
      .filter((one) => one.startsWith(start))
      .map((one) => one.slice(start.length));
    return [{ ...entry, isForEveryone: sent.has(`${place}.everyone`), groupIds }];
  });
}

/** The key of a row: `tool:` and the encoded name, or `tool` alone for the default. */
function keyOf({ kind, name }: Entry): string {
  return name === undefined ? kind : `${kind}:${encodeURIComponent(name)}`;
}

function entryOf(key: string): Entry | undefined {
  const [text = '', ...rest] = key.split(':');
  const kind = primitiveKinds.find((one) => one === text);
  if (!kind) return undefined;
  try {
    return { kind, name: rest.length === 0 ? undefined : decodeURIComponent(rest.join(':')) };
  } catch {
    return undefined;
  }
}

/** Groups without a column keep their access, unless the row is for everyone now. */
function withUnseenGroups(
  row: EnteredRow,
  rules: AccessRules,
  shown: ReadonlySet<string>,
): EnteredRow {
  if (row.isForEveryone) return row;
  const audience = audienceNow(rules, row);
  const unseen = audience === 'everyone' ? [] : [...audience].filter((id) => !shown.has(id));
  return { ...row, groupIds: [...new Set([...row.groupIds, ...unseen])] };
}

/** Checks the boxes of a column, except the default's, or unchecks them if all are checked. A row is for everyone or for groups. */
function filledRows(rows: readonly EnteredRow[], column: string): EnteredRow[] {
  const named = rows.filter(({ name }) => name !== undefined);
  const isChecked = ({ isForEveryone, groupIds }: EnteredRow) =>
    column === 'everyone' ? isForEveryone : groupIds.includes(column);
  const isFull = named.every(isChecked);
  return rows.map((row) => {
    if (row.name === undefined) return row;
    if (column === 'everyone') {
      return { ...row, isForEveryone: !isFull, groupIds: isFull ? row.groupIds : [] };
    }
    const others = row.groupIds.filter((id) => id !== column);
    if (isFull) return { ...row, groupIds: others };
    return { ...row, isForEveryone: false, groupIds: [...others, column] };
  });
}

/** A row needs everyone or groups, and cannot have both. */
function rowError(row: EnteredRow, { page, columns }: Matrix): FieldError | undefined {
  const { kind, name, isForEveryone, groupIds } = row;
  if (isForEveryone !== groupIds.length > 0) return undefined;
  const what = name ?? newThings(kind);
  const place = page.findIndex((one) => keyOf(one) === keyOf(row));
  const field = name === undefined ? 'row-later' : `row-${place}`;
  if (!isForEveryone) {
    const message = `Choose Everyone or at least one group for ${what}. To take a tool from everyone, hide it on the Tools page.`;
    return { field, message };
  }
  const groups = groupIds.map((id) => columns.find((one) => one.id === id)?.name ?? id);
  const all = groups.length > 1 ? 'all' : 'both';
  const ticked = inWords(['Everyone', ...groups]);
  const restricted = name === undefined ? what : `the ${kind}`;
  const message = `For ${what}, ${ticked} are ${all} ticked. Untick Everyone to restrict ${restricted} to ${inWords(groups)}.`;
  return { field, message };
}

function changedWords(changed: readonly EnteredRow[]): string {
  const [first] = changed;
  if (changed.length === 1 && first) return first.name ?? newThings(first.kind);
  return counted(changed.length, 'thing');
}

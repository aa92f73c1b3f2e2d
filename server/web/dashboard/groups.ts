import type { FastifyReply } from 'fastify';
import {
  groupAddMember,
  groupMap,
  groupRemoveMember,
  groupUnmap,
  groupCreate,
  groupDelete,
  groupList,
  groupRead,
  type Restricted,
} from '#admin/groups';
import { findCandidates, isRejected, type Rejected } from '#admin/group-members';
import { longestList, mostListed } from '#admin/invitation-list';
import { notFound } from '#admin/refusal';
import { findOrganization } from '#db/organizations';
import { findServerTitles } from '#db/servers';
import { defaultKindOf } from '#db/tool-rules';
import {
  errorOf,
  errorSummary,
  type FieldError,
  hiddenField,
  postForm,
  textArea,
} from '#web/forms';
import { displayName, html, type Html } from '#web/html';
import { dashboardPath, type Frame, layout, pageHeading, statusNotice } from '#web/layout';
import { queryText, seeOther } from '#web/page-request';
import { dataTable, type Table } from '#web/tables';
import { titleWithName } from '#web/titles';
import { type Entered, formFor, type FormState } from './forms.ts';
import type {
  DashboardGuard,
  DashboardRequest,
  DashboardVisit,
  FormHandler,
  PageHandler,
} from './guard.ts';
import { sendDashboardPage } from './page.ts';
import type { DashboardPorts } from './ports.ts';
import { counted, questionRoutes, type Question } from './questions.ts';
import { serverPath } from './server-tabs.ts';
import { newThings } from './tool-access-page.ts';

const toRead = 'people.read';
const toManage = 'people.manage';
const newForm = formFor(groupCreate);
const mapForm = formFor(groupMap);
const homeOf = (organization: string) => `${dashboardPath(organization)}/groups`;

/** The state of the forms on a group's page. `notice` says what was done, even if something else was refused. */
interface GroupFormState extends FormState {
  /** The addresses that were typed, without those of people who were added. */
  readonly emails?: string;
}

/** `/groups`: the groups of an organization, their members, and the servers restricted to them. */
export function groupRoutes(guard: DashboardGuard): void {
  guard.get('/groups', toRead, showGroups);
  guard.post('/groups', toManage, createGroup);
  guard.get('/groups/:groupId', toRead, showGroup);
  guard.post('/groups/:groupId/remove-person', toManage, removePerson);
  guard.post('/groups/:groupId/map', toManage, changeMapping(groupMap));
  guard.post('/groups/:groupId/unmap', toManage, changeMapping(groupUnmap));
  guard.post('/groups/:groupId/add-people', toManage, addPeople);
  questionRoutes(guard, '/groups/:groupId/delete', toManage, deletion);
}

/** Names servers by their titles. */
async function serverNames(organization: string, names: readonly string[], { db }: DashboardPorts) {
  const titles = await findServerTitles(db, organization, names);
  return (name: string) => titleWithName({ name, title: titles.get(name) });
}

async function sendGroups(
  visit: DashboardVisit,
  reply: FastifyReply,
  { entered = newForm.blank, errors = [] }: FormState,
  ports: DashboardPorts,
) {
  const { organization } = visit;
  const { items } = await visit.perform(groupList);
  const nameOf = await serverNames(
    organization,
    items.flatMap(({ servers }) => servers),
    ports,
  );
  const table: Table = {
    caption: 'Groups',
    columns: ['Name', 'People', 'Servers', 'Tools'],
    rows: items.map((group) => ({
      id: group.id,
      cells: [
        { kind: 'name', text: group.name, href: `${homeOf(organization)}/${group.id}` },
        { kind: 'text', text: String(group.members) },
        { kind: 'text', text: group.servers.map(nameOf).join(', ') || 'None' },
        { kind: 'text', text: String(group.restricted.length || 'None') },
      ],
    })),
    empty: { text: 'No groups yet. Create one to restrict a server to its members.' },
    now: ports.clock.now(),
  };
  const mayManage = visit.may('people.manage');
  const data = { table, mayManage, action: homeOf(organization), entered, errors };
  const crumbs = [{ text: 'Groups' }];
  return sendDashboardPage(reply, visit, groupsPage, data, { crumbs });
}

const showGroups: PageHandler = (visit, _request, reply, { ports }) =>
  sendGroups(visit, reply, {}, ports);

const createGroup: FormHandler = async (visit, sent, _request, reply, { ports }) => {
  const { organization } = visit;
  const entered = newForm.read(sent);
  try {
    const input = newForm.inputOf(entered);
    const { id } = await visit.perform(groupCreate, input);
    return seeOther(reply, `${homeOf(organization)}/${id}`);
  } catch (refusal) {
    const errors = newForm.errorsOf(refusal, entered, 'name');
    return sendGroups(visit, reply, { entered, errors }, ports);
  }
};

async function sendGroup(
  visit: DashboardVisit,
  { params: { groupId = '' } }: DashboardRequest,
  reply: FastifyReply,
  shown: GroupFormState,
  ports: DashboardPorts,
) {
  const data = await groupData(visit, groupId, shown, ports);
  const crumbs = [{ text: 'Groups', href: homeOf(visit.organization) }, { text: data.name }];
  return sendDashboardPage(reply, visit, groupPage, data, { crumbs });
}

/** `entered` is in the form of a mapping, `emails` in the form of members. */
async function groupData(
  visit: DashboardVisit,
  groupId: string,
  { entered = mapForm.blank, emails = '', errors = [], notice }: GroupFormState,
  ports: DashboardPorts,
) {
  const { organization } = visit;
  const group = await visit.perform(groupRead, { groupId });
  const home = `${homeOf(organization)}/${groupId}`;
  const mayManage = visit.may('people.manage');
  const { restricted } = group;
  const named = [...group.servers, ...restricted.map(({ server }) => server)];
  const nameOf = await serverNames(organization, named, ports);
  const servers = group.servers.map((name) => ({
    text: nameOf(name),
    href: serverPath(organization, name),
  }));
  // The tools, prompts and resources that only members of this group, and perhaps of other groups, can use.
  const tools = restricted.map((one) => ({
    text: `${one.kind === 'tool' || one.name === null ? '' : `${one.kind} `}${displayName(one.name ?? newThings(one.kind), 60)}`,
    server: { text: nameOf(one.server), href: serverPath(organization, one.server) },
    href: accessPath(organization, one),
  }));
  const peopleHref = `${dashboardPath(organization)}/people`;
  const shown = { servers, tools, home, peopleHref, mayManage };
  return { ...group, ...shown, entered, emails, errors, notice };
}

/** The path of the page that says who can use a restricted tool, prompt or resource. */
function accessPath(organization: string, { server, kind, name }: Restricted): string {
  const query = new URLSearchParams({
    state: defaultKindOf(kind),
    ...(name !== null && { filter: name }),
  });
  return `${serverPath(organization, server)}/tools/access?${query.toString()}`;
}

const showGroup: PageHandler = (visit, request, reply, { ports }) => {
  const count = (name: string) => Math.min(Number(queryText(request, name)) || 0, mostListed);
  const notice = addedWords(count('added'), count('already'));
  return sendGroup(visit, request, reply, { notice }, ports);
};

const removePerson: FormHandler = async (visit, sent, request, reply) => {
  const { organization } = visit;
  const { groupId = '' } = request.params;
  await visit.perform(groupRemoveMember, { groupId, userId: sent.get('userId') ?? '' });
  return seeOther(reply, `${homeOf(organization)}/${groupId}`);
};

/** Maps a group of the identity provider to this group, or removes the mapping. */
const changeMapping =
  (operation: typeof groupMap): FormHandler =>
  async (visit, sent, request, reply, { ports }) => {
    const { organization } = visit;
    const { groupId = '' } = request.params;
    const refused = await mapForm.submit({ sent }, (input) =>
      visit.perform(operation, { ...input, groupId }),
    );
    if (refused) return sendGroup(visit, request, reply, refused, ports);
    return seeOther(reply, `${homeOf(organization)}/${groupId}`);
  };

/** Adds the members whose addresses were typed. The form shows the other addresses again, with the reason for each. */
const addPeople: FormHandler = async (visit, sent, request, reply, { ports }) => {
  const { organization } = visit;
  const { groupId = '' } = request.params;
  await visit.perform(groupRead, { groupId });
  const typed = sent.get('emails') ?? '';
  const addresses = typed.split(/[\r\n,;]/).flatMap((one) => one.trim() || []);
  const again = (emails: string, messages: readonly string[], notice?: string) => {
    const errors = messages.map((message) => ({ field: 'emails', message }));
    return sendGroup(visit, request, reply, { emails, errors, notice }, ports);
  };
  if (addresses.length === 0) return again(typed, ['Type at least one address.']);
  if (addresses.length > mostListed) {
    return again(typed, [`There are more than ${mostListed} addresses: add them in parts.`]);
  }
  const { id: organizationId = '' } = (await findOrganization(ports.db, organization)) ?? {};
  const candidates = await findCandidates(addresses, { organizationId, groupId }, ports);
  let added = 0;
  for (const one of candidates) {
    if (one.status !== 'ready') continue;
    await visit.perform(groupAddMember, { groupId, userId: one.userId });
    added += 1;
  }
  const rejected = candidates.filter(isRejected);
  const already = candidates.length - added - rejected.length;
  if (rejected.length === 0) {
    const query = `added=${added}&already=${already}`;
    return seeOther(reply, `${homeOf(organization)}/${groupId}?${query}`);
  }
  const kept = rejected.map((one) => one.typed).join('\n');
  return again(kept, rejectedWords(rejected), addedWords(added, already));
};

const mostReasons = 50;

function rejectedWords(rejected: readonly Rejected[]): readonly string[] {
  const more = rejected.length - mostReasons;
  const reasons = rejected.slice(0, mostReasons).map(({ why }) => `${why}.`);
  return more > 0
    ? [...reasons, `${counted(more, 'more address was', 'more addresses were')} not added.`]
    : reasons;
}

/** Says how many members were added, and how many were in the group already; `undefined` if none. */
function addedWords(added: number, already: number): string | undefined {
  const sentences = [
    ...(added > 0 ? [`${counted(added, 'member')} added.`] : []),
    ...(already > 0 ? [`${already} ${already === 1 ? 'was' : 'were'} in the group already.`] : []),
  ];
  return sentences.length > 0 ? sentences.join(' ') : undefined;
}

const deletion: Question = {
  async ask({ organization, perform }, { params: { groupId = '' } }) {
    const { items } = await perform(groupList);
    const group = items.find(({ id }) => id === groupId);
    if (!group) throw notFound('group');
    return {
      heading: `Delete group ${group.name}?`,
      consequences: [
        'The group’s members stay members of the organization. This cannot be undone.',
      ],
      verb: 'Delete group',
      cancel: `${homeOf(organization)}/${groupId}`,
      crumbs: [{ text: 'Groups', href: homeOf(organization) }, { text: group.name }],
    };
  },
  async act({ organization, perform }, { params: { groupId = '' } }) {
    await perform(groupDelete, { groupId });
    return homeOf(organization);
  },
};

/** The groups of an organization, and the name entered for a new one. */
interface GroupsPageData {
  readonly table: Table;
  readonly mayManage: boolean;
  readonly action: string;
  readonly entered: Entered;
  readonly errors: readonly FieldError[];
}

/** The groups of an organization, and a form for a new one. */
function groupsPage(data: GroupsPageData, frame: Frame): Html {
  const { mayManage, action, entered, errors } = data;
  const title = errors.length > 0 ? 'Not created yet' : 'Groups';
  const lead =
    'You can restrict a server to groups. Then only their members can use it, and this applies to owners too. Choose the groups on the server’s Access page.';
  const fields = html`${newForm.fields(entered, errors, { focus: false })}
<div class="actions"><button class="primary">Create group</button></div>`;
  const content = html`${pageHeading({ heading: 'Groups', lead })}
${errorSummary(errors)}
${dataTable(data.table)}
${
  mayManage &&
  html`<section class="section narrow" aria-labelledby="new-heading">
<h2 id="new-heading">New group</h2>
${postForm(frame, { action, novalidate: true }, fields)}
</section>`
}`;
  return layout({ title, width: 'table' }, frame, content);
}

type GroupPageData = Awaited<ReturnType<typeof groupData>>;

/** One group: its members and how they were added, its servers, and the identity provider's groups that map to it. */
function groupPage(data: GroupPageData, frame: Frame): Html {
  const { name, servers, tools, mayManage, errors, notice } = data;
  const refused = notice === undefined ? 'Not changed' : 'Not all added';
  const title = errors.length > 0 ? refused : name;
  const lead =
    servers.length + tools.length > 0
      ? 'The members of this group can use the servers and tools listed below.'
      : 'No server and no tool is restricted to this group. To restrict a server, open its Access page.';
  const content = html`${pageHeading({ heading: name, lead })}
${statusNotice(notice)}
${errorSummary(errors)}
${peopleSection(data, frame)}
${servers.length > 0 && serversSection(servers)}
${tools.length > 0 && toolsSection(tools)}
${mappingSection(data, frame)}
${mayManage && deleteSection(data)}`;
  return layout({ title, width: 'text' }, frame, content);
}

function serversSection(servers: GroupPageData['servers']): Html {
  return html`<section class="section" aria-labelledby="servers-heading">
<h2 id="servers-heading">Servers restricted to this group</h2>
<p class="help">A person can use these servers only as a member of this group, or of another group on their Access pages.</p>
<ul class="rows">
${servers.map(
  ({ text, href }) =>
    html`<li>
<div><a href="${href}" dir="auto">${text}</a></div>
<a class="button" href="${href}/access">Access<span class="unseen"> to ${text}</span></a>
</li>`,
)}
</ul>
</section>`;
}

const mostTools = 100;

function toolsSection(tools: GroupPageData['tools']): Html {
  const more = tools.length - mostTools;
  return html`<section class="section" aria-labelledby="tools-heading">
<h2 id="tools-heading">Tools restricted to this group</h2>
<p class="help">A person can use these only as a member of this group, or of another group chosen for them, and with access to the server.</p>
<ul class="rows">
${tools.slice(0, mostTools).map(({ text, server, href }) => html`<li><div><a href="${href}" dir="auto">${text}</a> of <a href="${server.href}" dir="auto">${server.text}</a></div></li>`)}
${more > 0 && html`<li>${counted(more, 'more', 'more')}</li>`}
</ul>
</section>`;
}

function deleteSection({ servers, tools, home }: GroupPageData): Html {
  const isInUse = servers.length > 0 || tools.length > 0;
  return html`<section class="section" aria-labelledby="delete-heading">
<h2 id="delete-heading">Delete group</h2>
<ul class="rows">
<li>
${
  isInUse
    ? html`<div>You cannot delete this group while servers or tools are restricted to it. Open them to everyone or to other groups first.</div>`
    : html`<div>The members stay in the organization.</div>
<a class="button danger" href="${home}/delete" data-question>Delete group</a>`
}
</li>
</ul>
</section>`;
}

const addedBy = {
  provider: 'From the identity provider',
  scim: 'From the directory',
} as const;

function peopleSection(
  { people, home, peopleHref, mayManage, emails, errors }: GroupPageData,
  frame: Frame,
): Html {
  const remove = (id: string, email: string) =>
    postForm(
      frame,
      { action: `${home}/remove-person` },
      html`${hiddenField('userId', id)}
<button class="danger" aria-label="Remove ${email}">Remove</button>`,
    );
  const count = errors.filter(({ field }) => field === 'emails').length;
  const emailsField = textArea({
    name: 'emails',
    label: 'E-mail addresses',
    help: 'One a line or separated by commas.',
    value: emails,
    error:
      count > 1 ? 'These were not added. The top of the page says why.' : errorOf(errors, 'emails'),
    attributes: html`autocomplete="off" spellcheck="false" maxlength="${longestList}"`,
  });
  const add = html`${emailsField}
<div class="actions"><button>Add members</button></div>`;
  return html`<section class="section" aria-labelledby="people-heading">
<h2 id="people-heading">Members</h2>
<ul class="rows">
${people.map(
  ({ id, email, source }) =>
    html`<li>
<div><a href="${peopleHref}/${id}" dir="auto">${email}</a></div>
${source === 'hand' ? mayManage && remove(id, email) : html`<span class="badge">${addedBy[source]}</span>`}
</li>`,
)}
${people.length === 0 && html`<li>No members yet.</li>`}
</ul>
${mayManage && postForm(frame, { action: `${home}/add-people`, novalidate: true }, add)}
</section>`;
}

function mappingSection(data: GroupPageData, frame: Frame): Html {
  const { externalNames, home, mayManage, entered, errors } = data;
  const end = (name: string) =>
    postForm(
      frame,
      { action: `${home}/unmap` },
      html`${hiddenField('externalName', name)}
<button class="danger" aria-label="Remove the mapping of ${name}">Remove</button>`,
    );
  const map = html`${mapForm.fields(entered, errors, { focus: false })}
<div class="actions"><button>Add mapping</button></div>`;
  return html`<section class="section" aria-labelledby="mapping-heading">
<h2 id="mapping-heading">Identity-provider groups</h2>
<p class="help">Members of these groups at the identity provider join this group at their next single sign-on.</p>
<ul class="rows">
${externalNames.map(
  (name) =>
    html`<li>
<div dir="auto"><code>${name}</code></div>
${mayManage && end(name)}
</li>`,
)}
${externalNames.length === 0 && html`<li>No group of the identity provider is mapped to this group.</li>`}
</ul>
${mayManage && postForm(frame, { action: `${home}/map`, novalidate: true }, map)}
</section>`;
}

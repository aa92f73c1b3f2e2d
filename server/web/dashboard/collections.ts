import type { FastifyReply } from 'fastify';
import {
  collectionAddMember,
  collectionChoose,
  collectionCreate,
  collectionRead,
  collectionRemoveMember,
  collectionSetMember,
  type CollectionView,
} from '#admin/collections';
import { notFound } from '#admin/refusal';
import { serverList } from '#admin/servers';
import { usableBy } from '#db/explained-rights';
import { findUserByEmail, listMemberships } from '#db/people';
import { findServer } from '#db/servers';
import { isSlug, slugRule } from '#model/slug';
import type { FieldError } from '#web/forms';
import { dashboardPath } from '#web/layout';
import { queryChoice, queryText, seeOther } from '#web/page-request';
import { titleWithName } from '#web/titles';
import { type EnteredTools, enteredTools, selectionOf, sentTools } from '#web/tool-choice';
import {
  collectionPage,
  decisionPage,
  memberToolsPage,
  newCollectionPage,
  type Preview,
} from './collection-page.ts';
import { sendExclusion } from './closed-server.ts';
import { includedTools, shownTools, sumOf, unlistedServers } from './collection-sums.ts';
import { formFor } from './forms.ts';
import type {
  DashboardGuard,
  DashboardRequest,
  DashboardVisit,
  FormHandler,
  PageHandler,
} from './guard.ts';
import { choosableTools } from './known-tools.ts';
import { sendDashboardPage } from './page.ts';
import type { DashboardPorts } from './ports.ts';
import { type Question, questionRoutes } from './questions.ts';
import { isExcluded, serverCrumbs, serverPath, serverTabs } from './server-tabs.ts';

const toRead = 'server.read';
const toManage = 'server.manage';
const newForm = formFor(collectionCreate);
const addForm = formFor(collectionAddMember);
const chooseForm = formFor(collectionChoose);

/** `/new-collection`, and `/servers/{server}/members`: the servers of a collection, and what becomes of their names. */
export function collectionRoutes(guard: DashboardGuard): void {
  guard.get('/new-collection', toManage, (visit, _request, reply, { ports }) =>
    sendNew(visit, reply, { name: '', title: '', members: [] }, ports),
  );
  guard.post('/new-collection', toManage, create);
  guard.get('/servers/:server/members', toRead, showMembers);
  guard.post('/servers/:server/members', toManage, addMember);
  guard.get('/servers/:server/members/:member/tools', toManage, showMemberTools);
  guard.post('/servers/:server/members/:member/tools', toManage, saveMemberTools);
  questionRoutes(guard, '/servers/:server/members/:member/remove', toManage, removal);
  guard.get('/servers/:server/name', toManage, (visit, request, reply) =>
    sendDecision(visit, request, reply, { decision: '', as: '', errors: [] }),
  );
  guard.post('/servers/:server/name', toManage, decide);
}

/** The path of the page of a collection's members. */
function membersPath({ organization, server }: DashboardVisit): string {
  return `${serverPath(organization, server.name)}/members`;
}

/** The collection in the path. @throws {AdministrationRefusal} `not_found` if the server is not a collection */
async function readCollection({ perform, server }: DashboardVisit): Promise<CollectionView> {
  if (!server.isCollection) throw notFound('collection');
  return perform(collectionRead, { collection: server.name });
}

/** The servers that can be members, with their titles. */
async function possibleMembers({ perform }: DashboardVisit) {
  const { items } = await perform(serverList, { limit: 100 });
  return items
    .filter(({ upstream }) => upstream.kind !== 'collection')
    .map(({ name, title }) => ({ name, text: titleWithName({ name, title }) }));
}

interface NewCollection {
  readonly name: string;
  readonly title: string;
  readonly members: readonly string[];
}

async function sendNew(
  visit: DashboardVisit,
  reply: FastifyReply,
  typed: NewCollection,
  { db }: Pick<DashboardPorts, 'db'>,
  errors: readonly FieldError[] = [],
) {
  const { organization } = visit;
  const home = dashboardPath(organization);
  const all = { type: 'all' } as const;
  const tools = await Promise.all(
    typed.members.map((server) => includedTools(db, organization, server, all)),
  );
  const data = {
    action: `${home}/new-collection`,
    cancel: `${home}/servers`,
    typed,
    servers: await possibleMembers(visit),
    sum: await sumOf(db, organization, withoutCollisions(tools.flat())),
    unlisted: await unlistedServers(db, organization, typed.members),
    errors,
  };
  const servers = { text: 'Servers', href: `${home}/servers` };
  const crumbs = [servers, { text: 'Create collection' }];
  return sendDashboardPage(reply, visit, newCollectionPage, data, { crumbs });
}

/** Keeps the first of several tools with one name: a new collection shows only that one. */
function withoutCollisions<One extends { readonly name: string }>(tools: readonly One[]): One[] {
  return [...new Map(tools.toReversed().map((one) => [one.name, one])).values()];
}

const create: FormHandler = async (visit, sent, _request, reply, { ports }) => {
  const members = [...sent.keys()].flatMap((field) =>
    field.startsWith('members.') ? [field.slice('members.'.length)] : [],
  );
  const typed = { name: sent.get('name') ?? '', title: sent.get('title') ?? '', members };
  if (sent.has('count')) return sendNew(visit, reply, typed, ports);
  if (members.length === 0) {
    const errors = [
      ...(isSlug(typed.name) ? [] : [{ field: 'name', message: `The name ${slugRule}.` }]),
      { field: 'members', message: 'Choose at least one server.' },
    ];
    return sendNew(visit, reply, typed, ports, errors);
  }
  try {
    const { name } = await visit.perform(collectionCreate, {
      name: typed.name,
      ...(typed.title && { title: typed.title }),
      members: members.map((server) => ({ server })),
    });
    return seeOther(reply, `${serverPath(visit.organization, name)}/members?done=created`);
  } catch (refusal) {
    const labels = {
      name: { field: 'name', label: 'The name' },
      title: { field: 'title', label: 'The title' },
    };
    const errors = newForm.errorsOf(refusal, newForm.blank, 'name', labels);
    return sendNew(visit, reply, typed, ports, errors);
  }
};

const notices: Readonly<Record<string, string>> = {
  created: 'Collection created. It works immediately; names that collide wait for you below.',
  added: 'Server added. Its tools are shown as soon as someone lists the tools of the collection.',
  removed: 'Server removed. The collection no longer reaches it.',
  saved: 'Saved. The change takes effect on the next call.',
};

const showMembers: PageHandler = (visit, request, reply, { ports }) =>
  isExcluded(visit) && visit.server.isCollection
    ? sendExclusion(visit, reply, 'members', ports)
    : sendMembers(visit, request, reply, [], ports);

async function sendMembers(
  visit: DashboardVisit,
  request: DashboardRequest,
  reply: FastifyReply,
  errors: readonly FieldError[],
  ports: DashboardPorts,
) {
  const collection = await readCollection(visit);
  const members = new Set(collection.members.map(({ server }) => server));
  const mayManage = visit.may(toManage);
  const data = {
    heading: visit.server,
    tabs: serverTabs(visit, visit.server.name, 'members'),
    notice: queryChoice(request, 'done', notices),
    home: serverPath(visit.organization, visit.server.name),
    servers: `${dashboardPath(visit.organization)}/servers`,
    members: collection.members,
    names: collection.names,
    sum: await sumOf(
      ports.db,
      visit.organization,
      await unhidden(visit, shownTools(collection), ports),
    ),
    preview: await previewOf(visit, request, collection, ports),
    addable: mayManage
      ? (await possibleMembers(visit)).filter(({ name }) => !members.has(name))
      : undefined,
    errors,
    now: ports.clock.now(),
  };
  const crumbs = serverCrumbs(visit, { text: 'Members' });
  return sendDashboardPage(reply, visit, collectionPage, data, { crumbs });
}

type Name = CollectionView['names'][number];

/** The tools that the collection itself does not hide. */
async function unhidden<Tool extends Pick<Name, 'name' | 'shown'>>(
  { organization, server }: DashboardVisit,
  tools: readonly Tool[],
  { db }: Pick<DashboardPorts, 'db'>,
): Promise<Tool[]> {
  const hidden = new Set((await findServer(db, organization, server.name))?.target.hiddenTools);
  return tools.filter(({ shown, name }) => !hidden.has(shown ?? name));
}

/**
 * The tools that the person with the entered address sees, of those listed before. The member servers are not asked: they would answer
 * with the person's own account.
 */
async function previewOf(
  visit: DashboardVisit,
  request: DashboardRequest,
  collection: CollectionView,
  ports: DashboardPorts,
): Promise<Preview | undefined> {
  if (!visit.may('people.read')) return undefined;
  const { db } = ports;
  const { organization } = visit;
  const as = (queryText(request, 'as') ?? '').trim().slice(0, 254);
  const entered = { as, assistant: queryText(request, 'assistant') ?? '' };
  if (as === '') return { ...entered, outcome: { type: 'none' } };
  const record = await findServer(db, organization, visit.server.name);
  const user = await findUserByEmail(db, as);
  const joined = user && (await listMemberships(db, user.id));
  if (!record || !user || !joined?.some((one) => one.organization === organization)) {
    return { ...entered, outcome: { type: 'unknown' } };
  }
  const mayUse = await usableBy(db, record, user.id);
  const isSeen = ({ kind, name, shown }: Name) => mayUse?.({ kind, name: shown ?? name }) === true;
  const tools = shownTools(collection);
  const sum = await sumOf(db, organization, tools.filter(isSeen));
  const unseen = tools.filter((one) => !isSeen(one)).map(({ shown, name }) => shown ?? name);
  return { ...entered, outcome: { type: 'seen', sum, unseen } };
}

const addMember: FormHandler = async (visit, sent, request, reply, { ports }) => {
  const server = sent.get('server') ?? '';
  if (server === '') {
    const errors = [{ field: 'server', message: 'Choose the server.' }];
    return sendMembers(visit, request, reply, errors, ports);
  }
  try {
    await visit.perform(collectionAddMember, { collection: visit.server.name, server });
  } catch (refusal) {
    const labels = { server: { field: 'server', label: 'The server' } };
    const errors = addForm.errorsOf(refusal, addForm.blank, 'server', labels);
    return sendMembers(visit, request, reply, errors, ports);
  }
  return seeOther(reply, `${membersPath(visit)}?done=added`);
};

/** The member in the path. @throws {AdministrationRefusal} `not_found` */
async function memberOf(visit: DashboardVisit, { params }: DashboardRequest) {
  const { members } = await readCollection(visit);
  const member = members.find(({ server }) => server === params['member']);
  if (!member) throw notFound('member');
  return member;
}

const showMemberTools: PageHandler = async (visit, request, reply, { ports }) => {
  const { selection } = await memberOf(visit, request);
  return sendMemberTools(visit, request, reply, { entered: enteredTools(selection), ports });
};

async function sendMemberTools(
  visit: DashboardVisit,
  request: DashboardRequest,
  reply: FastifyReply,
  { entered, ports }: { readonly entered: EnteredTools; readonly ports: DashboardPorts },
) {
  const { server, title } = await memberOf(visit, request);
  const { organization } = visit;
  const collection = await readCollection(visit);
  const others = shownTools(collection).filter((one) => one.server !== server);
  const taken = new Set(others.map(({ shown, name }) => shown ?? name));
  const noted = new Map(
    collection.names.flatMap((one) =>
      one.kind === 'tool' && one.server === server ? [[one.name, one] as const] : [],
    ),
  );
  const included = await includedTools(ports.db, organization, server, selectionOf(entered));
  // A tool that was not listed so far gets its name when it is listed, unless another server has that name.
  const own = included.flatMap((one) => {
    const { state, shown } = noted.get(one.name) ?? {};
    const isShown = state === undefined ? !taken.has(one.name) : state === 'shown';
    return isShown ? [{ ...one, shown: shown ?? null }] : [];
  });
  const home = membersPath(visit);
  const name = titleWithName({ name: server, title });
  const data = {
    heading: `What the collection includes from ${name}`,
    action: `${home}/${server}/tools`,
    cancel: home,
    entered,
    items: await choosableTools(visit, server, ports),
    sum: await sumOf(ports.db, organization, await unhidden(visit, [...others, ...own], ports)),
  };
  const crumbs = serverCrumbs(visit, { text: 'Members', href: home }, { text: name });
  return sendDashboardPage(reply, visit, memberToolsPage, data, { crumbs });
}

const saveMemberTools: FormHandler = async (visit, sent, request, reply, { ports }) => {
  const { server } = await memberOf(visit, request);
  const entered = sentTools(sent, 'tools');
  if (sent.has('count')) return sendMemberTools(visit, request, reply, { entered, ports });
  const selection = selectionOf(entered);
  await visit.perform(collectionSetMember, { collection: visit.server.name, server, selection });
  return seeOther(reply, `${membersPath(visit)}?done=saved`);
};

const removal: Question = {
  async ask(visit, request) {
    const { server, title } = await memberOf(visit, request);
    const home = membersPath(visit);
    const name = titleWithName({ name: server, title });
    return {
      heading: `Remove ${name} from the collection?`,
      consequences: [
        'Callers of the collection can no longer use its tools, prompts and resources.',
        'The collection forgets the names that you chose for them. The server itself stays as it is.',
      ],
      verb: 'Remove server',
      cancel: home,
      crumbs: serverCrumbs(visit, { text: 'Members', href: home }, { text: name }),
    };
  },
  async act(visit, request) {
    const { server } = await memberOf(visit, request);
    await visit.perform(collectionRemoveMember, { collection: visit.server.name, server });
    return `${membersPath(visit)}?done=removed`;
  },
};

interface Decided {
  readonly decision: string;
  readonly as: string;
  readonly errors: readonly FieldError[];
}

/** The name in the query, as the collection has it. @throws {AdministrationRefusal} `not_found` */
async function nameIn(visit: DashboardVisit, request: DashboardRequest) {
  const { names } = await readCollection(visit);
  const [kind, server, name] = ['kind', 'server', 'name'].map((one) => queryText(request, one));
  const found = names.find(
    (one) => one.kind === kind && one.server === server && one.name === name,
  );
  if (!found) throw notFound('name');
  const holder = names.find(
    (one) => one !== found && one.kind === kind && one.shown === found.name,
  );
  return { found, holder };
}

async function sendDecision(
  visit: DashboardVisit,
  request: DashboardRequest,
  reply: FastifyReply,
  { decision, as, errors }: Decided,
) {
  const { found, holder } = await nameIn(visit, request);
  const home = membersPath(visit);
  const data = { action: request.url, cancel: home, found, holder, decision, as, errors };
  const crumbs = serverCrumbs(visit, { text: 'Members', href: home }, { text: found.name });
  return sendDashboardPage(reply, visit, decisionPage, data, { crumbs });
}

const decide: FormHandler = async (visit, sent, request, reply) => {
  const { found } = await nameIn(visit, request);
  const { kind, server, name } = found;
  const [decision, as] = [sent.get('decision') ?? '', (sent.get('as') ?? '').trim()];
  if (decision === '') {
    const errors = [{ field: 'decision', message: 'Choose what becomes of the name.' }];
    return sendDecision(visit, request, reply, { decision, as, errors });
  }
  try {
    await visit.perform(collectionChoose, {
      collection: visit.server.name,
      server,
      kind,
      name,
      decision,
      ...(decision === 'rename' && { as }),
    });
  } catch (refusal) {
    const errors = chooseForm.errorsOf(refusal, chooseForm.blank, 'decision', {
      as: { field: 'as', label: 'The new name' },
    });
    return sendDecision(visit, request, reply, { decision, as, errors });
  }
  return seeOther(reply, `${membersPath(visit)}?done=saved`);
};

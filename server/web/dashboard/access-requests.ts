import {
  type AccessRequestView,
  requestDecline,
  requestGrant,
  requestList,
  requestRead,
} from '#admin/access-requests';
import { groupList } from '#admin/groups';
import { displayName, html, type Html } from '#web/html';
import { dashboardPath, type Badge } from '#web/layout';
import { queryChoice, queryText, seeOther } from '#web/page-request';
import { type Cell, timeCell } from '#web/tables';
import { titleText } from '#web/titles';
import { findActorNames, type ActorName } from './actors.ts';
import { formRoutes } from './form-routes.ts';
import { formFor } from './forms.ts';
import type { DashboardGuard, DashboardRequest, DashboardVisit, PageHandler } from './guard.ts';
import { listQuery, sendListPage } from './lists.ts';
import { livePath } from './live.ts';
import { peopleCrumbs, peopleTabs } from './people.ts';
import { personPath } from './person.ts';
import { counted } from './questions.ts';
import { serverPath } from './server-tabs.ts';

const home = '/people/requests';
const toRead = 'people.read';
const toDecide = 'people.manage';

/** `/people/requests`: the requests for access to servers, open and decided. */
export function accessRequestRoutes(guard: DashboardGuard): void {
  guard.get(home, toRead, showRequests);
  formRoutes(guard, `${home}/:requestId/grant`, toDecide, {
    form: formFor(requestGrant),
    async page(visit, request) {
      const asked = await requestOf(visit, request);
      const title = titleText({ name: asked.server, title: asked.title });
      const { items } = await visit.perform(groupList);
      const opening = new Set(asked.groups.map(({ id }) => id));
      const choices = items
        .filter(({ id }) => opening.has(id))
        .map(({ id, name, members, servers }) => ({
          value: id,
          text: displayName(name),
          help: groupWords(members, servers, asked.server),
        }));
      const access = `${serverPath(visit.organization, asked.server)}/access`;
      return {
        heading: `Give ${displayName(asked.email)} access to ${title}?`,
        lead:
          choices.length > 0
            ? `“${displayName(asked.reason, 500)}” The person is added to the group, and can use the server immediately.`
            : `No group opens this server. Choose one under Access of the server first: ${access}`,
        refused: 'Not granted yet',
        verb: 'Grant access',
        cancel: requestsPath(visit.organization),
        crumbs: crumbsOf(visit, title),
        shownFields: { here: { group: { choices } } },
      };
    },
    async act(visit, input, { params }, reply) {
      await visit.perform(requestGrant, { ...input, requestId: params['requestId'] });
      return seeOther(reply, `${requestsPath(visit.organization)}?done=granted`);
    },
  });
  formRoutes(guard, `${home}/:requestId/decline`, toDecide, {
    form: formFor(requestDecline),
    async page(visit, request) {
      const asked = await requestOf(visit, request);
      const title = titleText({ name: asked.server, title: asked.title });
      return {
        heading: `Decline access to ${title} for ${displayName(asked.email)}?`,
        lead: `“${displayName(asked.reason, 500)}”`,
        refused: 'Not declined yet',
        verb: 'Decline request',
        cancel: requestsPath(visit.organization),
        crumbs: crumbsOf(visit, title),
      };
    },
    async act(visit, input, { params }, reply) {
      await visit.perform(requestDecline, { ...input, requestId: params['requestId'] });
      return seeOther(reply, `${requestsPath(visit.organization)}?done=declined`);
    },
  });
}

function requestsPath(organization: string): string {
  return dashboardPath(organization) + home;
}

function requestOf({ perform }: DashboardVisit, { params }: DashboardRequest) {
  return perform(requestRead, { requestId: params['requestId'] });
}

function crumbsOf({ organization }: DashboardVisit, title: string) {
  const requests = { text: 'Requests', href: requestsPath(organization) };
  return peopleCrumbs(organization, requests, { text: title });
}

/** The size of a group, and which other servers it opens, so that an administrator does not give more than was asked for by mistake. */
function groupWords(members: number, servers: readonly string[], asked: string): string {
  const others = servers.filter((name) => name !== asked);
  const people = members === 0 ? 'No members' : counted(members, 'person', 'people');
  return others.length === 0 ? people : `${people}. Also gives access to ${others.join(', ')}.`;
}

const shape = {
  states: [
    { value: 'open', text: 'Open' },
    { value: 'decided', text: 'Decided' },
  ],
  columns: ['Person', 'Server', 'Asked', 'Status', 'Actions'],
  usual: { sort: 'created_at', order: 'asc' },
} as const;
const notices: Readonly<Record<string, string>> = {
  granted: 'Granted. The person can use the server now.',
  declined: 'Declined. The person sees your reason under Your servers.',
};
const badges: Readonly<Record<AccessRequestView['status'], Badge>> = {
  open: { text: 'Open', tone: 'care' },
  granted: { text: 'Granted', tone: 'good' },
  declined: { text: 'Declined', tone: 'bad' },
  withdrawn: { text: 'Withdrawn', tone: 'plain' },
};

const showRequests: PageHandler = async (visit, request, reply, { ports }) => {
  const { organization } = visit;
  const query = listQuery(request, shape);
  const { page, limit } = query.input;
  const status = queryText(request, 'state') === 'decided' ? 'decided' : 'open';
  const { items, total } = await visit.perform(requestList, { status, page, limit });
  const actor = await findActorNames(
    ports.db,
    items.map(({ decidedBy }) => decidedBy ?? undefined),
  );
  const list = {
    heading: 'Requests',
    lead: 'People who ask for access to a server. Grant access through a group, or decline with a reason that they read.',
    caption: 'Requests for access',
    tabs: peopleTabs(visit, 'requests'),
    notice: queryChoice(request, 'done', notices),
    query,
    rows: items.map((asked) => ({ id: asked.id, cells: cellsOf(asked, visit, actor) })),
    total,
    none:
      status === 'open'
        ? 'No one is waiting for an answer. People can ask for servers where you allow it under Access.'
        : 'No requests were decided in the last 90 days.',
    isSearchable: false,
    more: otherPart(organization, status),
    now: ports.clock.now(),
  };
  const crumbs = peopleCrumbs(organization, { text: 'Requests' });
  return sendListPage(reply, visit, list, { crumbs, live: livePath(organization) });
};

/** A link to the requests that the page does not list. */
function otherPart(organization: string, status: 'open' | 'decided'): Html {
  const path = requestsPath(organization);
  return status === 'open'
    ? html`<p><a href="${path}?state=decided">Decided requests</a></p>`
    : html`<p><a href="${path}">Open requests</a></p>`;
}

function cellsOf(
  asked: AccessRequestView,
  { organization, may }: DashboardVisit,
  actor: ActorName,
): readonly Cell[] {
  const { id, email, userId, server, title, reason, createdAt, status } = asked;
  const of = `${displayName(email)} for ${titleText({ name: server, title })}`;
  const at = `${requestsPath(organization)}/${id}`;
  const answer = [
    status === 'granted' && asked.group !== null ? `Group ${displayName(asked.group)}` : '',
    displayName(asked.answer, 200),
    status !== 'withdrawn' && asked.decidedBy !== null ? actor(asked.decidedBy) : '',
  ].filter((text) => text !== '');
  return [
    {
      kind: 'name',
      text: email,
      href: personPath(organization, userId),
      note: displayName(reason, 500),
    },
    { kind: 'title', of: { name: server, title }, href: serverPath(organization, server) },
    timeCell(createdAt),
    { kind: 'status', status: badges[status], reason: answer.join(' · ') || undefined },
    {
      kind: 'actions',
      actions:
        status === 'open' && may(toDecide)
          ? [
              { text: 'Grant', href: `${at}/grant`, of },
              { text: 'Decline', href: `${at}/decline`, of },
            ]
          : [],
    },
  ];
}

import { personList } from '#admin/people';
import { html, type Html } from '#web/html';
import {
  type Crumb,
  dashboardPath,
  type Frame,
  layout,
  type Link,
  pageHeading,
  statusNotice,
  tabNavigation,
  type Tabs,
} from '#web/layout';
import { queryText } from '#web/page-request';
import { dataTable, type Table, timeCell } from '#web/tables';
import type { DashboardGuard, DashboardRequest, DashboardVisit, PageHandler } from './guard.ts';
import { queryCache, type QueryCache } from './live.ts';
import { sendDashboardPage } from './page.ts';
import type { DashboardOptions } from './ports.ts';
import { counted } from './questions.ts';

/** `/people`: the members of an organization. */
export function peopleRoutes(guard: DashboardGuard, { ports }: DashboardOptions): void {
  guard.get('/people', toRead, showPeople(queryCache(ports.changes)));
}

const toRead = 'people.read';

/** Says what was done on the previous page, and what is left to do elsewhere. */
function noticeOf(request: DashboardRequest): string | undefined {
  if (queryText(request, 'done') !== 'offboarded') return undefined;
  const taken = Math.min(Number(queryText(request, 'taken')) || 0, 9999);
  const handedOver =
    taken > 0
      ? ` ${counted(taken, 'key, client or agent has', 'keys, clients and agents have')} a new owner.`
      : '';
  return `Offboarded. What the person could use in this organization has ended.${handedOver} Remove them in your directory and at your identity provider, too.`;
}

const showPeople =
  (cached: QueryCache): PageHandler =>
  async (visit, request, reply, { ports }) => {
    const { organization, may } = visit;
    const path = `${dashboardPath(organization)}/people`;
    const text = queryText(request, 'filter') ?? '';
    const after = queryText(request, 'after');
    const input = { organization, ...(text && { text }), ...(after && { after }) };
    const { items, next } = await cached([visit.role, input], () =>
      visit.perform(personList, input),
    );
    const query = new URLSearchParams({ ...(text && { filter: text }), after: next ?? '' });
    const people: Table = {
      caption: 'People',
      columns: ['E-mail address', 'Role', 'Groups', 'Second factor', 'Last active'],
      rows: items.map((person) => ({
        id: person.id,
        cells: [
          {
            kind: 'name',
            text: person.email,
            href: `${path}/${person.id}`,
            badges: person.provisioned ? [{ text: 'SCIM', tone: 'plain' }] : [],
          },
          { kind: 'text', text: person.auditor ? `${person.role}, auditor` : person.role },
          { kind: 'text', text: person.groups.map(({ name }) => name).join(', ') },
          { kind: 'text', text: person.secondFactor ? 'Set up' : 'None' },
          timeCell(person.seenAt, 'Never'),
        ],
      })),
      empty: { text: 'No members match.' },
      now: ports.clock.now(),
    };
    const data = {
      lead: 'The members of this organization and their roles. A changed role takes effect on the next request.',
      action: may('people.manage')
        ? { text: 'Invite people', href: `${path}/invite-several` }
        : undefined,
      tabs: peopleTabs(visit, 'people'),
      notice: noticeOf(request),
      filter: { path, text },
      people,
      next: next === null ? undefined : `${path}?${query.toString()}`,
    };
    return sendDashboardPage(reply, visit, peoplePage, data, { crumbs: [{ text: 'People' }] });
  };

interface PeoplePageData {
  readonly lead: string;
  readonly action: Link | undefined;
  readonly tabs: Tabs;
  readonly notice: string | undefined;
  readonly filter: { readonly path: string; readonly text: string };
  readonly people: Table;
  /** The next page of the list. */
  readonly next: string | undefined;
}

function peoplePage(data: PeoplePageData, frame: Frame): Html {
  const { lead, action, tabs, filter, people, next } = data;
  const content = html`${pageHeading({ heading: 'People', lead, action })}
${tabNavigation(tabs)}
${statusNotice(data.notice)}
<form class="filter" method="get" action="${filter.path}" role="search">
<label class="unseen" for="filter">Filter by address</label>
<input id="filter" name="filter" type="search" value="${filter.text}" placeholder="Filter by address" dir="auto" autocomplete="off">
<button>Apply</button>
</form>
${dataTable(people)}
${next && html`<nav class="pager" aria-label="Pages"><a class="button" rel="next" href="${next}">Next</a></nav>`}`;
  return layout({ title: 'People', width: 'table' }, frame, content);
}

/** The breadcrumb of a page about people. */
export function peopleCrumbs(organization: string, ...more: readonly Crumb[]): readonly Crumb[] {
  return [{ text: 'People', href: `${dashboardPath(organization)}/people` }, ...more];
}

/** The tabs of the pages about people. */
export function peopleTabs(
  { organization, may }: DashboardVisit,
  here: 'people' | 'requests' | 'invitations' | 'consents' | 'ownerless',
) {
  const home = dashboardPath(organization);
  return {
    label: 'People',
    entries: [
      { text: 'Members', href: `${home}/people`, isHere: here === 'people' },
      { text: 'Requests', href: `${home}/people/requests`, isHere: here === 'requests' },
      ...(may('people.manage')
        ? [
            {
              text: 'Invitations',
              href: `${home}/people/invitations`,
              isHere: here === 'invitations',
            },
          ]
        : []),
      ...(may('grants.read')
        ? [{ text: 'Consents', href: `${home}/consents`, isHere: here === 'consents' }]
        : []),
      ...(may('agent.read')
        ? [
            {
              text: 'Needs an owner',
              href: `${home}/people/needs-owner`,
              isHere: here === 'ownerless',
            },
          ]
        : []),
    ],
  };
}

import { grantList, grantRead, grantWithdraw } from '#admin/grants';
import { findServerTitles } from '#db/servers';
import { scopeSentence } from '#model/scopes';
import { applicationName } from '#web/consent';
import { dashboardPath } from '#web/layout';
import { queryText } from '#web/page-request';
import { type Table, timeCell } from '#web/tables';
import type { DashboardGuard, PageHandler } from './guard.ts';
import { listPage, listQuery } from './lists.ts';
import { sendDashboardPage } from './page.ts';
import { peopleTabs } from './people.ts';
import { questionRoutes, type Question } from './questions.ts';

const toRead = 'grants.read';
const toManage = 'grants.manage';
const shape = {
  states: [],
  columns: ['Application', 'Person', 'Server', 'Permissions', 'Allowed', 'Actions'].map((text) => ({
    text,
  })),
  usual: { sort: 'created_at', order: 'desc' },
} as const;

/** `/consents`: the grants of people in an organization, including those to self-registered applications. */
export function consentRoutes(guard: DashboardGuard): void {
  guard.get('/consents', toRead, showConsents);
  questionRoutes(guard, '/consents/:grantId/withdraw', toManage, withdrawal);
}

const homeOf = (organization: string) => `${dashboardPath(organization)}/consents`;

const showConsents: PageHandler = async (visit, request, reply, { ports }) => {
  const { organization, may } = visit;
  const query = listQuery(request, shape);
  const { sort: _, ...input } = query.input;
  const { items, total } = await visit.perform(grantList, input);
  const serverOf = (grant: (typeof items)[number]) => grant.server.split('/')[1] ?? '';
  const titles = await findServerTitles(ports.db, organization, items.map(serverOf));
  const table: Table = {
    caption: 'Consents',
    columns: query.columns,
    rows: items.map((grant) => {
      const client = applicationName({ clientName: grant.client, assistant: grant.assistant });
      return {
        id: grant.id,
        cells: [
          {
            kind: 'name',
            text: client,
            badges: grant.isOpenClient ? [{ text: 'Self-registered', tone: 'care' }] : [],
          },
          { kind: 'text', text: grant.email },
          {
            kind: 'title',
            of: { name: serverOf(grant), title: titles.get(serverOf(grant)) },
          },
          {
            kind: 'text',
            text: sentence(grant.scopes.map((scope) => scopeSentence(scope).text)),
          },
          timeCell(grant.createdAt),
          {
            kind: 'actions',
            actions: may('grants.manage')
              ? [
                  {
                    text: 'Withdraw',
                    href: `${homeOf(organization)}/${grant.id}/withdraw`,
                    of: `the consent of ${grant.email} to ${client}`,
                    danger: true,
                  },
                ]
              : [],
          },
        ],
      };
    }),
    empty: {
      text: 'No consents yet. A consent appears here when a person connects an application.',
    },
    now: ports.clock.now(),
  };
  const isDone = queryText(request, 'done') === 'withdrawn';
  const data = {
    heading: 'People',
    lead: 'What people allow applications to do on their behalf. You or the person can withdraw each consent.',
    action: undefined,
    tabs: peopleTabs(visit, 'consents'),
    notice: isDone ? 'Consent withdrawn. The application has lost access.' : undefined,
    list: query.frame(total),
    isSearchable: true,
    table,
    here: request.url,
  };
  return sendDashboardPage(reply, visit, listPage, data, {
    crumbs: [
      { text: 'People', href: `${dashboardPath(organization)}/people` },
      { text: 'Consents' },
    ],
  });
};

const withdrawal: Question = {
  async ask({ organization, perform }, { params: { grantId = '' } }) {
    const grant = await perform(grantRead, { grantId });
    const client = applicationName({ clientName: grant.client, assistant: grant.assistant });
    return {
      heading: `Withdraw the consent of ${grant.email} to ${client}?`,
      consequences: ['The application loses access immediately. It has to ask the person again.'],
      verb: 'Withdraw consent',
      cancel: homeOf(organization),
      crumbs: [{ text: 'Consents', href: homeOf(organization) }],
    };
  },
  async act({ organization, perform }, { params: { grantId = '' } }) {
    await perform(grantWithdraw, { grantId });
    return `${homeOf(organization)}?done=withdrawn`;
  },
};

/** The scopes as one sentence: `See the tools; use them`. */
function sentence([first = '', ...rest]: readonly string[]): string {
  return [first, ...rest.map((text) => text.charAt(0).toLowerCase() + text.slice(1))].join('; ');
}

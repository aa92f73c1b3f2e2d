import { grantList, grantRead, grantWithdraw } from '#administration/grant-operations';
import { perform } from '#administration/perform';
import { dashboardPath } from '#pages/dashboard-frame';
import { shownName } from '#pages/plain-text';
import { scopeSentence } from '#pages/scope-sentence';
import type { Table } from '#pages/table';
import { queryText } from '#http/query-text';
import type { DashboardDoor } from './dashboard-door.ts';
import type { DashboardOptions } from './dashboard-ports.ts';
import { listPage } from './list-page.ts';
import { listQuery } from './list-query.ts';
import { peopleTabs } from './people-tabs.ts';
import { questionRoutes } from './question-routes.ts';
import { sendDashboardPage } from './send-dashboard-page.ts';

const reads = { permission: 'grants.read', section: 'people' } as const;
const manages = { permission: 'grants.manage', section: 'people' } as const;
const shape = {
  states: [],
  columns: ['Application', 'Person', 'Server', 'May', 'Allowed', 'Actions'].map((text) => ({
    text,
  })),
  usual: { sort: 'created_at', order: 'desc' },
} as const;

/** `/consents`: what the people of an organization allowed applications to do, self-made ones included. */
export function consentListRoutes(door: DashboardDoor, { ports }: DashboardOptions): void {
  const homeOf = (organization: string) => `${dashboardPath(organization)}/consents`;

  door.get('/consents', reads, async (visit, request, reply) => {
    const { organization, actor, may } = visit;
    const query = listQuery(request, shape);
    const { sort: _, ...input } = query.input;
    const { items, total } = await perform(grantList, { organization, ...input }, actor, ports);
    const table: Table = {
      caption: 'Consents',
      columns: query.columns,
      rows: items.map((grant) => {
        const client = shownName(grant.client) || 'An application without a name';
        return {
          id: grant.id,
          cells: [
            {
              kind: 'name',
              text: client,
              badges: grant.isOpenClient ? [{ text: 'made itself known', tone: 'care' }] : [],
            },
            { kind: 'text', text: grant.email },
            { kind: 'text', text: grant.server.split('/')[1] ?? '' },
            {
              kind: 'text',
              text: sentence(grant.scopes.map((scope) => scopeSentence(scope).text)),
            },
            { kind: 'time', at: grant.createdAt, otherwise: '' },
            {
              kind: 'actions',
              actions: may('grants.manage')
                ? [
                    {
                      text: 'Withdraw',
                      href: `${homeOf(organization)}/${grant.id}/withdraw`,
                      of: `what ${grant.email} allowed ${client}`,
                      danger: true,
                    },
                  ]
                : [],
            },
          ],
        };
      }),
      empty: { text: 'No application acts for anybody here.' },
      now: ports.clock.now(),
    };
    const isDone = queryText(request, 'done') === 'withdrawn';
    const data = {
      heading: 'People',
      lead: 'What people allowed applications to do in their name. Each can be taken back, here or by the person.',
      action: undefined,
      tabs: peopleTabs(visit, 'consents'),
      notice: isDone ? 'The application has lost its access.' : undefined,
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
  });

  questionRoutes(door, '/consents/:grantId/withdraw', manages, {
    async ask({ organization, actor }, { params: { grantId = '' } }) {
      const grant = await perform(grantRead, { organization, grantId }, actor, ports);
      const client = shownName(grant.client) || 'this application';
      return {
        heading: `Withdraw what ${grant.email} allowed ${client}?`,
        consequences: ['The application loses its access now, and has to ask the person again.'],
        verb: 'Withdraw it',
        cancel: homeOf(organization),
        crumbs: [{ text: 'Consents', href: homeOf(organization) }],
      };
    },
    async act({ organization, actor }, { params: { grantId = '' } }) {
      await perform(grantWithdraw, { organization, grantId }, actor, ports);
      return `${homeOf(organization)}?done=withdrawn`;
    },
  });
}

/** What is allowed, as one sentence: `See the tools; use them`. */
function sentence([first = '', ...rest]: readonly string[]): string {
  return [first, ...rest.map((text) => text.charAt(0).toLowerCase() + text.slice(1))].join('; ');
}

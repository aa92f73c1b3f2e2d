import type { z } from 'zod';
import {
  grantAllow,
  grantList,
  grantRead,
  grantWithdraw,
  ownGrantList,
  ownGrantWithdraw,
} from '#admin/grants';
import { notFound } from '#admin/refusal';
import { findServerTitles } from '#db/servers';
import { scopeSentence } from '#model/scopes';
import { applicationName } from '#web/consent';
import { type Badge, dashboardPath } from '#web/layout';
import { queryChoice } from '#web/page-request';
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
  questionRoutes(guard, '/consents/:grantId/allow', toManage, allowing);
}

const homeOf = (organization: string) => `${dashboardPath(organization)}/consents`;

const notices: Readonly<Record<string, string>> = {
  withdrawn: 'Consent withdrawn. The application has lost access.',
  allowed: 'Allowed again. The application has access as soon as it asks for it.',
};

type Grant = z.output<typeof grantRead.output>;

function badgesOf({ isOpenClient, isByAssertion, withdrawnAt }: Grant): readonly Badge[] {
  return [
    ...(isOpenClient ? [{ text: 'Self-registered', tone: 'care' } as const] : []),
    ...(isByAssertion ? [{ text: 'By identity provider', tone: 'plain' } as const] : []),
    ...(withdrawnAt === null ? [] : [{ text: 'Withdrawn', tone: 'bad' } as const]),
  ];
}

function actionOn({ id, email, withdrawnAt }: Grant, client: string, home: string) {
  const of = `the consent of ${email} to ${client}`;
  return withdrawnAt === null
    ? { text: 'Withdraw', href: `${home}/${id}/withdraw`, of, danger: true }
    : { text: 'Allow again', href: `${home}/${id}/allow`, of };
}

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
            badges: badgesOf(grant),
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
            actions: may('grants.manage') ? [actionOn(grant, client, homeOf(organization))] : [],
          },
        ],
      };
    }),
    empty: {
      text: 'No consents yet. A consent appears here when a person connects an application.',
    },
    now: ports.clock.now(),
  };
  const data = {
    heading: 'People',
    lead: 'What people allow applications to do on their behalf. You or the person can withdraw each consent.',
    action: undefined,
    tabs: peopleTabs(visit, 'consents'),
    notice: queryChoice(request, 'done', notices),
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
      consequences: [
        grant.isByAssertion
          ? 'The application loses access immediately. The identity provider cannot give it back until you or the person allow it again.'
          : 'The application loses access immediately. It has to ask the person again.',
      ],
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

const allowing: Question = {
  async ask({ organization, perform }, { params: { grantId = '' } }) {
    const grant = await perform(grantRead, { grantId });
    const client = applicationName({ clientName: grant.client, assistant: grant.assistant });
    return {
      heading: `Allow ${client} again for ${grant.email}?`,
      consequences: ['The identity provider decides again whether the application gets access.'],
      verb: 'Allow again',
      cancel: homeOf(organization),
      crumbs: [{ text: 'Consents', href: homeOf(organization) }],
    };
  },
  async act({ organization, perform }, { params: { grantId = '' } }) {
    await perform(grantAllow, { grantId });
    return `${homeOf(organization)}?done=allowed`;
  },
};

/** `/applications`: what the person allows applications to do in this organization, however they signed in. */
export function ownConsentRoutes(guard: DashboardGuard): void {
  guard.get('/applications', toUse, showOwnConsents);
  questionRoutes(guard, '/applications/:grantId/withdraw', toUse, ownWithdrawal);
}

const toUse = 'organization.read';
const ownHomeOf = (organization: string) => `${dashboardPath(organization)}/applications`;
const ownShape = { ...shape, columns: shape.columns.filter(({ text }) => text !== 'Person') };

const showOwnConsents: PageHandler = async (visit, request, reply, { ports }) => {
  const { organization } = visit;
  const query = listQuery(request, ownShape);
  const { sort: _, ...input } = query.input;
  const { items, total } = await visit.perform(ownGrantList, input);
  const serverOf = (grant: (typeof items)[number]) => grant.server.split('/')[1] ?? '';
  const titles = await findServerTitles(ports.db, organization, items.map(serverOf));
  const table: Table = {
    caption: 'Applications',
    columns: query.columns,
    rows: items.map((grant) => {
      const text = applicationName({ clientName: grant.client, assistant: grant.assistant });
      const href = `${ownHomeOf(organization)}/${grant.id}/withdraw`;
      const sentences = grant.scopes.map((scope) => scopeSentence(scope).text);
      return {
        id: grant.id,
        cells: [
          { kind: 'name', text },
          { kind: 'title', of: { name: serverOf(grant), title: titles.get(serverOf(grant)) } },
          { kind: 'text', text: sentence(sentences) },
          timeCell(grant.createdAt),
          { kind: 'actions', actions: [{ text: 'Withdraw', href, of: text, danger: true }] },
        ],
      };
    }),
    empty: {
      text: 'No applications yet. An application asks for your consent when you first connect it.',
    },
    now: ports.clock.now(),
  };
  const data = {
    heading: 'Applications',
    lead: 'What you allow applications to do on your behalf in this organization.',
    action: undefined,
    tabs: undefined,
    notice: queryChoice(request, 'done', { withdrawn: notices.withdrawn }),
    list: query.frame(total),
    isSearchable: false,
    table,
    here: request.url,
  };
  return sendDashboardPage(reply, visit, listPage, data, { crumbs: [{ text: 'Applications' }] });
};

const ownWithdrawal: Question = {
  async ask({ organization, perform }, { params: { grantId = '' } }) {
    const { items } = await perform(ownGrantList, { limit: 200 });
    const grant = items.find(({ id }) => id === grantId);
    if (!grant) throw notFound('grant');
    const client = applicationName({ clientName: grant.client, assistant: grant.assistant });
    return {
      heading: `Withdraw your consent to ${client}?`,
      consequences: ['The application loses access immediately. It has to ask you again.'],
      verb: 'Withdraw consent',
      cancel: ownHomeOf(organization),
      crumbs: [{ text: 'Applications', href: ownHomeOf(organization) }],
    };
  },
  async act({ organization, perform }, { params: { grantId = '' } }) {
    await perform(ownGrantWithdraw, { grantId });
    return `${ownHomeOf(organization)}?done=withdrawn`;
  },
};

/** The scopes as one sentence: `See the tools; use them`. */
function sentence([first = '', ...rest]: readonly string[]): string {
  return [first, ...rest.map((text) => text.charAt(0).toLowerCase() + text.slice(1))].join('; ');
}

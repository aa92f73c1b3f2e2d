import type { z } from 'zod';
import { grantAllow, grantList, grantRead, grantWithdraw } from '#admin/grants';
import { findServerTitles } from '#db/servers';
import { scopeSentence } from '#model/scopes';
import { accessName, deviceNote } from '#web/access-words';
import { applicationName } from '#web/consent';
import { type Badge, dashboardPath } from '#web/layout';
import { queryChoice } from '#web/page-request';
import { timeCell } from '#web/tables';
import { grantedTools } from '#web/tool-choice';
import { partsOf } from '#model/slug';
import type { DashboardGuard, PageHandler } from './guard.ts';
import { listQuery, sendListPage } from './lists.ts';
import { peopleCrumbs, peopleTabs } from './people.ts';
import { questionRoutes, type Question } from './questions.ts';

const toRead = 'grants.read';
const toManage = 'grants.manage';
const shape = {
  states: [],
  columns: ['Application', 'Person', 'Server', 'Permissions', 'Tools', 'Allowed', 'Actions'],
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
  withdrawn:
    'Consent withdrawn. The application has lost this access, and keeps what is still listed.',
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
  const serverOf = (grant: (typeof items)[number]) => partsOf(grant.server).server;
  const titles = await findServerTitles(ports.db, organization, items.map(serverOf));
  const list = {
    heading: 'People',
    lead: 'What people allow applications to do on their behalf. You or the person can withdraw each consent.',
    caption: 'Consents',
    tabs: peopleTabs(visit, 'consents'),
    notice: queryChoice(request, 'done', notices),
    query,
    rows: items.map((grant) => {
      const client = applicationName({ clientName: grant.client, assistant: grant.assistant });
      return {
        id: grant.id,
        cells: [
          {
            kind: 'name',
            text: client,
            badges: badgesOf(grant),
            note: deviceNote(grant.device),
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
          { kind: 'text', text: grantedTools(grant) },
          timeCell(grant.createdAt),
          {
            kind: 'actions',
            actions: may('grants.manage') ? [actionOn(grant, client, homeOf(organization))] : [],
          },
        ] as const,
      };
    }),
    total,
    none: 'No consents yet. A consent appears here when a person connects an application.',
    isSearchable: true,
    now: ports.clock.now(),
  };
  const crumbs = peopleCrumbs(organization, { text: 'Consents' });
  return sendListPage(reply, visit, list, { crumbs });
};

/** Names a grant by application, server and device, because a person has one grant for each combination. */
function consentWords({ client, assistant, server, device }: Grant): string {
  const name = applicationName({ clientName: client, assistant });
  const access = { serverPath: server, titles: { organization: '', server: '' } };
  return `${name} for ${accessName({ ...access, device: device ?? undefined })}`;
}

const withdrawal: Question = {
  async ask({ organization, perform }, { params: { grantId = '' } }) {
    const grant = await perform(grantRead, { grantId });
    return {
      heading: `Withdraw the consent of ${grant.email} to ${consentWords(grant)}?`,
      consequences: [
        grant.isByAssertion
          ? 'The application loses access immediately. The identity provider cannot give it back until you or the person allow it again.'
          : 'The application loses access immediately. It has to ask the person again.',
        'What they allow it at other servers and on other devices stays.',
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
    return {
      heading: `Allow ${grant.email} to use ${consentWords(grant)} again?`,
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

/** The scopes as one sentence: `See the tools; use them`. */
export function sentence([first = '', ...rest]: readonly string[]): string {
  return [first, ...rest.map((text) => text.charAt(0).toLowerCase() + text.slice(1))].join('; ');
}

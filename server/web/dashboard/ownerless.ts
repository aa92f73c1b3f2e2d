import type { z } from 'zod';
import { leaverHandOver, leaverList, type OwnerlessView } from '#admin/leavers';
import { mayDo } from '#admin/operation';
import { personList } from '#admin/people';
import { scimRead } from '#admin/scim';
import { postForm, selectOptions, type Choice } from '#web/forms';
import { displayName, html, type Html } from '#web/html';
import {
  badge,
  dashboardPath,
  type Frame,
  layout,
  pageHeading,
  statusNotice,
  type Tabs,
  tabNavigation,
} from '#web/layout';
import { queryChoice, seeOther } from '#web/page-request';
import { relativeTime } from '#web/tables';
import type { DashboardGuard, DashboardVisit, FormHandler, PageHandler } from './guard.ts';
import { ownedNoun } from './offboarding.ts';
import { sendDashboardPage } from './page.ts';
import { peopleCrumbs, peopleTabs } from './people.ts';

const home = '/people/needs-owner';
const notices: Readonly<Record<string, string>> = { done: 'Handed over. It works.' };

/**
 * `/people/needs-owner`: keys, clients and agents whose owner left, each with a form that hands it over, and SCIM tokens, which have to be
 * replaced because the person who left may know them.
 */
export function ownerlessRoutes(guard: DashboardGuard): void {
  guard.get(home, 'agent.read', showOwnerless);
  guard.post(`${home}/:resourceId`, 'key.manage', handOver);
}

export function ownerlessPath(organization: string): string {
  return dashboardPath(organization) + home;
}

const showOwnerless: PageHandler = async (visit, request, reply, { ports }) => {
  const { items } = await visit.perform(leaverList);
  const data = {
    items,
    tokens: await tokensOfLeavers(visit),
    provisioning: `${dashboardPath(visit.organization)}/sign-in/scim`,
    at: ownerlessPath(visit.organization),
    tabs: peopleTabs(visit, 'ownerless'),
    owners: items.length > 0 ? await ownersOf(visit) : [],
    mayManage: visit.may('key.manage'),
    notice: queryChoice(request, 'done', notices),
    now: ports.clock.now(),
  };
  const crumbs = peopleCrumbs(visit.organization, { text: 'Needs an owner' });
  return sendDashboardPage(reply, visit, ownerlessPage, data, { crumbs });
};

/** The SCIM tokens that work although the person who created them left. */
async function tokensOfLeavers({
  may,
  perform,
}: Pick<DashboardVisit, 'may' | 'perform'>): Promise<readonly ScimTokenView[]> {
  if (!may('provider.read')) return [];
  const { tokens } = await perform(scimRead);
  return tokens.filter(({ status, creatorLeft }) => status === 'active' && creatorLeft);
}

type ScimTokenView = z.output<typeof scimRead.output>['tokens'][number];

/** The people who can take over, the reader of the page first. */
async function ownersOf({ perform, person }: DashboardVisit): Promise<Choice[]> {
  const { items } = await perform(personList, { limit: 200 });
  const me = person.user.id;
  const others = items.filter(({ id, role }) => id !== me && mayDo(role, 'key.manage'));
  return [
    { value: me, text: 'Me', isChosen: true },
    ...others.map(({ id, email }) => ({ value: id, text: displayName(email), isChosen: false })),
  ];
}

const handOver: FormHandler = async (visit, sent, { params }, reply) => {
  const userId = sent.get('owner');
  await visit.perform(leaverHandOver, {
    resourceId: params['resourceId'],
    ...(userId !== undefined && { userId }),
  });
  return seeOther(reply, `${ownerlessPath(visit.organization)}?done=done`);
};

interface OwnerlessData {
  readonly items: readonly OwnerlessView[];
  readonly tokens: readonly ScimTokenView[];
  /** The page on which tokens are replaced. */
  readonly provisioning: string;
  /** The path of this page. */
  readonly at: string;
  readonly tabs: Tabs;
  readonly owners: readonly Choice[];
  readonly mayManage: boolean;
  readonly notice: string | undefined;
  readonly now: number;
}

/** Lists everything that needs an owner. */
function ownerlessPage(data: OwnerlessData, frame: Frame): Html {
  const { items, tokens, provisioning } = data;
  const lead =
    'Keys, clients and agents whose creator left the organization. Suspended ones work again as soon as you hand them over. Revoke what no one needs.';
  const content = html`${pageHeading({ heading: 'Needs an owner', lead })}
${tabNavigation(data.tabs)}
${statusNotice(data.notice)}
${
  items.length === 0 && tokens.length === 0
    ? html`<p class="lead">Everything has an owner.</p>`
    : html`<ul class="rows">${tokens.map((token) => tokenRow(token, provisioning))}${items.map((item) => ownerlessRow(item, data, frame))}</ul>`
}`;
  return layout({ title: 'Needs an owner', width: 'text' }, frame, content);
}

function tokenRow({ hint }: ScimTokenView, provisioning: string): Html {
  return html`<li>
<div><strong>${hint}</strong> ${badge({ text: 'Works', tone: 'care' })}
<p class="help">SCIM token · its creator left and may know it. It cannot be handed over: rotate it.</p></div>
<p class="actions"><a class="button" href="${provisioning}" aria-label="Open Provisioning to rotate ${hint}">Open Provisioning</a></p>
</li>`;
}

function ownerlessRow(
  item: OwnerlessView,
  { at, owners, mayManage, now }: OwnerlessData,
  frame: Frame,
): Html {
  const state = item.suspended
    ? badge({ text: 'Suspended', tone: 'bad' })
    : badge({ text: 'Works', tone: 'care' });
  const where = item.server ?? item.agent;
  const id = `owner-${item.id}`;
  const form = html`<label class="unseen" for="${id}">New owner of ${item.name}</label>
<select id="${id}" name="owner">${selectOptions(owners)}</select> <button>Hand over</button>`;
  return html`<li>
<div><strong>${displayName(item.name)}</strong> ${state}
<p class="help">${ownedNoun(item)}${where !== null && html` of ${where}`} · ${item.formerEmail === null ? 'owner deleted' : displayName(item.formerEmail)} left ${relativeTime(item.ownerlessAt, now)}</p></div>
${mayManage && postForm(frame, { action: `${at}/${item.id}`, className: 'actions' }, form)}
</li>`;
}

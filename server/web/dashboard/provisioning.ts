import type { z } from 'zod';
import {
  scimClearErrors,
  scimCreateToken,
  scimRead,
  scimRevokeToken,
  scimRotateToken,
} from '#admin/scim';
import { settingsRead } from '#admin/organizations';
import { notFound } from '#admin/refusal';
import { isRecentProof } from '#accounts/sessions';
import { postForm } from '#web/forms';
import { html, type Html } from '#web/html';
import { dashboardPath, type Frame, layout, pageHeading, statusNotice } from '#web/layout';
import { oneTimeSecretPage } from '#web/one-time-secret';
import { queryChoice, seeOther } from '#web/page-request';
import { copyable, dataTable, type Fact, factList, type Table, timeCell } from '#web/tables';
import { findActorNames, type ActorName } from './actors.ts';
import { formRoutes, type FormRoutes } from './form-routes.ts';
import { formFor } from './forms.ts';
import type {
  DashboardGuard,
  DashboardRequest,
  DashboardVisit,
  FormHandler,
  PageHandler,
} from './guard.ts';
import { ownerlessPath } from './ownerless.ts';
import { sendDashboardPage } from './page.ts';
import type { DashboardOptions } from './ports.ts';
import { type Question, questionRoutes } from './questions.ts';

type ScimState = z.output<typeof scimRead.output>;
type ScimTokenView = ScimState['tokens'][number];

const home = '/sign-in/scim';
const toRead = 'provider.read';
const toManage = 'provider.manage';
const notices: Readonly<Record<string, string>> = {
  revoked: 'Token revoked. The directory cannot change anything any more.',
  cleared: 'Errors cleared.',
};

/** `/sign-in/scim`: the directory that provisions the organization: its token, the last synchronization, and errors. */
export function provisioningRoutes(guard: DashboardGuard): void {
  guard.get(home, toRead, showState);
  formRoutes(guard, `${home}/new-token`, toManage, newToken);
  formRoutes(guard, `${home}/rotate`, toManage, rotation);
  questionRoutes(guard, `${home}/tokens/:scimTokenId/revoke`, toManage, revocation);
  guard.post(`${home}/clear-errors`, toManage, clearErrors);
}

function provisioningPath(organization: string): string {
  return dashboardPath(organization) + home;
}

function crumbsTo(organization: string, text?: string) {
  const signIn = { text: 'Sign-in', href: `${dashboardPath(organization)}/sign-in` };
  if (text === undefined) return [signIn, { text: 'Provisioning' }];
  return [signIn, { text: 'Provisioning', href: provisioningPath(organization) }, { text }];
}

const showState: PageHandler = async (visit, request, reply, options) => {
  const data = await provisioningData(visit, request, options);
  const crumbs = crumbsTo(visit.organization);
  return sendDashboardPage(reply, visit, provisioningPage, data, { crumbs });
};

async function provisioningData(
  visit: DashboardVisit,
  request: DashboardRequest,
  { base, ports }: DashboardOptions,
) {
  const state = await visit.perform(scimRead);
  const { leaverResources } = await visit.perform(settingsRead);
  const nameOf = await findActorNames(
    ports.db,
    state.tokens.map(({ createdBy }) => createdBy),
  );
  const now = ports.clock.now();
  const active = state.tokens.filter(({ status }) => status === 'active');
  return {
    state,
    url: base + state.path,
    at: provisioningPath(visit.organization),
    tokens: tokenTable(visit, state.tokens, { nameOf, now }),
    errors: errorTable(state.errors, now),
    hasToken: active.length > 0,
    mayManage: visit.may(toManage),
    isRecent: isRecentProof(visit.person.session, now),
    leavers: leaverResources,
    ownerless: visit.may('agent.read') ? ownerlessPath(visit.organization) : undefined,
    settings: `${dashboardPath(visit.organization)}/settings`,
    notice: queryChoice(request, 'done', notices),
    now,
  };
}

function tokenForm(
  operation: typeof scimCreateToken | typeof scimRotateToken,
  words: { readonly heading: string; readonly lead: string; readonly verb: string },
): FormRoutes {
  return {
    form: formFor(operation),
    conflict: 'expiry',
    page: ({ organization }) => ({
      ...words,
      refused: 'Not created yet',
      cancel: provisioningPath(organization),
      crumbs: crumbsTo(organization, words.heading),
    }),
    async act(visit, entered, _request, reply, { base }) {
      const made = await visit.perform(operation, entered);
      const data = {
        heading: 'Token for the directory',
        next: 'Enter both in the directory, which sends the token with each request.',
        secret: {
          label: 'SCIM token',
          secret: made.token,
          beside: [{ label: 'SCIM URL', text: `${base}/scim/v2/${visit.organization}` }],
          keep: 'In the directory, as its secret token.',
          done: provisioningPath(visit.organization),
        },
      };
      const crumbs = crumbsTo(visit.organization, words.heading);
      return sendDashboardPage(reply, visit, oneTimeSecretPage, data, { crumbs });
    },
  };
}

const newToken = tokenForm(scimCreateToken, {
  heading: 'Create a token',
  lead: 'With the token, the directory can add members, end memberships and manage groups of this organization. It cannot make owners or remove the last one.',
  verb: 'Create token',
});

const rotation = tokenForm(scimRotateToken, {
  heading: 'Rotate the token',
  lead: 'Creates another token. Enter it in the directory before the one that it uses now stops working.',
  verb: 'Create another token',
});

const revocation: Question = {
  async ask(visit, { params }) {
    const { tokens } = await visit.perform(scimRead);
    const token = tokens.find(({ id }) => id === params['scimTokenId']);
    if (!token) throw notFound('token');
    return {
      heading: `Revoke the token ${token.hint}?`,
      consequences: [
        'The directory cannot change anything with it any more. This cannot be undone.',
        'Members stay members: people who leave the company must be removed by hand.',
      ],
      verb: 'Revoke token',
      cancel: provisioningPath(visit.organization),
      crumbs: crumbsTo(visit.organization, token.hint),
    };
  },
  async act(visit, { params }) {
    await visit.perform(scimRevokeToken, { scimTokenId: params['scimTokenId'] ?? '' });
    return `${provisioningPath(visit.organization)}?done=revoked`;
  },
};

const clearErrors: FormHandler = async (visit, _sent, _request, reply) => {
  await visit.perform(scimClearErrors);
  return seeOther(reply, `${provisioningPath(visit.organization)}?done=cleared`);
};

function tokenTable(
  visit: DashboardVisit,
  tokens: readonly ScimTokenView[],
  { nameOf, now }: { nameOf: ActorName; now: number },
): Table {
  const at = provisioningPath(visit.organization);
  return {
    caption: 'Tokens of the directory',
    columns: ['Token', 'Created', 'Created by', 'Last used', 'Expires', 'Actions'],
    rows: tokens.map((token) => {
      const { id, hint, status } = token;
      const revoke = {
        text: 'Revoke',
        href: `${at}/tokens/${id}/revoke`,
        of: `the token ${hint}`,
        danger: true,
      };
      const state = stateWords[status];
      return {
        id,
        isOver: state !== undefined,
        cells: [
          {
            kind: 'name',
            text: hint,
            badges: badgesOf(token),
          },
          timeCell(token.createdAt),
          { kind: 'text', text: nameOf(token.createdBy) },
          timeCell(token.lastUsedAt, 'Never'),
          timeCell(token.expiresAt, 'Never'),
          {
            kind: 'actions',
            actions: state === undefined && visit.may(toManage) ? [revoke] : [],
          },
        ],
      };
    }),
    empty: { text: 'No token yet. An owner creates one, and enters it in the directory.' },
    now,
  };
}

const stateWords = { active: undefined, expired: 'Expired', revoked: 'Revoked' } as const;

/** Marks a token whose creator left, because that person may still know it. */
function badgesOf({ status, creatorLeft }: ScimTokenView) {
  const state = stateWords[status];
  if (state !== undefined) return [{ text: state, tone: 'bad' }] as const;
  return creatorLeft ? ([{ text: 'Creator left', tone: 'care' }] as const) : [];
}

function errorTable(errors: ScimState['errors'], now: number): Table {
  return {
    caption: 'Failed requests of the directory',
    columns: ['About', 'Request', 'Problem', 'Times', 'Last'],
    rows: errors.map(({ request, subject, problem, at, times }, place) => ({
      id: `error-${place}`,
      cells: [
        { kind: 'name', text: subject || 'No one in particular' },
        { kind: 'text', text: request },
        { kind: 'text', text: problem },
        { kind: 'text', text: String(times) },
        timeCell(at),
      ],
    })),
    empty: { text: 'No errors.' },
    now,
  };
}

type ProvisioningData = Awaited<ReturnType<typeof provisioningData>>;

function factsOf({ state }: ProvisioningData): Fact[] {
  const { users, groups, synchronizedAt } = state;
  return [
    { label: 'Last synchronization', cell: timeCell(synchronizedAt, 'Never') },
    { label: 'People', text: `${users.active} active, ${users.all - users.active} deactivated` },
    { label: 'Groups', text: String(groups) },
  ];
}

const leaverWords = {
  suspend: 'are suspended when the person leaves, until an administrator hands them over.',
  keep: 'go on working when the person leaves, until an administrator hands them over or revokes them.',
} as const;

const tokenWords = {
  suspend:
    'The directory’s token is revoked when the person who created it leaves, because they may still have it. The directory cannot change anything until an owner creates a new token and enters it there.',
  keep: 'The directory’s token keeps working when the person who created it leaves. Rotate it then, because they may still have it.',
} as const;

const stopped = html`<p class="notice warning">No token is active: the directory cannot change anything. Until an owner creates a token and enters it in the directory, people who leave the company must be removed by hand.</p>`;

/** The directory of an organization. */
function provisioningPage(data: ProvisioningData, frame: Frame): Html {
  const { url, at, hasToken, mayManage, isRecent, state, errors, now } = data;
  const lead =
    'Your directory, such as Microsoft Entra ID or Okta, adds members, ends memberships and manages groups by SCIM 2.0. It never changes a person’s account.';
  const action =
    mayManage && isRecent
      ? hasToken
        ? { text: 'Rotate token', href: `${at}/rotate` }
        : { text: 'Create token', href: `${at}/new-token` }
      : undefined;
  const again = html`<p class="help">Creating a token requires a sign-in within the last ten minutes. <a href="/sign-in?again=1&amp;next=${encodeURIComponent(at)}">Sign in again</a></p>`;
  const content = html`${pageHeading({ heading: 'Provisioning', lead, action })}
${statusNotice(data.notice)}
${state.tokens.length > 0 && !hasToken && stopped}
${mayManage && !isRecent && again}
<section class="group" aria-labelledby="url-heading">
<h2 id="url-heading">SCIM URL</h2>
<p class="help">Enter it in the directory, with a token.</p>
${copyable(url, 'the SCIM URL')}
</section>
${factList(factsOf(data), now)}
<section class="section" aria-labelledby="tokens-heading">
<h2 id="tokens-heading">Tokens</h2>
${dataTable(data.tokens)}
</section>
${state.users.waiting > 0 && waitingSection(state)}
<section class="section" aria-labelledby="errors-heading">
<h2 id="errors-heading">Errors</h2>
${dataTable(errors)}
${mayManage && errors.rows.length > 0 && postForm(frame, { action: `${at}/clear-errors` }, html`<div class="actions"><button>Clear errors</button></div>`)}
</section>
<section class="section" aria-labelledby="leavers-heading">
<h2 id="leavers-heading">What people leave behind</h2>
<p>Keys, clients and agents ${leaverWords[data.leavers]} <a href="${data.settings}">Change this in the settings</a>.</p>
<p>${tokenWords[data.leavers]}</p>
${data.ownerless && html`<p><a href="${data.ownerless}">Needs an owner</a></p>`}
</section>`;
  return layout({ title: 'Provisioning', width: 'table' }, frame, content);
}

function waitingSection({ users, waiting }: ScimState): Html {
  const more = users.waiting - waiting.length;
  return html`<section class="section" aria-labelledby="waiting-heading">
<h2 id="waiting-heading">Waiting</h2>
<p class="help">No account was created for these people, because the domain of their address is not proved under Sign-in, or someone outside this organization has an account with it. They become members when they sign in through a provider of this organization, or accept an invitation with the address.</p>
<ul>${waiting.map((name) => html`<li>${name}</li>`)}</ul>
${more > 0 && html`<p class="help">And ${more} more.</p>`}
</section>`;
}

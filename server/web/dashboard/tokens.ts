import type { FastifyReply } from 'fastify';
import type { z } from 'zod';
import { isRecentProof } from '#accounts/sessions';
import { findTokenCreators } from '#db/personal-tokens';
import { perform } from '#admin/operation';
import { notFound } from '#admin/refusal';
import { tokenCreate, tokenList, tokenRevoke } from '#admin/tokens';
import type { EpochSeconds } from '#model/clock';
import { errorSummary, postForm, type FieldError } from '#web/forms';
import { html, type Html } from '#web/html';
import { breadcrumbOf, type Frame, layout, statusNotice } from '#web/layout';
import { oneTimeSecretPage } from '#web/one-time-secret';
import { queryChoice, seeOther, sendPage } from '#web/page-request';
import type { CurrentPerson, PageRequest, PersonGuard } from '#web/page-session';
import { dataTable, type Table, timeCell } from '#web/tables';
import { findActorNames } from './actors.ts';
import { formFor, type Entered } from './forms.ts';
import { personActor, type PersonFormHandler, type PersonPageHandler } from './guard.ts';
import { dashboardScripts } from './page.ts';
import type { DashboardOptions, DashboardPorts } from './ports.ts';
import { questionPage } from './questions.ts';

const home = '/account/tokens';
const form = formFor(tokenCreate);
const notices: Readonly<Record<string, string>> = {
  revoked: 'The token is revoked. It no longer works.',
};

/** `/account/tokens`: a person's access tokens for the admin API. */
export function tokenRoutes(guard: PersonGuard<DashboardOptions>): void {
  guard.get(home, showTokens);
  guard.post(home, createToken);
  guard.get(`${home}/:id/revoke`, askToRevoke);
  guard.post(`${home}/:id/revoke`, revokeToken);
}

const showTokens: PersonPageHandler = (person, request, reply, { ports }) =>
  sendTokens(person, request, reply, { entered: form.blank, errors: [] }, ports);

const createToken: PersonFormHandler = async (person, sent, request, reply, options) => {
  const { base, ports } = options;
  const entered = form.read(sent);
  try {
    const input = form.inputOf(entered);
    const made = await perform(tokenCreate, input, personActor(person, request), ports);
    const data = {
      heading: `Personal token ${made.name}`,
      next: 'Send it with every request to the admin API, in the header Authorization: Bearer.',
      secret: {
        label: 'Personal token',
        secret: made.token,
        beside: [{ label: 'Admin API', text: `${base}/api/admin` }],
        done: home,
      },
    };
    return sendPage(reply, oneTimeSecretPage, data, { person, scripts: dashboardScripts() });
  } catch (refusal) {
    const errors = form.errorsOf(refusal, entered, 'name');
    return sendTokens(person, request, reply, { entered, errors }, ports);
  }
};

const askToRevoke: PersonPageHandler = async (person, request, reply, { ports }) => {
  const { id: tokenId } = request.params;
  const { items } = await perform(tokenList, {}, personActor(person, request), ports);
  const token = items.find(({ id }) => id === tokenId);
  if (!token) throw notFound('token');
  const data = {
    heading: `Revoke the personal token “${token.name}”?`,
    consequences: [
      'It stops working immediately: programs that use it lose access.',
      'This cannot be undone.',
    ],
    action: `${home}/${token.id}/revoke`,
    verb: 'Revoke token',
    cancel: home,
  };
  return sendPage(reply, questionPage, data, { person, scripts: dashboardScripts() });
};

const revokeToken: PersonFormHandler = async (person, _form, request, reply, { ports }) => {
  const { id: tokenId = '' } = request.params;
  await perform(tokenRevoke, { tokenId }, personActor(person, request), ports);
  return seeOther(reply, `${home}?done=revoked`);
};

/** Sends the list of tokens, with the form for a new one. */
async function sendTokens(
  person: CurrentPerson,
  request: PageRequest,
  reply: FastifyReply,
  entered: Pick<TokensData, 'entered' | 'errors'>,
  ports: DashboardPorts,
) {
  const now = ports.clock.now();
  const { items } = await perform(tokenList, {}, personActor(person, request), ports);
  const creators = await findTokenCreators(ports.db, person.user.id);
  const nameOf = await findActorNames(ports.db, creators.values());
  const creatorOf = (id: string) => {
    const creator = creators.get(id);
    return creator === undefined ? '' : nameOf(creator);
  };
  const data = {
    table: tokenTable(items, creatorOf, now),
    isRecent: isRecentProof(person.session, now),
    notice: queryChoice(request, 'done', notices),
    ...entered,
  };
  return sendPage(reply, tokensPage, data, { person, scripts: dashboardScripts() });
}

function tokenTable(
  tokens: z.output<typeof tokenList.output>['items'],
  creatorOf: (id: string) => string,
  now: EpochSeconds,
): Table {
  const columns = [
    'Name',
    'Token',
    'Permissions',
    'Last used',
    'Created',
    'Created by',
    'Expires',
    'Actions',
  ];
  return {
    caption: 'Personal tokens',
    columns,
    rows: tokens.map(({ id, name, hint, createdAt, expiresAt, lastUsedAt, revokedAt }) => {
      const state = revokedAt !== null ? 'Revoked' : expiresAt <= now ? 'Expired' : undefined;
      const revoke = { text: 'Revoke', href: `${home}/${id}/revoke`, of: name, danger: true };
      const badges = state === undefined ? [] : [{ text: state, tone: 'bad' } as const];
      return {
        id,
        isOver: state !== undefined,
        cells: [
          { kind: 'name', text: name, badges },
          { kind: 'hint', text: hint },
          { kind: 'text', text: 'Same as yours' },
          timeCell(lastUsedAt, 'Never'),
          timeCell(createdAt),
          { kind: 'text', text: creatorOf(id) },
          timeCell(expiresAt),
          { kind: 'actions', actions: state === undefined ? [revoke] : [] },
        ],
      };
    }),
    empty: { text: 'No personal tokens yet.' },
    now,
  };
}

/** A person's tokens, and the form for a new one. */
interface TokensData {
  readonly table: Table;
  /** Whether the person signed in recently enough to create a token. */
  readonly isRecent: boolean;
  readonly notice: string | undefined;
  readonly entered: Entered;
  readonly errors: readonly FieldError[];
}

/** The personal tokens of a person, and a form for a new one. */
function tokensPage(data: TokensData, frame: Frame): Html {
  const { isRecent, errors } = data;
  const title = errors.length > 0 ? 'Not created yet' : 'Personal tokens';
  const signInAgain = html`<p class="help">Creating a token requires a sign-in within the last ten minutes, so that an unattended browser cannot be used for it.</p>
<p><a class="button" href="/sign-in?again=1&amp;next=/account/tokens">Sign in again to create a token</a></p>`;
  const steps = [{ text: 'Your account', href: '/account' }, { text: 'Personal tokens' }];
  const content = html`${breadcrumbOf(steps)}
<h1>Personal tokens</h1>
<p class="lead">A program with a personal token can do everything that you can do, through the <a href="/api/admin/openapi.json">admin API</a>. A token stops working when it expires, when you change your password or when your account is removed.</p>
${statusNotice(data.notice)}
${errorSummary(errors)}
${dataTable(data.table)}
<section class="section narrow" aria-labelledby="new-heading">
<h2 id="new-heading">Create token</h2>
${isRecent ? newTokenForm(data, frame) : signInAgain}
</section>`;
  return layout({ title, width: 'table' }, frame, content);
}

function newTokenForm({ entered, errors }: TokensData, frame: Frame): Html {
  const fields = html`${form.fields(entered, errors, { focus: false })}
<div class="actions"><button class="primary">Create token</button></div>`;
  return postForm(frame, { action: '/account/tokens', novalidate: true }, fields);
}

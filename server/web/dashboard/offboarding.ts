import type { z } from 'zod';
import { type OwnedView, personLeaving, personOffboard, takersInsteadOf } from '#admin/offboarding';
import { findOrganization } from '#db/organizations';
import { notFound } from '#admin/refusal';
import type { EpochSeconds } from '#model/clock';
import { type Choice, postForm, selectField, selectOptions } from '#web/forms';
import { displayName, html, type Html } from '#web/html';
import { dashboardPath, type Frame, layout, pageHeading } from '#web/layout';
import { seeOther } from '#web/page-request';
import { relativeTime, type Table, timeCell } from '#web/tables';
import type { DashboardGuard, FormHandler, PageHandler } from './guard.ts';
import { agentPath } from './agents.ts';
import { sendDashboardPage } from './page.ts';
import { counted } from './questions.ts';
import { serverPath } from './server-tabs.ts';

const needs = 'people.manage';
const path = '/people/:userId/offboard';

/** `/people/{userId}/offboard`: shows what ends when a person leaves, and asks who takes over their keys, clients and agents. */
export function offboardingRoutes(guard: DashboardGuard): void {
  guard.get(path, needs, showOffboarding);
  guard.post(path, needs, offboard);
}

const nouns = { key: 'API key', client: 'OAuth client', agent: 'Agent' } as const;

/** The noun for a key, client or agent that a person owns. An agent key has its own, because it opens no server. */
export function ownedNoun({
  kind,
  agent,
}: {
  readonly kind: keyof typeof nouns;
  readonly agent: string | null;
}): string {
  return kind === 'key' && agent !== null ? 'Agent key' : nouns[kind];
}

/** The path of the page where a key, client or agent is managed. */
function ownedPath(organization: string, { kind, id, name, server, agent }: OwnedView): string {
  const home = dashboardPath(organization);
  if (kind === 'agent') return agentPath(organization, name);
  if (agent !== null) return agentPath(organization, agent);
  if (server === null) return `${home}/clients`;
  return `${serverPath(organization, server)}/${kind === 'key' ? 'keys' : 'clients'}/${id}`;
}

/** The table of the keys, clients and agents that a person is responsible for. */
export function ownedTable(
  organization: string,
  owned: readonly OwnedView[],
  now: EpochSeconds,
): Table {
  return {
    caption: 'What this person answers for',
    columns: ['Name', 'Kind', 'For', 'Created', 'Last used'],
    rows: owned.map((one) => ({
      id: one.id,
      cells: [
        { kind: 'name', text: displayName(one.name), href: ownedPath(organization, one) },
        { kind: 'text', text: ownedNoun(one) },
        { kind: 'text', text: placeOf(one) },
        timeCell(one.createdAt),
        timeCell(one.lastUsedAt, one.kind === 'agent' ? '' : 'Never'),
      ],
    })),
    empty: { text: 'This person answers for no key, client or agent.' },
    now,
  };
}

function placeOf({ server, agent, kind }: OwnedView): string {
  return server ?? agent ?? (kind === 'client' ? 'the organization' : '');
}

const showOffboarding: PageHandler = async (visit, request, reply, { ports }) => {
  const { organization, perform, person: me } = visit;
  const { userId = '' } = request.params;
  const leaving = await perform(personLeaving, { userId });
  const found = await findOrganization(ports.db, organization);
  if (!found) throw notFound('organization');
  const takers = await takersInsteadOf(userId, found, ports);
  const own = takers.some(({ id }) => id === me.user.id) ? me.user.id : undefined;
  const home = `${dashboardPath(organization)}/people`;
  const { email } = leaving.person;
  const data = {
    email,
    owned: leaving.owned,
    consequences: consequencesOf(leaving),
    choices: choicesFor(takers, own),
    suspends: leaving.suspends,
    isProvisioned: leaving.person.provisioned,
    action: `${home}/${userId}/offboard`,
    cancel: `${home}/${userId}`,
    now: ports.clock.now(),
  };
  const crumbs = [
    { text: 'People', href: home },
    { text: email, href: `${home}/${userId}` },
    { text: 'Offboard' },
  ];
  return sendDashboardPage(reply, visit, offboardingPage, data, { crumbs });
};

/** The consequences of offboarding, one sentence each. */
function consequencesOf({
  ends,
  person,
}: Pick<z.output<typeof personLeaving.output>, 'ends' | 'person'>): readonly string[] {
  const { applications, connections, invitations, invitationsTo, sessions, tokens } = ends;
  const sentence = (count: number, one: string, several: string) =>
    count === 0 ? [] : [`${counted(count, one, several)} immediately.`];
  return [
    ...sentence(applications, 'application loses access', 'applications lose access'),
    ...sentence(sessions, 'browser is signed out', 'browsers are signed out'),
    ...sentence(tokens, 'personal token stops working', 'personal tokens stop working'),
    ...sentence(
      connections,
      'connected account is disconnected',
      'connected accounts are disconnected',
    ),
    ...sentence(
      ends.scimTokens,
      'SCIM token that they created is revoked',
      'SCIM tokens that they created are revoked',
    ),
    ...sentence(
      invitations,
      'invitation that they made stops working',
      'invitations that they made stop working',
    ),
    ...sentence(
      invitationsTo,
      'invitation to their address is revoked',
      'invitations to their address are revoked',
    ),
    person.groups.length === 0
      ? 'They are removed from this organization.'
      : `They are removed from this organization and from ${counted(person.groups.length, 'group')}.`,
    ends.staysElsewhere
      ? 'They keep their account, because they belong to another organization.'
      : 'They keep their account, but it no longer opens anything.',
  ];
}

function choicesFor(
  takers: readonly { readonly id: string; readonly email: string }[],
  own: string | undefined,
): readonly Choice[] {
  const others = takers.filter(({ id }) => id !== own);
  return [
    ...(own === undefined ? [] : [{ value: own, text: 'Me', isChosen: true }]),
    ...others.map(({ id, email }) => ({ value: id, text: displayName(email), isChosen: false })),
    { value: 'leave', text: 'No one yet', isChosen: own === undefined },
    { value: 'revoke', text: 'No one: revoke', isChosen: false },
  ];
}

const offboard: FormHandler = async (visit, sent, { params: { userId = '' } }, reply) => {
  const except = [...sent].flatMap(([name, to]) => {
    const [, resourceId] = /^to\.(.+)$/.exec(name) ?? [];
    return resourceId === undefined || to === 'as-all' ? [] : [{ resourceId, to }];
  });
  const to = sent.get('to');
  const change = { userId, except, ...(to !== undefined && { to }) };
  const { handedOver } = await visit.perform(personOffboard, change);
  const done = new URLSearchParams({ done: 'offboarded', taken: String(handedOver) });
  return seeOther(reply, `${dashboardPath(visit.organization)}/people?${done.toString()}`);
};

interface OffboardingPageData {
  readonly email: string;
  readonly owned: readonly OwnedView[];
  readonly consequences: readonly string[];
  /** The people who can take over, and the alternatives: no one yet, or revoke. */
  readonly choices: readonly Choice[];
  readonly suspends: boolean;
  /** Whether a directory manages the membership. */
  readonly isProvisioned: boolean;
  readonly action: string;
  readonly cancel: string;
  readonly now: EpochSeconds;
}

function offboardingPage(data: OffboardingPageData, frame: Frame): Html {
  const { email, owned, consequences, action, cancel, isProvisioned } = data;
  const lead = 'Everything below happens in one step. It cannot be undone.';
  const fields = html`${owned.length > 0 && takeOverFields(data)}
<div class="actions"><button class="danger strong">Offboard ${email}</button><a class="button" href="${cancel}">Cancel</a></div>`;
  const content = html`${pageHeading({ heading: `Offboard ${email}?`, lead })}
${isProvisioned && html`<p class="notice warning">A directory manages this person. Remove them there too, or it may add them again.</p>`}
<section class="section" aria-labelledby="ends-heading">
<h2 id="ends-heading">What ends</h2>
<ul class="consequences">
${consequences.map((text) => html`<li>${text}</li>`)}
</ul>
</section>
${postForm(frame, { action }, fields)}`;
  return layout({ title: `Offboard ${email}`, width: 'text' }, frame, content);
}

/** Each exception is a form field of its own, and the size and the number of fields of a form are limited. */
const mostExceptions = 50;

function takeOverFields({ owned, choices, suspends, now }: OffboardingPageData): Html {
  const help = suspends
    ? 'What no one takes over is suspended until someone does, under Needs an owner.'
    : 'What no one takes over goes on working, and is listed under Needs an owner.';
  const asAll = { value: 'as-all', text: 'As chosen above', isChosen: true };
  const others = choices.map(({ value, text }) => ({ value, text, isChosen: false }));
  const shown = owned.slice(0, mostExceptions);
  return html`<section class="section" aria-labelledby="owned-heading">
<h2 id="owned-heading">${counted(owned.length, 'key, client or agent has', 'keys, clients and agents have')} no other owner</h2>
${selectField({ name: 'to', label: 'Who takes over', help, options: choices })}
<ul class="rows">
${shown.map((one) => {
  const id = `to.${one.id}`;
  const place = placeOf(one);
  return html`<li>
<div><strong dir="auto">${displayName(one.name)}</strong>
<p class="help">${ownedNoun(one)}${place && html` of <span dir="auto">${place}</span>`}${one.agent !== null && ' · goes with the agent unless you choose otherwise'} · ${one.lastUsedAt === null ? (one.kind === 'agent' ? html`created ${relativeTime(one.createdAt, now)}` : 'never used') : html`last used ${relativeTime(one.lastUsedAt, now)}`}</p></div>
<div class="actions"><label class="unseen" for="${id}">Who takes over ${one.name}</label>
<select id="${id}" name="${id}">${selectOptions([asAll, ...others])}</select></div>
</li>`;
})}
</ul>
${owned.length > shown.length && html`<p class="help">${counted(owned.length - shown.length, 'more is', 'more are')} taken over as chosen above.</p>`}
</section>`;
}

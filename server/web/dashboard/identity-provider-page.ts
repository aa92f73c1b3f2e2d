import type { ProviderView } from '#admin/identity-providers';
import { postForm } from '#web/forms';
import { html, type Html } from '#web/html';
import { type Badge, type Frame, layout, pageHeading, statusNotice } from '#web/layout';
import { copyable, dataTable, type Fact, factList, type Table, timeCell } from '#web/tables';
import { removalSection } from './provider-removal.ts';
import { resultSection, type TestResult } from './single-sign-on.ts';

export function badgeOf({ status }: Pick<ProviderView, 'status'>): Badge {
  switch (status) {
    case 'tested':
      return { text: 'Tested', tone: 'good' };
    case 'untested':
      return { text: 'Not tested', tone: 'care' };
    case 'disabled':
      return { text: 'Disabled', tone: 'bad' };
  }
}

interface ProviderData {
  readonly provider: ProviderView;
  readonly redirectUri: string;
  readonly logoutUri: string;
  /** The path of this page. */
  readonly at: string;
  readonly mayManage: boolean;
  /** The address of the signed-in person, who would run the test. */
  readonly email: string;
  readonly notice: string | undefined;
  readonly result: TestResult | undefined;
  readonly members: Table;
  readonly now: number;
}

const joiningWords = {
  nobody: 'Cannot sign in',
  viewer: 'Join as viewer',
  member: 'Join as member',
  admin: 'Join as admin',
} as const;

function vouchingWords({
  assertionsAllowed,
  assertionClients: clients,
  assertionServers: servers,
}: ProviderView): string {
  if (!assertionsAllowed) return 'Cannot give applications access';
  const who = clients.length === 0 ? 'those of your administrators' : clients.join(', ');
  return `Can give access to ${who}; servers: ${servers.join(', ') || 'all'}`;
}

function factsOf(provider: ProviderView): Fact[] {
  return [
    { label: 'Issuer', cell: { kind: 'address', text: provider.issuer } },
    ...(provider.clientId === ''
      ? [{ label: 'Client', text: 'None: people cannot sign in through it' }]
      : [
          { label: 'Client ID', cell: { kind: 'address', text: provider.clientId } } as const,
          { label: 'Client secret', text: 'Set; never shown' },
        ]),
    { label: 'Requested scopes', text: scopeWords(provider) },
    { label: 'Groups claim', text: provider.groupsClaim },
    {
      label: 'Addresses without email_verified',
      text: provider.emailTrusted ? 'Trusted' : 'Not trusted',
    },
    {
      label: 'Second factor',
      text: provider.countsAsTwoFactors
        ? 'Each sign-in counts as two factors'
        : 'If the provider says so',
    },
    { label: 'People who are not members', text: joiningWords[provider.joiningRole] },
    { label: 'Roles by group', text: provider.roleGroups.join(', ') || 'None' },
    { label: 'Applications', text: vouchingWords(provider) },
    ...(provider.nativeClientId === null
      ? []
      : [
          {
            label: 'Client of Latchkey’s proxy',
            cell: { kind: 'address', text: provider.nativeClientId },
          } as const,
        ]),
    { label: 'Tested', cell: timeCell(provider.testedAt, 'Never') },
  ];
}

/** The scopes. `offline_access` is named separately, because it is requested only from a provider that supports it. */
function scopeWords({ scopes, checkAgain }: ProviderView): string {
  const always = ['openid', 'email', ...scopes].join(' ');
  return checkAgain === 'never' ? always : `${always}; offline_access to check people again`;
}

/** One provider: its settings, a test of it, and who is linked. */
export function providerPage(data: ProviderData, frame: Frame): Html {
  const { provider, redirectUri, at, mayManage, result, members, now } = data;
  const isEnabled = provider.status !== 'disabled';
  const action = mayManage
    ? ({ text: 'Change', href: `${at}/edit`, look: 'plain' } as const)
    : undefined;
  const enable = postForm(frame, { action: `${at}/enable` }, html`<button>Enable</button>`);
  const isForPeople = provider.clientId !== '';
  const content = html`${pageHeading({ heading: provider.name, badges: [badgeOf(provider)], action })}
${statusNotice(data.notice)}
${result && resultSection(result, now)}
${
  isForPeople &&
  html`<section class="group" aria-labelledby="url-heading">
<h2 id="url-heading">Redirect URL</h2>
<p class="help">Register it at the provider, exactly as it is.</p>
${copyable(redirectUri, 'the redirect URL')}
</section>`
}
${factList(factsOf(provider), now)}
${mayManage && html`<div class="actions"><a class="button" href="${at}/assertions">Applications</a></div>`}
${mayManage && isEnabled && isForPeople && testSection(data, frame)}
${removalSection(removalOf(data), now)}
<section class="section" aria-labelledby="members-heading">
<h2 id="members-heading">Linked people</h2>
${dataTable(members)}
</section>
${
  mayManage &&
  html`<section class="section" aria-labelledby="state-heading">
<h2 id="state-heading">Disable or remove</h2>
<ul class="rows">
<li>
<div>${isEnabled ? 'Sign everyone out who came through it, until you enable it again.' : 'Let people sign in through it again.'}</div>
${isEnabled ? html`<a class="button danger" href="${at}/disable" data-question>Disable</a>` : enable}
</li>
<li>
<div>Remove this provider with its links. This cannot be undone.</div>
<a class="button danger" href="${at}/remove" data-question>Remove</a>
</li>
</ul>
</section>`
}`;
  return layout({ title: provider.name, width: 'text' }, frame, content);
}

function removalOf({ provider, logoutUri }: ProviderData) {
  const { announcedAt, checkedPeople, failingPeople, failingSince, failure } = provider;
  return {
    logoutUri,
    announcedAt,
    checking: provider,
    checks: {
      people: checkedPeople,
      failing: failingPeople,
      failingSince: failingSince ?? undefined,
      failure: failure ?? undefined,
    },
  };
}

function testSection({ at, email }: ProviderData, frame: Frame): Html {
  return html`<section class="section" aria-labelledby="test-heading">
<h2 id="test-heading">Test</h2>
<p class="help">You sign in at the provider, and this page shows its answer. You stay signed in here as ${email}. Single sign-on can be required once an owner’s own account passes the test.</p>
${postForm(frame, { action: `${at}/test` }, html`<div class="actions"><button class="primary">Test sign-in</button></div>`)}
</section>`;
}

interface Linked {
  readonly userId: string;
  readonly email: string;
  readonly subject: string;
  readonly usedAt: number;
}

/** The people who are linked through a provider whose page is at the path `at`. */
export function memberTable(
  members: readonly Linked[],
  { at, mayManage, now }: { at: string; mayManage: boolean; now: number },
): Table {
  const unlink = (userId: string, of: string) => ({
    text: 'Unlink',
    href: `${at}/members/${userId}/unlink`,
    of,
    danger: true,
  });
  return {
    caption: 'People who are linked to this provider',
    columns: ['Person', 'Account there', 'Last sign-in', 'Actions'],
    rows: members.map(({ userId, email, subject, usedAt }) => ({
      id: userId,
      cells: [
        { kind: 'text', text: email },
        { kind: 'id', text: subject },
        timeCell(usedAt),
        { kind: 'actions', actions: mayManage ? [unlink(userId, email)] : [] },
      ],
    })),
    empty: { text: 'No one has signed in through this provider yet.' },
    now,
  };
}

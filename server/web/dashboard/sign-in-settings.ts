import type { FastifyReply } from 'fastify';
import { logoutPathOf } from '#accounts/provider-setup';
import { type DomainView, domainAdd, domainList, domainProve, domainRemove } from '#admin/domains';
import { groupList } from '#admin/groups';
import { providerUpdateAssertions } from '#admin/identity-assertions';
import {
  type ProviderView,
  checkDeliberate,
  providerCreate,
  providerDisable,
  providerEnable,
  providerList,
  providerRead,
  providerRemove,
  providerUpdate,
} from '#admin/identity-providers';
import { providerMembers, providerUnlink } from '#admin/linked-members';
import { isConflict, notFound } from '#admin/refusal';
import { errorSummary, type FieldError, postForm } from '#web/forms';
import { html, type Html } from '#web/html';
import { dashboardPath, type Frame, layout, pageHeading, statusNotice } from '#web/layout';
import { queryChoice, seeOther } from '#web/page-request';
import { copyable, dataTable, type Table, timeCell } from '#web/tables';
import { timeIn } from '#web/times';
import { formRoutes, type FormRoutes } from './form-routes.ts';
import { formFor, type FormState } from './forms.ts';
import type {
  DashboardGuard,
  DashboardRequest,
  DashboardVisit,
  FormHandler,
  PageHandler,
} from './guard.ts';
import { sendDashboardPage } from './page.ts';
import type { DashboardOptions } from './ports.ts';
import { badgeOf, memberTable, providerPage } from './identity-provider-page.ts';
import { testRoutes } from './provider-test.ts';
import { failureWords } from './provider-removal.ts';
import { counted, type Question, questionRoutes } from './questions.ts';
import type { TestResult } from './single-sign-on.ts';

/** `/sign-in`: how members sign in: the identity providers of the organization, and the domains that it has proved. */
export function signInSettingsRoutes(guard: DashboardGuard): void {
  guard.get(home, toRead, showSettings);
  guard.post(`${home}/domains`, toManage, addDomain);
  guard.post(`${home}/domains/:domain/prove`, toManage, proveDomain);
  questionRoutes(guard, `${home}/domains/:domain/remove`, toManage, domainRemoval);
  formRoutes(guard, `${home}/new-provider`, toManage, newProvider);
  guard.get(path, toRead, showProvider);
  formRoutes(guard, `${path}/edit`, toManage, editing);
  formRoutes(guard, `${path}/assertions`, toManage, vouching);
  guard.post(`${path}/enable`, toManage, enableProvider);
  questionRoutes(guard, `${path}/disable`, toManage, disabling);
  questionRoutes(guard, `${path}/remove`, toManage, removal);
  questionRoutes(guard, `${path}/members/:userId/unlink`, toManage, unlinking);
  testRoutes(guard, path, sendProvider);
}

const home = '/sign-in';
const path = `${home}/providers/:providerId`;
const toRead = 'provider.read';
const toManage = 'provider.manage';
const domainForm = formFor(domainAdd);
const notices: Readonly<Record<string, string>> = {
  removed: 'Identity provider removed.',
  'domain-added': 'Domain added. Create its DNS record, then press Check now.',
  'domain-proved': 'Domain proved.',
  'domain-removed': 'Domain removed.',
};
const providerNotices: Readonly<Record<string, string>> = {
  saved: 'Saved.',
  enabled: 'Identity provider enabled.',
  disabled: 'Identity provider disabled. Its sessions have ended.',
  unlinked: 'Person unlinked.',
};

function signInSettingsPath(organization: string): string {
  return dashboardPath(organization) + home;
}

function providerPath({ organization }: DashboardVisit, id: string): string {
  return `${signInSettingsPath(organization)}/providers/${id}`;
}

const placeOf = ({ params }: DashboardRequest) => ({ providerId: params['providerId'] ?? '' });
const domainOf = ({ params }: DashboardRequest) => ({ domain: params['domain'] ?? '' });
const crumbsTo = (organization: string, text: string) => [
  { text: 'Sign-in', href: signInSettingsPath(organization) },
  { text },
];

const showSettings: PageHandler = (visit, request, reply, options) =>
  sendSettings(visit, reply, { notice: queryChoice(request, 'done', notices) }, options);

async function sendSettings(
  visit: DashboardVisit,
  reply: FastifyReply,
  { entered = domainForm.blank, errors = [], notice }: FormState,
  { ports }: DashboardOptions,
) {
  const { items: providers } = await visit.perform(providerList);
  const { items: domains } = await visit.perform(domainList);
  const data = {
    base: signInSettingsPath(visit.organization),
    organization: visit.organization,
    providers: providerTable(visit, providers, ports.clock.now()),
    domains,
    mayManage: visit.may(toManage),
    hasInstallation: ports.identityProvider !== undefined,
    installation: `${dashboardPath(visit.organization)}/single-sign-on`,
    fields: domainForm.fields(entered, errors, { focus: false }),
    errors,
    notice,
  };
  return sendDashboardPage(reply, visit, settingsPage, data, { crumbs: [{ text: 'Sign-in' }] });
}

const addDomain: FormHandler = async (visit, sent, _request, reply, options) => {
  const refused = await domainForm.submit({ sent, conflict: 'domain' }, (input) =>
    visit.perform(domainAdd, input),
  );
  if (refused) return sendSettings(visit, reply, refused, options);
  return seeOther(reply, `${signInSettingsPath(visit.organization)}?done=domain-added`);
};

const proveDomain: FormHandler = async (visit, _sent, request, reply, options) => {
  try {
    await visit.perform(domainProve, domainOf(request));
  } catch (refusal) {
    if (!isConflict(refusal)) throw refusal;
    const errors = domainForm.errorsOf(refusal, domainOf(request), 'domain');
    return sendSettings(visit, reply, { entered: domainOf(request), errors }, options);
  }
  return seeOther(reply, `${signInSettingsPath(visit.organization)}?done=domain-proved`);
};

const domainRemoval: Question = {
  async ask({ organization, perform }, request) {
    const { domain } = domainOf(request);
    const { items } = await perform(domainList);
    if (!items.some((one) => one.domain === domain)) throw notFound('domain');
    return {
      heading: `Remove the domain ${domain}?`,
      consequences: [
        'No one with an address of this domain is linked or joins any more by signing in.',
        'People who are linked stay linked.',
      ],
      verb: 'Remove domain',
      cancel: signInSettingsPath(organization),
      crumbs: crumbsTo(organization, domain),
    };
  },
  async act(visit, request) {
    await visit.perform(domainRemove, domainOf(request));
    return `${signInSettingsPath(visit.organization)}?done=domain-removed`;
  },
};

async function groupsHere(visit: DashboardVisit) {
  const { items } = await visit.perform(groupList);
  return { group: { choices: items.map(({ id, name }) => ({ value: id, text: name })) } };
}

const newProvider: FormRoutes = {
  form: formFor(providerCreate),
  conflict: 'name',
  async page(visit, _request, { ports }) {
    // Checked before the person types anything.
    checkDeliberate(visit.actor, ports.clock.now());
    const { organization } = visit;
    return {
      heading: 'Add an identity provider',
      lead: 'An OpenID provider, such as Microsoft Entra ID, Okta or Keycloak. Register Latchkey there as a web application first; the next page shows the redirect URL.',
      refused: 'Not added yet',
      verb: 'Add provider',
      cancel: signInSettingsPath(organization),
      crumbs: crumbsTo(organization, 'Add an identity provider'),
      shownFields: { here: await groupsHere(visit) },
    };
  },
  async act(visit, entered, _request, reply) {
    const { id } = await visit.perform(providerCreate, entered);
    return seeOther(reply, providerPath(visit, id));
  },
};

const editing: FormRoutes = {
  form: formFor(providerUpdate),
  conflict: 'name',
  async page(visit, request, { ports }) {
    const provider = await visit.perform(providerRead, placeOf(request));
    checkDeliberate(visit.actor, ports.clock.now());
    return {
      heading: `Change ${provider.name}`,
      lead: 'Leave the client secret empty to keep it. Another client ID or secret needs a new test.',
      refused: 'Not saved yet',
      verb: 'Save',
      cancel: providerPath(visit, provider.id),
      crumbs: crumbsTo(visit.organization, provider.name),
      record: provider,
      shownFields: { here: await groupsHere(visit) },
    };
  },
  async act(visit, entered, request, reply) {
    const place = placeOf(request);
    await visit.perform(providerUpdate, { ...entered, ...place });
    return seeOther(reply, `${providerPath(visit, place.providerId)}?done=saved`);
  },
};

const vouching: FormRoutes = {
  form: formFor(providerUpdateAssertions),
  conflict: 'assertionsAllowed',
  async page(visit, request) {
    const provider = await visit.perform(providerRead, placeOf(request));
    return {
      heading: `Applications of ${provider.name}`,
      lead: 'The provider can give applications access to servers for members (identity assertions). Access that it gave before ends when you save; applications then ask again automatically.',
      refused: 'Not saved yet',
      verb: 'Save',
      cancel: providerPath(visit, provider.id),
      crumbs: crumbsTo(visit.organization, provider.name),
      record: {
        ...provider,
        keysUrl: provider.keysUrl ?? '',
        nativeClientId: provider.nativeClientId ?? '',
      },
      shownFields: { focus: false },
    };
  },
  async act(visit, entered, request, reply) {
    const place = placeOf(request);
    await visit.perform(providerUpdateAssertions, { ...entered, ...place });
    return seeOther(reply, `${providerPath(visit, place.providerId)}?done=saved`);
  },
};

const showProvider: PageHandler = (visit, request, reply, options) => {
  const notice = queryChoice(request, 'done', providerNotices);
  return sendProvider(visit, request, reply, { notice }, options);
};

/** Sends the page of one provider, after a test with its result. */
async function sendProvider(
  visit: DashboardVisit,
  request: DashboardRequest,
  reply: FastifyReply,
  { notice, result }: { notice?: string | undefined; result?: TestResult },
  { base, ports }: DashboardOptions,
) {
  const provider = await visit.perform(providerRead, placeOf(request));
  const { items: members } = await visit.perform(providerMembers, placeOf(request));
  const now = ports.clock.now();
  const data = {
    provider,
    redirectUri: `${base}/sign-in/provider/${provider.id}/callback`,
    logoutUri: base + logoutPathOf(provider.id),
    at: providerPath(visit, provider.id),
    mayManage: visit.may(toManage),
    email: visit.person.user.email,
    notice,
    result,
    members: memberTable(members, {
      at: providerPath(visit, provider.id),
      mayManage: visit.may(toManage),
      now,
    }),
    now,
  };
  const crumbs = crumbsTo(visit.organization, provider.name);
  return sendDashboardPage(reply, visit, providerPage, data, { crumbs });
}

const enableProvider: FormHandler = async (visit, _sent, request, reply) => {
  const place = placeOf(request);
  await visit.perform(providerEnable, place);
  return seeOther(reply, `${providerPath(visit, place.providerId)}?done=enabled`);
};

/** Asks before an action on a provider. */
function question(
  words: {
    heading: (name: string) => string;
    consequences: readonly string[];
    verb: string;
    /** Whether it may be done without a recent sign-in. */
    isUrgent?: boolean;
  },
  act: (visit: DashboardVisit, request: DashboardRequest) => Promise<string>,
): Question {
  return {
    async ask(visit, request, { ports }) {
      const { id, name } = await visit.perform(providerRead, placeOf(request));
      if (!words.isUrgent) checkDeliberate(visit.actor, ports.clock.now());
      return {
        heading: words.heading(name),
        consequences: words.consequences,
        verb: words.verb,
        cancel: providerPath(visit, id),
        crumbs: crumbsTo(visit.organization, name),
      };
    },
    act,
  };
}

const disabling = question(
  {
    heading: (name) => `Disable ${name}?`,
    consequences: [
      'Everyone who signed in through it is signed out, and no one can sign in through it.',
      'The groups that it reported do not count until you enable it again.',
    ],
    verb: 'Disable provider',
    isUrgent: true,
  },
  async (visit, request) => {
    const { id } = await visit.perform(providerDisable, placeOf(request));
    return `${providerPath(visit, id)}?done=disabled`;
  },
);

const removal = question(
  {
    heading: (name) => `Remove ${name}?`,
    consequences: [
      'Everyone who signed in through it is signed out. Members stay members.',
      'All links of people to their accounts there are removed. This cannot be undone.',
    ],
    verb: 'Remove provider',
  },
  async (visit, request) => {
    await visit.perform(providerRemove, placeOf(request));
    return `${signInSettingsPath(visit.organization)}?done=removed`;
  },
);

const unlinking = question(
  {
    heading: (name) => `Unlink this person from ${name}?`,
    consequences: [
      'Their sessions through the provider end.',
      'The next account there with their verified address is linked instead.',
    ],
    verb: 'Unlink person',
  },
  async (visit, request) => {
    const place = placeOf(request);
    await visit.perform(providerUnlink, { ...place, userId: request.params['userId'] ?? '' });
    return `${providerPath(visit, place.providerId)}?done=unlinked`;
  },
);

function providerTable(
  visit: DashboardVisit,
  providers: readonly ProviderView[],
  now: number,
): Table {
  return {
    caption: 'Identity providers',
    columns: ['Name', 'Issuer', 'Linked people', 'Checks', 'Tested'],
    rows: providers.map((one) => ({
      id: one.id,
      isOver: one.status === 'disabled',
      cells: [
        { kind: 'name', text: one.name, href: providerPath(visit, one.id), badges: [badgeOf(one)] },
        { kind: 'address', text: one.issuer },
        { kind: 'text', text: String(one.members) },
        { kind: 'text', text: checksOf(one) },
        timeCell(one.testedAt, 'Never'),
      ],
    })),
    empty: {
      text: 'No identity providers yet. Members sign in with a password, a passkey or the provider of this server.',
    },
    now,
  };
}

/** Whether people are checked again at a provider, in a few words; its page says more. */
function checksOf({ checkAgain, checkedPeople, failingSince, failure }: ProviderView): string {
  if (failingSince !== null) {
    return `Failing since ${timeIn('moment', failingSince)}: ${failureWords(failure ?? undefined)}`;
  }
  if (checkAgain === 'never') return 'Off';
  return checkedPeople === 0 ? 'None yet' : counted(checkedPeople, 'person', 'people');
}

interface SettingsData {
  /** The path of this page. */
  readonly base: string;
  readonly organization: string;
  readonly providers: Table;
  readonly domains: readonly DomainView[];
  readonly mayManage: boolean;
  /** Whether the server has a provider for all organizations, and the page about it. */
  readonly hasInstallation: boolean;
  readonly installation: string;
  readonly fields: Html;
  readonly errors: readonly FieldError[];
  readonly notice: string | undefined;
}

/** The providers of an organization, and its domains. */
function settingsPage(data: SettingsData, frame: Frame): Html {
  const { base, providers, mayManage, hasInstallation, installation, errors } = data;
  const title = errors.length > 0 ? 'Not saved' : 'Sign-in';
  const lead =
    'Members sign in with their work accounts at your identity provider. Such a session opens only this organization, and cannot change the person’s account.';
  const action = mayManage ? { text: 'Add provider', href: `${base}/new-provider` } : undefined;
  const content = html`${pageHeading({ heading: 'Sign-in', lead, action })}
${statusNotice(data.notice)}
${errorSummary(errors)}
${dataTable(providers)}
${domainSection(data, frame)}
<section class="section" aria-labelledby="provisioning-heading">
<h2 id="provisioning-heading">Provisioning</h2>
<ul class="rows">
<li>
<div>Let your directory add members, end memberships and manage groups, by SCIM 2.0.</div>
<a class="button" href="${base}/scim">Provisioning</a>
</li>
</ul>
</section>
<p class="help">To require a provider for all members, an owner tests it and then turns on <em>Require single sign-on</em> under Settings. <a href="${installation}">${hasInstallation ? 'The provider of this whole server' : 'A provider for this whole server'}</a> is set up by the server’s operator.</p>`;
  return layout({ title, width: 'table' }, frame, content);
}

function domainSection(
  { base, organization, domains, mayManage, fields }: SettingsData,
  frame: Frame,
): Html {
  const add = html`${fields}
<div class="actions"><button>Add domain</button></div>`;
  return html`<section class="section narrow" aria-labelledby="domains-heading">
<h2 id="domains-heading">Domains</h2>
<p class="help">People are linked to a provider by their e-mail address only if its domain is proved here.</p>
<ul class="rows">
${domains.map(
  (one) =>
    html`<li>
<div><strong>${one.domain}</strong> ${one.status === 'proved' ? html`<span class="badge good">Proved</span>` : html`<span class="badge care">Not proved</span>`}
${
  one.status === 'unproved' &&
  html`<p class="help">Create a TXT record with the name</p>${copyable(one.recordName, 'the name of the record')}
<p class="help">and the value</p>${copyable(one.recordValue, 'the value of the record')}
<p class="help">In a closed network, ask the operator: <code>latchkey-server domain confirm ${organization} ${one.domain}</code></p>`
}
${one.provedBy === 'operator' && html`<p class="help">Confirmed by the operator of this server.</p>`}
${one.provedBy === 'dns' && html`<p class="help">Keep the TXT record ${one.recordName}: it is checked again.</p>`}</div>
${
  mayManage &&
  html`<div class="actions">${
    one.provedBy !== 'operator' &&
    postForm(
      frame,
      { action: `${base}/domains/${one.domain}/prove` },
      html`<button>Check now</button>`,
    )
  } <a class="button danger" href="${base}/domains/${one.domain}/remove" data-question>Remove</a></div>`
}
</li>`,
)}
</ul>
${mayManage && postForm(frame, { action: `${base}/domains`, novalidate: true }, add)}
</section>`;
}

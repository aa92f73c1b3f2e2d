import { auditRead } from '#admin/audit';
import type { FieldChoice } from '#admin/fields';
import { grantList } from '#admin/grants';
import { personLeaving, personServers } from '#admin/offboarding';
import { type Operation } from '#admin/operation';
import {
  ownershipTransfer,
  auditorGrant,
  auditorRevoke,
  personRead,
  personSetRole,
  roleChoices,
  secondFactorReset,
  sessionsEnd,
} from '#admin/people';
import { personPseudonymize } from '#admin/pseudonyms';
import { applicationName } from '#web/consent';
import { postForm } from '#web/forms';
import { html, type Html } from '#web/html';
import { dashboardPath, type Frame, layout, pageHeading, statusNotice } from '#web/layout';
import { queryText, seeOther } from '#web/page-request';
import { dataTable, relativeTime, type Table, timeCell } from '#web/tables';
import { partsOf } from '#model/slug';
import { auditSentencesOf } from './audit.ts';
import { lastCalls } from './calls.ts';
import { devicesOf } from './devices.ts';
import { formFor } from './forms.ts';
import type {
  DashboardGuard,
  DashboardRequest,
  DashboardVisit,
  FormHandler,
  PageHandler,
} from './guard.ts';
import { ownedTable } from './offboarding.ts';
import { sendDashboardPage } from './page.ts';
import type { DashboardPorts } from './ports.ts';
import {
  pseudonymConsequences,
  pseudonymDone,
  pseudonymHeading,
  pseudonymVerb,
} from './pseudonym-question.ts';
import { questionRoutes, type Question } from './questions.ts';
import { serverPath } from './server-tabs.ts';
import { checkPath } from './tool-tabs.ts';

/** `/people/{userId}`: a member, their role and other actions. */
export function personRoutes(guard: DashboardGuard): void {
  guard.get('/people/:userId', 'people.read', showPerson);
  guard.post('/people/:userId/role', 'people.manage', changeRole);
  for (const asked of personQuestions) {
    const path = `/people/:userId/${asked.path}`;
    questionRoutes(guard, path, asked.needs, personQuestion(asked));
  }
}

const notices: Readonly<Record<string, string>> = {
  role: 'Role changed. The change takes effect on the next request.',
  device: 'Device signed out. Its applications have lost access.',
};

interface PersonQuestion {
  readonly path: string;
  readonly text: string;
  readonly help: string;
  readonly heading: (email: string) => string;
  readonly consequences: readonly string[];
  readonly operation: Operation;
  readonly needs: 'people.manage' | 'owners.manage';
  /** The notice shown afterwards. */
  readonly done: string;
  /** Whether the address must be typed to confirm. */
  readonly isTyped?: boolean;
  /** Whether the action makes sense for a person. Default: for all. */
  readonly isFor?: (person: { readonly auditor: boolean }) => boolean;
}

const personQuestions: readonly PersonQuestion[] = [
  {
    path: 'sign-out',
    text: 'Sign out everywhere',
    help: 'Sign this person out of all browsers.',
    heading: (email) => `Sign ${email} out everywhere?`,
    consequences: [
      'The person must sign in again in every browser. Applications keep their access.',
    ],
    operation: sessionsEnd,
    needs: 'people.manage',
    done: 'Signed out of all browsers.',
  },
  {
    path: 'reset-second-factor',
    text: 'Reset second factor',
    help: 'Remove the person’s authenticator app, passkeys and linked accounts, for example after they lost their phone.',
    heading: (email) => `Reset second factor of ${email}?`,
    consequences: [
      'Their authenticator app, recovery codes and passkeys stop working, and they are signed out of all browsers.',
      'If they have a password, their linked accounts are unlinked until they link them again.',
      'Until they set up a second factor again, they sign in with the password alone.',
    ],
    operation: secondFactorReset,
    needs: 'people.manage',
    done: 'Second factor reset.',
  },
  {
    path: 'grant-auditor',
    text: 'Make auditor',
    help: 'Let this person read the stored arguments and results of calls.',
    heading: (email) => `Let ${email} read arguments and results?`,
    consequences: [
      'They can read what is stored of every call that they see under Activity. Each reading is an entry in the audit log.',
      'All owners see for 30 days that this person was given the right.',
    ],
    operation: auditorGrant,
    needs: 'owners.manage',
    done: 'This person can now read stored arguments and results.',
    isFor: ({ auditor }) => !auditor,
  },
  {
    path: 'revoke-auditor',
    text: 'Remove auditor',
    help: 'Stop this person from reading stored arguments and results of calls.',
    heading: (email) => `Remove the Auditor right from ${email}?`,
    consequences: ['They can no longer read stored arguments and results.'],
    operation: auditorRevoke,
    needs: 'owners.manage',
    done: 'This person can no longer read stored arguments and results.',
    isFor: ({ auditor }) => auditor,
  },
  {
    path: 'make-owner',
    text: 'Transfer ownership',
    help: 'Make this person an owner and yourself an admin.',
    heading: (email) => `Transfer your ownership to ${email}?`,
    consequences: ['You become an admin. Only an owner can make you an owner again.'],
    operation: ownershipTransfer,
    needs: 'owners.manage',
    done: 'Ownership transferred.',
  },
  {
    path: 'pseudonymize',
    text: pseudonymVerb,
    help: 'Replace the name and address of this person in the calls recorded so far.',
    heading: pseudonymHeading,
    consequences: pseudonymConsequences,
    operation: personPseudonymize,
    needs: 'owners.manage',
    done: pseudonymDone,
    isTyped: true,
  },
];

const roleForm = formFor(personSetRole);

/** The path of a member's page. */
export function personPath(organization: string, userId: string): string {
  return `${dashboardPath(organization)}/people/${userId}`;
}

export function personCrumbs(organization: string, email: string) {
  return [{ text: 'People', href: `${dashboardPath(organization)}/people` }, { text: email }];
}

const showPerson: PageHandler = async (visit, request, reply, { ports }) => {
  const data = await personData(visit, request, ports);
  const crumbs = personCrumbs(visit.organization, data.email);
  return sendDashboardPage(reply, visit, personPage, data, { crumbs });
};

async function personData(visit: DashboardVisit, request: DashboardRequest, ports: DashboardPorts) {
  const { organization, may } = visit;
  const { userId = '' } = request.params;
  const person = await visit.perform(personRead, { userId });
  const mayChange = may('people.manage') && (person.role !== 'owner' || may('owners.manage'));
  const done = queryText(request, 'done');
  const now = ports.clock.now();
  const groups = `${dashboardPath(organization)}/groups`;
  return {
    ...person,
    groups: person.groups.map(({ id, name }) => ({ text: name, href: `${groups}/${id}` })),
    groupsPage: groups,
    now,
    notice: notices[done ?? ''] ?? personQuestions.find(({ path }) => path === done)?.done,
    roles: mayChange ? roleChoices(may('owners.manage'), person.role) : undefined,
    home: personPath(organization, userId),
    questions: personQuestions.filter(
      ({ needs, isFor }) => may(needs) && (isFor?.(person) ?? true),
    ),
    servers: await serversOf(visit, person, now),
    applications: await applicationsOf(visit, userId, now),
    devices: await devicesOf(visit, { userId, home: personPath(organization, userId), now }),
    owned: mayChange ? await ownedBy(visit, userId, now) : undefined,
    calls: await lastCalls(visit, { person: userId }, { kind: 'person', subject: userId }, ports),
    signIns: may('audit.read') ? await signInsOf(visit, userId, ports) : undefined,
    audit: `${dashboardPath(organization)}/audit?${new URLSearchParams({ actor: person.email }).toString()}`,
    consents: `${dashboardPath(organization)}/consents`,
  };
}

type PersonPageData = Awaited<ReturnType<typeof personData>>;

/** The servers that the person may use, and why. */
async function serversOf(
  { organization, perform }: DashboardVisit,
  { id: userId, email }: { readonly id: string; readonly email: string },
  now: number,
) {
  const { items } = await perform(personServers, { userId });
  return {
    caption: 'Servers that this person may use',
    columns: ['Server', 'Why', 'Actions'],
    rows: items.map(({ server, title, isDisabled, groups }) => ({
      id: `server-${server}`,
      cells: [
        {
          kind: 'title',
          of: { name: server, title },
          href: serverPath(organization, server),
          badges: isDisabled ? [{ text: 'Disabled', tone: 'care' }] : [],
        },
        {
          kind: 'text',
          text:
            groups.length === 0
              ? 'Open to everyone in the organization'
              : `Member of ${groups.join(', ')}`,
        },
        {
          kind: 'actions',
          actions: [
            { text: 'Check tools', href: checkPath(organization, server, email), of: server },
          ],
        },
      ],
    })),
    empty: {
      text: 'This person cannot use any server. Groups decide who uses restricted servers.',
    },
    now,
  } satisfies Table;
}

const mostShown = 20;

async function applicationsOf({ perform }: DashboardVisit, userId: string, now: number) {
  const { items, total } = await perform(grantList, { userId, limit: mostShown });
  return {
    total,
    table: {
      caption: 'Applications that act for this person',
      columns: ['Application', 'Server', 'Allowed', 'Expires'],
      rows: items.map((grant) => ({
        id: grant.id,
        isOver: grant.withdrawnAt !== null,
        cells: [
          {
            kind: 'name',
            text: applicationName({ clientName: grant.client, assistant: grant.assistant }),
          },
          { kind: 'text', text: partsOf(grant.server).server },
          timeCell(grant.createdAt),
          timeCell(grant.expiresAt),
        ],
      })),
      empty: { text: 'No application acts for this person.' },
      now,
    } satisfies Table,
  };
}

/** Keys, clients and agents that the person answers for. */
async function ownedBy({ organization, perform }: DashboardVisit, userId: string, now: number) {
  const { owned } = await perform(personLeaving, { userId });
  return ownedTable(organization, owned, now);
}

const mostSignIns = 5;

async function signInsOf(
  { organization, perform }: DashboardVisit,
  userId: string,
  { db, clock }: DashboardPorts,
) {
  const actor = `user:${userId}`;
  const { items } = await perform(auditRead, { actor, action: 'sign-in', limit: mostSignIns });
  const sentenceOf = await auditSentencesOf(organization, items, db);
  return {
    caption: 'The last sign-ins',
    columns: ['What happened', 'Address', 'When'],
    rows: items.map((event) => ({
      id: event.id,
      cells: [
        {
          kind: 'sentence',
          sentence: sentenceOf(event),
          badges: event.outcome === 'refused' ? [{ text: 'Denied', tone: 'bad' }] : [],
          facts: [],
        },
        { kind: 'text', text: event.address ?? '' },
        timeCell(event.at),
      ],
    })),
    empty: { text: 'No sign-in is recorded.' },
    now: clock.now(),
  } satisfies Table;
}

const changeRole: FormHandler = async (visit, sent, request, reply) => {
  const { organization } = visit;
  const { userId = '' } = request.params;
  // A person of another organization is not found, whatever was sent.
  await visit.perform(personRead, { userId });
  await visit.perform(personSetRole, { ...roleForm.inputOf(roleForm.read(sent)), userId });
  return seeOther(reply, `${personPath(organization, userId)}?done=role`);
};

/** Asks before an action on one member, and performs it. */
const personQuestion = (asked: PersonQuestion): Question => ({
  async ask({ organization, perform }, { params: { userId = '' } }) {
    const { email } = await perform(personRead, { userId });
    return {
      heading: asked.heading(email),
      consequences: asked.consequences,
      verb: asked.text,
      typed: asked.isTyped
        ? { label: `Type ${email} to confirm`, expected: email, error: undefined }
        : undefined,
      cancel: personPath(organization, userId),
      crumbs: personCrumbs(organization, email),
    };
  },
  async act({ organization, perform }, { params: { userId = '' } }) {
    await perform(asked.operation, { userId });
    return `${personPath(organization, userId)}?done=${asked.path}`;
  },
});

/** One member of an organization: their state, what they use and own, what they did, and what can be changed. */
function personPage(data: PersonPageData, frame: Frame): Html {
  const { email, role, groups, secondFactor, seenAt, now } = data;
  const badges = [
    { text: role, tone: 'plain' } as const,
    ...(data.auditor ? [{ text: 'Auditor', tone: 'care' } as const] : []),
  ];
  const action =
    data.roles && ({ text: 'Offboard', href: `${data.home}/offboard`, look: 'danger' } as const);
  const content = html`${pageHeading({ heading: email, badges, action })}
${statusNotice(data.notice)}
<dl class="facts beside">
<div>
<dt>Groups</dt>
<dd>${groups.map(({ text, href }, place) => html`${place > 0 && ', '}<a href="${href}" dir="auto">${text}</a>`)}${groups.length === 0 && html`None. <a href="${data.groupsPage}">Add them under Groups</a>`}</dd>
</div>
<div>
<dt>Second factor</dt>
<dd>${secondFactor ? 'Set up' : 'None'}</dd>
</div>
<div>
<dt>Last active</dt>
<dd>${seenAt ? relativeTime(seenAt, now) : 'Never'}</dd>
</div>
</dl>
${tableSection('servers', 'Servers', data.servers)}
${tableSection(
  'applications',
  'Applications',
  data.applications.table,
  data.applications.total > 0 &&
    html`<p><a href="${data.consents}">${data.applications.total > mostShown ? `All ${data.applications.total} consents are under Consents` : 'Withdraw under Consents'}</a></p>`,
)}
${
  data.devices ||
  html`<section class="section" aria-labelledby="devices-heading">
<h2 id="devices-heading">Devices</h2>
<p class="lead">No device has access for this person.</p>
</section>`
}
${data.owned && tableSection('owned', 'Keys, clients and agents', data.owned)}
${data.calls}
${data.signIns && tableSection('sign-ins', 'Sign-ins', data.signIns, html`<p><a href="${data.audit}">Everything that this person did</a></p>`)}
${data.roles && manageSections(data.roles, data, frame)}`;
  return layout({ title: email, width: 'table' }, frame, content);
}

function tableSection(id: string, heading: string, table: Table, more: Html | false = false): Html {
  return html`<section class="section" aria-labelledby="${id}-heading">
<h2 id="${id}-heading">${heading}</h2>
${table.rows.length === 0 ? html`<p class="lead">${table.empty.text}</p>` : dataTable(table)}
${more}
</section>`;
}

function manageSections(
  choices: readonly FieldChoice[],
  { role, home, questions }: PersonPageData,
  frame: Frame,
): Html {
  const options = { focus: false, here: { role: { choices } } };
  const fields = html`${roleForm.fields(roleForm.filled({ role }), [], options)}
<div class="actions"><button class="primary">Change role</button></div>`;
  return html`<section class="section titled" aria-labelledby="role-heading">
<h2 id="role-heading">Role</h2>
${postForm(frame, { action: `${home}/role` }, fields)}
</section>
<section class="section" aria-labelledby="more-heading">
<h2 id="more-heading">More</h2>
<ul class="rows">
${questions.map(
  ({ path, text, help }) =>
    html`<li>
<div>${help}</div>
<a class="button danger" href="${home}/${path}" data-question>${text}</a>
</li>`,
)}
</ul>
</section>`;
}

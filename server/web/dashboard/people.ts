import type { Role } from '#model/roles';
import type { FieldChoice } from '#admin/fields';
import { type Operation } from '#admin/operation';
import {
  ownershipTransfer,
  auditorGrant,
  auditorRevoke,
  personList,
  personRead,
  personRemove,
  personSetRole,
  roleChoices,
  secondFactorReset,
  sessionsEnd,
} from '#admin/people';
import { personPseudonymize } from '#admin/pseudonyms';
import type { EpochSeconds } from '#model/clock';
import { postForm } from '#web/forms';
import { html, type Html } from '#web/html';
import {
  dashboardPath,
  type Frame,
  layout,
  type Link,
  pageHeading,
  statusNotice,
  tabNavigation,
  type Tabs,
} from '#web/layout';
import { queryChoice, queryText, seeOther } from '#web/page-request';
import { dataTable, relativeTime, type Table, timeCell } from '#web/tables';
import { lastCalls } from './calls.ts';
import { formFor } from './forms.ts';
import type { DashboardGuard, DashboardVisit, FormHandler, PageHandler } from './guard.ts';
import { queryCache, type QueryCache } from './live.ts';
import { sendDashboardPage } from './page.ts';
import type { DashboardOptions } from './ports.ts';
import {
  pseudonymConsequences,
  pseudonymDone,
  pseudonymHeading,
  pseudonymVerb,
} from './pseudonym-question.ts';
import { questionRoutes, type Question } from './questions.ts';

/** `/people`: the members of an organization, and for each member their role and other actions. */
export function peopleRoutes(guard: DashboardGuard, { ports }: DashboardOptions): void {
  guard.get('/people', toRead, showPeople(queryCache(ports.changes)));
  guard.get('/people/:userId', toRead, showPerson);
  guard.post('/people/:userId/role', toManage, changeRole);
  for (const asked of personQuestions) {
    const path = `/people/:userId/${asked.path}`;
    questionRoutes(guard, path, asked.needs, personQuestion(asked));
  }
}

const toRead = 'people.read';
const toManage = 'people.manage';
const notices = {
  removed: 'Member removed. Their consents in this organization are withdrawn.',
  role: 'Role changed. The change takes effect on the next request.',
};

const showPeople =
  (cached: QueryCache): PageHandler =>
  async (visit, request, reply, { ports }) => {
    const { organization, may } = visit;
    const path = `${dashboardPath(organization)}/people`;
    const text = queryText(request, 'filter') ?? '';
    const after = queryText(request, 'after');
    const input = { organization, ...(text && { text }), ...(after && { after }) };
    const { items, next } = await cached([visit.role, input], () =>
      visit.perform(personList, input),
    );
    const query = new URLSearchParams({ ...(text && { filter: text }), after: next ?? '' });
    const people: Table = {
      caption: 'People',
      columns: ['E-mail address', 'Role', 'Groups', 'Second factor', 'Last active'].map((one) => ({
        text: one,
      })),
      rows: items.map((person) => ({
        id: person.id,
        cells: [
          {
            kind: 'name',
            text: person.email,
            href: `${path}/${person.id}`,
            badges: person.provisioned ? [{ text: 'SCIM', tone: 'plain' }] : [],
          },
          { kind: 'text', text: person.auditor ? `${person.role}, auditor` : person.role },
          { kind: 'text', text: person.groups.map(({ name }) => name).join(', ') },
          { kind: 'text', text: person.secondFactor ? 'Set up' : 'None' },
          timeCell(person.seenAt, 'Never'),
        ],
      })),
      empty: { text: 'No members match.' },
      now: ports.clock.now(),
    };
    const data = {
      lead: 'The members of this organization and their roles. A changed role takes effect on the next request.',
      action: may('people.manage')
        ? { text: 'Invite people', href: `${path}/invite-several` }
        : undefined,
      tabs: peopleTabs(visit, 'people'),
      notice: queryChoice(request, 'done', notices),
      filter: { path, text },
      people,
      next: next === null ? undefined : `${path}?${query.toString()}`,
    };
    return sendDashboardPage(reply, visit, peoplePage, data, { crumbs: [{ text: 'People' }] });
  };

/** The requested people. */
interface PeoplePageData {
  readonly lead: string;
  readonly action: Link | undefined;
  readonly tabs: Tabs;
  readonly notice: string | undefined;
  readonly filter: { readonly path: string; readonly text: string };
  readonly people: Table;
  /** The next page of the list. */
  readonly next: string | undefined;
}

/** The people of an organization. */
function peoplePage(data: PeoplePageData, frame: Frame): Html {
  const { lead, action, tabs, filter, people, next } = data;
  const content = html`${pageHeading({ heading: 'People', lead, action })}
${tabNavigation(tabs)}
${statusNotice(data.notice)}
<form class="filter" method="get" action="${filter.path}" role="search">
<label class="unseen" for="filter">Filter by address</label>
<input id="filter" name="filter" type="search" value="${filter.text}" placeholder="Filter by address" dir="auto" autocomplete="off">
<button>Apply</button>
</form>
${dataTable(people)}
${next && html`<nav class="pager" aria-label="Pages"><a class="button" rel="next" href="${next}">Next</a></nav>`}`;
  return layout({ title: 'People', width: 'table' }, frame, content);
}

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
  /** Whether it makes sense for a person. Default: for all. */
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
    heading: (email) => `Remove the right Auditor of ${email}?`,
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
  {
    path: 'remove',
    text: 'Remove',
    help: 'Remove this person from the organization.',
    heading: (email) => `Remove ${email}?`,
    consequences: [
      'Applications that act for them lose access immediately, and they are removed from all groups.',
      'They keep their account and their other organizations.',
    ],
    operation: personRemove,
    needs: 'people.manage',
    done: 'removed',
  },
];

const roleForm = formFor(personSetRole);

function personPath(organization: string, userId: string) {
  return `${dashboardPath(organization)}/people/${userId}`;
}

function personCrumbs(organization: string, email: string) {
  return [{ text: 'People', href: `${dashboardPath(organization)}/people` }, { text: email }];
}

const showPerson: PageHandler = async (visit, request, reply, { ports }) => {
  const { organization, may } = visit;
  const { userId = '' } = request.params;
  const person = await visit.perform(personRead, { userId });
  const mayChange = may('people.manage') && (person.role !== 'owner' || may('owners.manage'));
  const done = queryText(request, 'done');
  const data = {
    ...person,
    groups: person.groups.map(({ name }) => name),
    now: ports.clock.now(),
    notice:
      done === 'role' ? notices.role : personQuestions.find(({ path }) => path === done)?.done,
    roles: mayChange ? roleChoices(may('owners.manage'), person.role) : undefined,
    home: personPath(organization, userId),
    questions: personQuestions.filter(
      ({ needs, isFor }) => may(needs) && (isFor?.(person) ?? true),
    ),
    calls: await lastCalls(visit, { person: userId }, { kind: 'person', subject: userId }, ports),
  };
  const crumbs = personCrumbs(organization, person.email);
  return sendDashboardPage(reply, visit, personPage, data, { crumbs });
};

const changeRole: FormHandler = async (visit, sent, request, reply) => {
  const { organization } = visit;
  const { userId = '' } = request.params;
  // A person of another organization is not found, whatever was sent.
  await visit.perform(personRead, { userId });
  await visit.perform(personSetRole, { ...roleForm.inputOf(roleForm.read(sent)), userId });
  return seeOther(reply, `${personPath(organization, userId)}?done=role`);
};

/** Asks about one member, and does it. */
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
    if (asked.path === 'remove') return `${dashboardPath(organization)}/people?done=removed`;
    return `${personPath(organization, userId)}?done=${asked.path}`;
  },
});

/** A member of an organization, and what can be changed. */
interface PersonPageData {
  readonly email: string;
  readonly role: Role;
  readonly groups: readonly string[];
  readonly secondFactor: boolean;
  /** Whether they can read stored arguments and results. */
  readonly auditor: boolean;
  /** When they were last seen; `null` for never. */
  readonly seenAt: EpochSeconds | null;
  readonly now: EpochSeconds;
  readonly notice: string | undefined;
  /** `undefined` for people who may not change it. */
  readonly roles: readonly FieldChoice[] | undefined;
  /** Path of the page; the questions are below it. */
  readonly home: string;
  readonly questions: readonly {
    readonly path: string;
    readonly text: string;
    readonly help: string;
  }[];
  /** Made by `lastCalls`. */
  readonly calls: Html | undefined;
}

/** One member of an organization: their state, their role, and what else can be changed. */
function personPage(data: PersonPageData, frame: Frame): Html {
  const { email, role, groups, secondFactor, seenAt, now } = data;
  const badges = [
    { text: role, tone: 'plain' } as const,
    ...(data.auditor ? [{ text: 'Auditor', tone: 'care' } as const] : []),
  ];
  const content = html`${pageHeading({ heading: email, badges })}
${statusNotice(data.notice)}
<dl class="facts beside">
<div>
<dt>Groups</dt>
<dd>${groups.join(', ') || 'None'}</dd>
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
${data.calls}
${data.roles && manageSections(data.roles, data, frame)}`;
  return layout({ title: email, width: 'text' }, frame, content);
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

/** The tabs of the pages about people. */
export function peopleTabs(
  { organization, may }: DashboardVisit,
  here: 'people' | 'invitations' | 'consents' | 'ownerless',
) {
  const home = dashboardPath(organization);
  return {
    label: 'People',
    entries: [
      { text: 'Members', href: `${home}/people`, isHere: here === 'people' },
      ...(may('people.manage')
        ? [
            {
              text: 'Invitations',
              href: `${home}/people/invitations`,
              isHere: here === 'invitations',
            },
          ]
        : []),
      ...(may('grants.read')
        ? [{ text: 'Consents', href: `${home}/consents`, isHere: here === 'consents' }]
        : []),
      ...(may('agent.read')
        ? [
            {
              text: 'Needs an owner',
              href: `${home}/people/needs-owner`,
              isHere: here === 'ownerless',
            },
          ]
        : []),
    ],
  };
}

import type { Operation } from '#administration/operation';
import {
  ownershipTransfer,
  personRead,
  personRemove,
  personSetRole,
  secondFactorReset,
  sessionsEnd,
} from '#administration/people-operations';
import { perform } from '#administration/perform';
import { queryText } from '#http/query-text';
import { seeOther } from '#http/see-other';
import { dashboardPath } from '#pages/dashboard-frame';
import type { DashboardDoor } from './dashboard-door.ts';
import type { DashboardOptions } from './dashboard-ports.ts';
import { personPage } from './person-page.ts';
import { questionRoutes } from './question-routes.ts';
import { roleOptions } from './role-words.ts';
import { sendDashboardPage } from './send-dashboard-page.ts';

interface PersonQuestion {
  readonly path: string;
  readonly text: string;
  readonly help: string;
  readonly heading: (email: string) => string;
  readonly consequences: readonly string[];
  readonly operation: Operation;
  readonly needs: 'people.manage' | 'owners.manage';
  /** What the notice says afterwards. */
  readonly done: string;
}

const questions: readonly PersonQuestion[] = [
  {
    path: 'sign-out',
    text: 'Sign out everywhere',
    help: 'End every browser session of theirs.',
    heading: (email) => `Sign ${email} out everywhere?`,
    consequences: ['Every browser has to sign in again. Applications keep what they were allowed.'],
    operation: sessionsEnd,
    needs: 'people.manage',
    done: 'Every session is ended.',
  },
  {
    path: 'reset-second-factor',
    text: 'Reset the second factor',
    help: 'Take their authenticator app, passkeys and linked accounts away, when the phone is lost.',
    heading: (email) => `Reset the second factor of ${email}?`,
    consequences: [
      'Their app, recovery codes and passkeys count no more, and every session ends.',
      'Who has a password signs in by no linked account until they link it again.',
      'Until they set one up again, the password alone signs them in.',
    ],
    operation: secondFactorReset,
    needs: 'people.manage',
    done: 'Every second factor is taken away.',
  },
  {
    path: 'make-owner',
    text: 'Hand ownership on',
    help: 'Make them an owner, and yourself an admin.',
    heading: (email) => `Make ${email} an owner in your place?`,
    consequences: ['You become an admin, and only an owner can make you one again.'],
    operation: ownershipTransfer,
    needs: 'owners.manage',
    done: 'Ownership is handed on.',
  },
  {
    path: 'remove',
    text: 'Remove',
    help: 'Take them out of this organization.',
    heading: (email) => `Remove ${email}?`,
    consequences: [
      'What they allowed applications here ends at once, and so do their places in groups.',
      'Their account stays, with whatever other organizations it belongs to.',
    ],
    operation: personRemove,
    needs: 'people.manage',
    done: 'removed',
  },
];

/** `/people/{id}`: one person, their role, and what else can be done. */
export function personRoutes(door: DashboardDoor, { ports }: DashboardOptions): void {
  const reads = { permission: 'people.read', section: 'people' } as const;
  const manages = { permission: 'people.manage', section: 'people' } as const;
  const homeOf = (organization: string, userId: string) =>
    `${dashboardPath(organization)}/people/${userId}`;
  const crumbsOf = (organization: string, email: string) => [
    { text: 'People', href: `${dashboardPath(organization)}/people` },
    { text: email },
  ];

  door.get('/people/:userId', reads, async (visit, request, reply) => {
    const { organization, actor, may } = visit;
    const { userId = '' } = request.params;
    const person = await perform(personRead, { organization, userId }, actor, ports);
    const mayChange = may('people.manage') && (person.role !== 'owner' || may('owners.manage'));
    const done = queryText(request, 'done');
    const notice =
      done === 'role'
        ? 'The role is changed. It counts from the next request on.'
        : questions.find(({ path }) => path === done)?.done;
    const data = {
      ...person,
      groups: person.groups.map(({ name }) => name),
      now: ports.clock.now(),
      notice,
      roles: mayChange ? roleOptions(person.role, may('owners.manage')) : undefined,
      home: homeOf(organization, userId),
      questions: questions.filter(({ needs }) => may(needs)),
    };
    const crumbs = crumbsOf(organization, person.email);
    return sendDashboardPage(reply, visit, personPage, data, { crumbs });
  });

  door.post(
    '/people/:userId/role',
    manages,
    async ({ organization, actor }, sent, request, reply) => {
      const { userId = '' } = request.params;
      const { role } = await perform(personRead, { organization, userId }, actor, ports);
      const input = { organization, userId, role: sent.get('role') ?? role };
      await perform(personSetRole, input, actor, ports);
      const next = `${homeOf(organization, userId)}?done=role`;
      return seeOther(reply, next);
    },
  );

  for (const { path, text, heading, consequences, operation, needs } of questions) {
    questionRoutes(
      door,
      `/people/:userId/${path}`,
      { permission: needs, section: 'people' },
      {
        async ask({ organization, actor }, { params: { userId = '' } }) {
          const { email } = await perform(personRead, { organization, userId }, actor, ports);
          return {
            heading: heading(email),
            consequences,
            verb: text,
            cancel: homeOf(organization, userId),
            crumbs: crumbsOf(organization, email),
          };
        },
        async act({ organization, actor }, { params: { userId = '' } }) {
          await perform(operation, { organization, userId }, actor, ports);
          if (path === 'remove') return `${dashboardPath(organization)}/people?done=removed`;
          return `${homeOf(organization, userId)}?done=${path}`;
        },
      },
    );
  }
}

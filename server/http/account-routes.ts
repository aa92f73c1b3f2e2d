import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';

import { accountPage } from '#pages/account-page';
import { pageAssets } from '#pages/assets';
import type { FieldError } from '#pages/page';
import { passkeyDomain } from '#people/passkeys';
import { passwordProblem } from '#people/password-problem';
import { PeopleRefusal } from '#people/people-refusal';
import { isRecentProof } from '#people/recent-proof';
import { setPassword } from '#people/set-password';
import { signIn } from '#people/sign-in';
import { browserInWords } from '#people/user-agent';
import { currentPersonOf, type CurrentPerson } from './current-person.ts';
import { readPageForm } from './page-form.ts';
import type { PeoplePorts, PeopleRoutesOptions } from './people-ports.ts';
import { signInAfterPassword } from './prove-password.ts';
import { queryText } from './query-text.ts';
import { sendPage } from './send-page.ts';
import { deviceTokenOf, sendOnward, signInBrowser } from './sign-in-browser.ts';
import { signedIn } from './signed-in.ts';
import { visitOf } from './visit.ts';
import { waitInWords } from './wait-in-words.ts';

const notices: Readonly<Record<string, string>> = {
  'set-up':
    'You are the first owner. Your organization stands below; its page is where servers are made.',
  password: 'Your password is changed, and every other browser is signed out.',
  session: 'The session is ended.',
  sessions: 'Every other session is ended.',
  passkey: 'The passkey is added.',
  'passkey-removed': 'The passkey is removed and opens nothing any more.',
  withdrawn: 'The application has lost its access.',
  'totp-removed': 'The authenticator app is off, and its recovery codes are over.',
  linked: 'You can sign in with that account from now on.',
  unlinked: 'That account opens nothing here any more.',
};

/** `/account`: who I am, where I am signed in, what I allowed; and the changes to all that. */
export function accountRoutes(app: FastifyInstance, options: PeopleRoutesOptions): void {
  const { base, people } = options;
  const { sessions, clock } = people;
  const currentPerson = currentPersonOf(base, people);
  const show = async (
    reply: FastifyReply,
    person: CurrentPerson,
    { errors = [], notice }: { errors?: FieldError[]; notice?: string | undefined },
  ) => {
    const data = await accountData(person, options);
    const scripts = data.passkeys ? [pageAssets().passkeys.path] : [];
    const status = errors.length > 0 ? 422 : 200;
    return sendPage(reply, accountPage, { ...data, errors, notice }, { person, scripts, status });
  };

  const note = (
    request: FastifyRequest,
    { user }: CurrentPerson,
    what: { action: string; target: string },
  ) => {
    const { address, requestId } = visitOf(request);
    const where = { organization: undefined, address, requestId };
    const actor = `user:${user.id}`;
    return people.audit.append({ at: clock.now(), actor, ...what, ...where, outcome: 'done' });
  };

  app.get('/account', async (request, reply) => {
    const person = await signedIn(request, reply, currentPerson);
    if (!person) return reply;
    return show(reply, person, { notice: notices[queryText(request, 'done') ?? ''] });
  });

  app.post('/account/password', async (request, reply) => {
    const person = await signedIn(request, reply, currentPerson);
    if (!person) return reply;
    const form = readPageForm(request, base, person);
    const { user } = person;
    const password = form.get('password') ?? '';
    const problem = passwordProblem(password, form.get('repeated') ?? '', user.email);
    if (problem !== undefined) {
      return show(reply, person, { errors: [{ field: 'password', message: problem }] });
    }
    const deviceToken = deviceTokenOf(request, base);
    const typed = { email: user.email, password: form.get('current') ?? '', deviceToken };
    const proof = await signIn(typed, visitOf(request), people);
    if (proof.outcome !== 'signed-in') {
      const message =
        proof.outcome === 'wait'
          ? `There were too many wrong tries. Wait ${waitInWords(proof.waitSeconds)}, then try again.`
          : 'The current password is another one.';
      return show(reply, person, { errors: [{ field: 'current', message }] });
    }
    const hash = await people.hashing.hash(password);
    await people.together((stores) =>
      setPassword(user, hash, visitOf(request), { ...stores, clock }),
    );
    const [userId, next] = [user.id, '/account?done=password'];
    // A new session says that its factors were proved just now, and only the password was.
    if (person.session.factors === 1 || !isRecentProof(person.session, clock.now())) {
      return signInAfterPassword(request, reply, { userId, next }, options);
    }
    await signInBrowser(request, reply, { userId, factors: 2 }, options);
    return sendOnward(reply, next, base);
  });

  app.post<{ Params: { id: string } }>('/account/sessions/:id/end', async (request, reply) => {
    const person = await signedIn(request, reply, currentPerson);
    if (!person) return reply;
    readPageForm(request, base, person);
    const isEnded = await sessions.end(person.user.id, request.params.id);
    if (!isEnded) throw new PeopleRefusal('not_yours');
    await note(request, person, { action: 'session.end', target: request.params.id });
    return sendOnward(reply, '/account?done=session', base);
  });

  app.post('/account/sessions/end-others', async (request, reply) => {
    const person = await signedIn(request, reply, currentPerson);
    if (!person) return reply;
    readPageForm(request, base, person);
    await sessions.endAll(person.user.id, person.session.id);
    await note(request, person, { action: 'session.end-others', target: person.session.id });
    return sendOnward(reply, '/account?done=sessions', base);
  });

  async function accountData({ user, session }: CurrentPerson, { people: ports }: typeof options) {
    const { passkeys, passwords, identities, identityProvider: provider } = ports;
    const list = await sessions.list(user.id, clock.now());
    return {
      now: clock.now(),
      email: user.email,
      memberships: await ports.users.memberships(user.id),
      isRecent: isRecentProof(session, clock.now()),
      hasPassword: (await passwords.hashOf(user.id)) !== undefined,
      sessions: list.map(({ id, userAgent, address, createdAt, usedAt }) => ({
        id,
        address,
        createdAt,
        usedAt,
        browser: browserInWords(userAgent),
        isThis: id === session.id,
      })),
      passkeys: passkeyDomain(base) === undefined ? undefined : await passkeys.list(user.id),
      grants: await ports.grantsOf?.(user.id),
      secondFactor: await secondFactor(user.id, session.factors, ports),
      provider: provider && {
        name: provider.name,
        isLinked: await identities.isLinked(provider.issuer, user.id),
      },
    };
  }
}

async function secondFactor(
  userId: string,
  factors: 1 | 2,
  { totps, recoveryCodes, users, settings }: PeoplePorts,
) {
  const requiredBy: string[] = [];
  for (const { organization } of await users.memberships(userId)) {
    if ((await settings.of(organization))?.secondFactorRequired) requiredBy.push(organization);
  }
  const totp = await totps.of(userId);
  return {
    isOn: totp?.confirmedAt !== undefined,
    isProved: factors === 2,
    recoveryCodes: await recoveryCodes.count(userId),
    requiredBy: factors === 2 ? [] : requiredBy,
  };
}

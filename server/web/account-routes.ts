import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { AccountRefusal } from '#accounts/account-refusal';
import { passkeyDomain } from '#accounts/passkeys';
import { passwordProblem, setPassword } from '#accounts/passwords';
import { browserInWords, isRecentProof } from '#accounts/sessions';
import { signIn } from '#accounts/sign-in';
import type { Clock } from '#model/clock';
import { insertAuditEvent } from '#db/audit';
import { countRecoveryCodes, findPasswordHash, findTotp, listPasskeys } from '#db/authenticators';
import { listGrantsOfPerson } from '#db/grants';
import { hasIdentity, listMemberships } from '#db/people';
import { endSession, endSessions, listSessions } from '#db/sessions';
import { findSettings } from '#db/settings';
import { type Db, transaction } from '#db/transaction';
import { withdrawGrant, type WithdrawGrantPorts } from '#oauth/revocation';
import { type AccountGrant, accountPage } from './account.ts';
import { pageAssets } from './assets.ts';
import { scopeSentence } from '#model/scopes';
import { applicationName } from './consent.ts';
import type { FieldError } from './forms.ts';
import { pageErrors } from './page-errors.ts';
import { queryChoice, readPageForm, sendPage, takeForms } from './page-request.ts';
import {
  type CurrentPerson,
  currentPersonOf,
  type CurrentPersonPorts,
  signedIn,
  visitOf,
} from './page-session.ts';
import { knownPerson } from '#accounts/hashing-queue';
import {
  deviceTokenOf,
  type PeoplePorts,
  type PeopleRoutesOptions,
  sendOnward,
  signInAfterPassword,
  signInBrowser,
  waitInWords,
} from './sign-in-routes.ts';

const notices: Readonly<Record<string, string>> = {
  password: 'Password changed. You are signed out of all other browsers.',
  session: 'Session signed out.',
  sessions: 'All other sessions signed out.',
  passkey: 'Passkey added.',
  'passkey-removed': 'Passkey removed. You can no longer sign in with it.',
  withdrawn: 'Consent withdrawn. The application no longer has access.',
  'totp-removed': 'Authenticator app turned off. Its recovery codes no longer work.',
  linked: 'Account linked. You can now sign in with it.',
  unlinked: 'Account unlinked. You can no longer sign in with it.',
};

/** `/account`: the person's details, sessions and grants, and the forms that change them. */
export function accountRoutes(app: FastifyInstance, options: PeopleRoutesOptions): void {
  const { base, people } = options;
  const { db, clock } = people;
  const currentPerson = currentPersonOf(base, people);
  const show = async (
    reply: FastifyReply,
    person: CurrentPerson,
    { errors = [], notice }: { errors?: FieldError[]; notice?: string | undefined },
  ) => {
    const data = await accountData(person, options);
    const scripts = data.passkeys ? [pageAssets().passkeys.path] : [];
    return sendPage(reply, accountPage, { ...data, errors, notice }, { person, scripts });
  };

  const note = (
    request: FastifyRequest,
    { user }: CurrentPerson,
    what: { action: string; target: string },
    tx: Db,
  ) => {
    const { address, requestId } = visitOf(request);
    const where = { organization: undefined, address, requestId };
    const actor = `user:${user.id}`;
    return insertAuditEvent(tx, {
      at: clock.now(),
      actor,
      ...what,
      ...where,
      outcome: 'done',
    });
  };

  app.get('/account', async (request, reply) => {
    const person = await signedIn(request, reply, currentPerson);
    if (!person) return reply;
    return show(reply, person, { notice: queryChoice(request, 'done', notices) });
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
          ? `Too many failed attempts. Wait ${waitInWords(proof.waitSeconds)}, then try again.`
          : 'The current password is incorrect.';
      return show(reply, person, { errors: [{ field: 'current', message }] });
    }
    const hash = await people.hashing.hash(password, knownPerson(user));
    await transaction(db, (tx) => setPassword(user, hash, visitOf(request), { db: tx, clock }));
    const [userId, next] = [user.id, '/account?done=password'];
    // A new session counts as a proof of two factors, but here only the password was checked.
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
    const target = request.params.id;
    await transaction(db, async (tx) => {
      if (!(await endSession(tx, person.user.id, target))) throw new AccountRefusal('not_found');
      await note(request, person, { action: 'session.end', target }, tx);
    });
    return sendOnward(reply, '/account?done=session', base);
  });

  app.post('/account/sessions/end-others', async (request, reply) => {
    const person = await signedIn(request, reply, currentPerson);
    if (!person) return reply;
    readPageForm(request, base, person);
    const target = person.session.id;
    await transaction(db, async (tx) => {
      await endSessions(tx, person.user.id, target);
      await note(request, person, { action: 'session.end-others', target }, tx);
    });
    return sendOnward(reply, '/account?done=sessions', base);
  });

  async function accountData({ user, session }: CurrentPerson, { people: ports }: typeof options) {
    const { identityProvider: provider } = ports;
    const list = await listSessions(db, user.id, clock.now());
    return {
      now: clock.now(),
      email: user.email,
      memberships: (await listMemberships(ports.db, user.id)).map(
        ({ organization: name, title, role }) => ({ organization: { name, title }, role }),
      ),
      isRecent: isRecentProof(session, clock.now()),
      hasPassword: (await findPasswordHash(db, user.id)) !== undefined,
      sessions: list.map(({ id, userAgent, address, createdAt, usedAt }) => ({
        id,
        address,
        createdAt,
        usedAt,
        browser: browserInWords(userAgent),
        isThis: id === session.id,
      })),
      passkeys: passkeyDomain(base) === undefined ? undefined : await listPasskeys(db, user.id),
      grants: await ports.grantsOf?.(user.id),
      secondFactor: await secondFactor(user.id, session.factors, ports),
      provider: provider && {
        name: provider.name,
        isLinked: await hasIdentity(db, provider.issuer, user.id),
      },
    };
  }
}

async function secondFactor(userId: string, factors: 1 | 2, { db }: PeoplePorts) {
  const requiredBy: string[] = [];
  for (const { organization } of await listMemberships(db, userId)) {
    if ((await findSettings(db, organization))?.secondFactorRequired) requiredBy.push(organization);
  }
  const totp = await findTotp(db, userId);
  return {
    isOn: totp?.confirmedAt !== undefined,
    isProved: factors === 2,
    recoveryCodes: await countRecoveryCodes(db, userId),
    requiredBy: factors === 2 ? [] : requiredBy,
  };
}

export interface AccountGrantRoutesOptions {
  readonly base: string;
  readonly ports: Omit<WithdrawGrantPorts, 'source'> & CurrentPersonPorts;
}

/** `POST /account/grants/{id}/withdraw`: revokes a grant of the person. */
export function accountGrantRoutes(
  app: FastifyInstance,
  { base, ports }: AccountGrantRoutesOptions,
): void {
  takeForms(app);
  app.setErrorHandler(pageErrors(base, ports));
  const currentPerson = currentPersonOf(base, ports);
  app.post<{ Params: { id: string } }>('/account/grants/:id/withdraw', async (request, reply) => {
    const person = await signedIn(request, reply, currentPerson);
    if (!person) return reply;
    readPageForm(request, base, person);
    const { id: grantId } = request.params;
    const source = visitOf(request);
    const isDone = await withdrawGrant(grantId, person.user.id, { ...ports, source });
    if (!isDone) throw new AccountRefusal('not_found');
    return sendOnward(reply, '/account?done=withdrawn', base);
  });
}

/** The grants of a person, for the account page. */
export function accountGrantsOf(db: Db, clock: Clock) {
  return async (userId: string): Promise<AccountGrant[]> => {
    const list = await listGrantsOfPerson(db, userId, clock.now());
    return list.map(
      ({ id, clientName, assistant, serverPath, titles, scopes, createdAt, lastUsedAt }) => {
        const [organization = '', server = ''] = serverPath.split('/');
        return {
          id,
          client: applicationName({ clientName, assistant }),
          organization: { name: organization, title: titles.organization },
          server: { name: server, title: titles.server },
          scopes: scopes.map((scope) => scopeSentence(scope).text),
          createdAt,
          lastUsedAt,
        };
      },
    );
  };
}

import { takeRawBodies } from '#http/body';
import type { FastifyInstance, FastifyReply } from 'fastify';
import { AccountRefusal } from '#accounts/account-refusal';
import { passkeyDomain } from '#accounts/passkeys';
import { passwordProblem, setPassword } from '#accounts/passwords';
import { browserInWords, isRecentProof } from '#accounts/sessions';
import { signIn } from '#accounts/sign-in';
import type { Clock } from '#model/clock';
import { countRecoveryCodes, findPasswordHash, findTotp, listPasskeys } from '#db/authenticators';
import { findGrant, listDecisionsOfPerson } from '#db/grants';
import { listMemberships } from '#db/people';
import { hasIdentity } from '#db/identities';
import { endSession, endSessions, listSessions } from '#db/sessions';
import { findSettings } from '#db/settings';
import { type Db, transaction } from '#db/transaction';
import type { NotePorts } from '#oauth/audit-notes';
import { allowGrant, withdrawGrant } from '#oauth/revocation';
import { type AccountGrant, accountPage } from './account.ts';
import { accessName, deviceName, withdrawnWords } from './access-words.ts';
import { pageAssets } from './assets.ts';
import { scopeSentence } from '#model/scopes';
import { applicationName } from './consent.ts';
import type { FieldError } from './forms.ts';
import { pageErrors } from './page-errors.ts';
import { selectionWords } from './tool-choice.ts';
import { usualFormBytes, queryChoice, queryText, sendPage } from './page-request.ts';
import {
  type CurrentPerson,
  type CurrentPersonPorts,
  type PersonForm,
  personGuard,
  visitOf,
} from './page-session.ts';
import { knownPerson } from '#accounts/hashing-queue';
import { partsOf } from '#model/slug';
import {
  type AccountForm,
  type AccountGuards,
  type AccountPage,
  deviceTokenOf,
  noteAccountEvent,
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
  allowed: 'Allowed again. The application has access as soon as it asks for it.',
  'totp-removed': 'Authenticator app turned off. Its recovery codes no longer work.',
  linked: 'Account linked. You can now sign in with it.',
  unlinked: 'Account unlinked. You can no longer sign in with it.',
};

/** `/account`: the person's details, sessions and grants, and the forms that change them. */
export function accountRoutes(guard: AccountGuards['person']): void {
  guard.get('/account', showAccount);
  guard.post('/account/password', changePassword);
  guard.post('/account/sessions/:id/end', signOutSession);
  guard.post('/account/sessions/end-others', signOutOthers);
}

const showAccount: AccountPage = async (person, request, reply, options) => {
  const withdrawn = queryText(request, 'withdrawn');
  const grant = withdrawn === undefined ? undefined : await findGrant(options.people.db, withdrawn);
  const isOver = grant?.userId === person.user.id && grant.revokedAt !== undefined;
  const notice = isOver ? withdrawnWords(grant) : queryChoice(request, 'done', notices);
  return sendAccount(person, reply, { notice }, options);
};

async function sendAccount(
  person: CurrentPerson,
  reply: FastifyReply,
  { errors = [], notice }: { errors?: FieldError[]; notice?: string | undefined },
  options: PeopleRoutesOptions,
) {
  const data = await accountData(person, options);
  const scripts = data.passkeys ? [pageAssets().passkeys.path] : [];
  return sendPage(reply, accountPage, { ...data, errors, notice }, { person, scripts });
}

const changePassword: AccountForm = async (person, form, request, reply, options) => {
  const { base, people } = options;
  const { db, clock } = people;
  const { user } = person;
  const again = (field: string, message: string) =>
    sendAccount(person, reply, { errors: [{ field, message }] }, options);
  const password = form.get('password') ?? '';
  const problem = passwordProblem(password, form.get('repeated') ?? '', user.email);
  if (problem !== undefined) return again('password', problem);
  const deviceToken = deviceTokenOf(request, base);
  const typed = { email: user.email, password: form.get('current') ?? '', deviceToken };
  const proof = await signIn(typed, visitOf(request), people);
  if (proof.outcome === 'wait') {
    const wait = waitInWords(proof.waitSeconds);
    return again('current', `Too many failed attempts. Wait ${wait}, then try again.`);
  }
  if (proof.outcome === 'refused') return again('current', 'The current password is incorrect.');
  const hash = await people.hashing.hash(password, knownPerson(user));
  await transaction(db, (tx) => setPassword(user, hash, visitOf(request), { db: tx, clock }));
  const [userId, next] = [user.id, '/account?done=password'];
  // A new session with two factors would count as a recent proof of both, but only the password was checked here.
  if (person.session.factors === 1 || !isRecentProof(person.session, clock.now())) {
    return signInAfterPassword(request, reply, { userId, next }, options);
  }
  await signInBrowser(request, reply, { userId, factors: 2 }, options);
  return sendOnward(reply, next, base);
};

const signOutSession: AccountForm = async (person, _form, request, reply, { base, people }) => {
  const userId = person.user.id;
  const { id: target = '' } = request.params;
  await transaction(people.db, async (tx) => {
    if (!(await endSession(tx, userId, target))) throw new AccountRefusal('not_found');
    const event = { userId, action: 'session.end', target, outcome: 'done' } as const;
    await noteAccountEvent(request, event, { ...people, db: tx });
  });
  return sendOnward(reply, '/account?done=session', base);
};

const signOutOthers: AccountForm = async (person, _form, request, reply, { base, people }) => {
  const { id: target, userId } = person.session;
  await transaction(people.db, async (tx) => {
    await endSessions(tx, userId, target);
    const event = { userId, action: 'session.end-others', target, outcome: 'done' } as const;
    await noteAccountEvent(request, event, { ...people, db: tx });
  });
  return sendOnward(reply, '/account?done=sessions', base);
};

/** The data of the account page. */
async function accountData(
  { user, session }: CurrentPerson,
  { base, people }: PeopleRoutesOptions,
) {
  const { identityProvider: provider, db } = people;
  const now = people.clock.now();
  const list = await listSessions(db, user.id, now);
  return {
    now,
    email: user.email,
    memberships: (await listMemberships(db, user.id)).map(
      ({ organization: name, title, role }) => ({ organization: { name, title }, role }),
    ),
    isRecent: isRecentProof(session, now),
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
    grants: await people.grantsOf?.(user.id),
    secondFactor: await secondFactor(user.id, session.factors, people),
    provider: provider && {
      name: provider.name,
      isLinked: await hasIdentity(db, provider.issuer, user.id),
    },
  };
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
  readonly ports: Omit<NotePorts, 'source'> & CurrentPersonPorts;
}

/** `POST /account/grants/{id}/withdraw` and `/allow`: revokes a grant of the person, and lets a provider give it again. */
export function accountGrantRoutes(
  app: FastifyInstance,
  { base, ports }: AccountGrantRoutesOptions,
): void {
  takeRawBodies(app, usualFormBytes);
  app.setErrorHandler(pageErrors(base, ports));
  const guard = personGuard(app, ports, { base, ports });
  guard.post('/account/grants/:id/withdraw', withdrawOwnGrant);
  guard.post('/account/grants/:id/allow', allowOwnGrant);
}

const withdrawOwnGrant: PersonForm<AccountGrantRoutesOptions> = async (
  { user },
  _form,
  request,
  reply,
  { base, ports },
) => {
  const { id = '' } = request.params;
  const isDone = await withdrawGrant(id, user.id, { ...ports, source: visitOf(request) });
  if (!isDone) throw new AccountRefusal('not_found');
  return sendOnward(reply, `/account?withdrawn=${id}`, base);
};

const allowOwnGrant: PersonForm<AccountGrantRoutesOptions> = async (
  { user },
  _form,
  request,
  reply,
  { base, ports },
) => {
  const { id = '' } = request.params;
  const isDone = await allowGrant(id, user.id, { ...ports, source: visitOf(request) });
  if (!isDone) throw new AccountRefusal('not_found');
  return sendOnward(reply, '/account?done=allowed', base);
};

/** The grants of a person, for the account page. */
export function accountGrantsOf(db: Db, clock: Clock) {
  return async (userId: string): Promise<AccountGrant[]> => {
    const list = await listDecisionsOfPerson(db, userId, clock.now());
    return list.map(
      ({ id, serverPath, titles, device, scopes, createdAt, lastUsedAt, ...grant }) => {
        const { organization, server } = partsOf(serverPath);
        return {
          id,
          client: applicationName(grant),
          access: accessName({ serverPath, titles, device }),
          device: device && { id: device.id, name: deviceName(device) },
          organization: { name: organization, title: titles.organization },
          server: { name: server, title: titles.server },
          scopes: scopes.map((scope) => scopeSentence(scope).text),
          tools: grant.tools.type === 'all' ? undefined : selectionWords(grant.tools),
          createdAt,
          lastUsedAt,
          isByProvider: grant.isByAssertion ?? false,
          isWithdrawn: grant.revokedAt !== undefined,
        };
      },
    );
  };
}
